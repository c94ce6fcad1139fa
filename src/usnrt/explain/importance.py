"""Which features the predicted mean and standard deviation depend on, over a whole table."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from usnrt.calibration.landmarks import evenly
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.targets import read_target
from usnrt.explain.shapley import Contributions, Moments, feature_groups, shapley_values
from usnrt.model.background import N_BACKGROUND
from usnrt.utils.constraints import check_whole
from usnrt.utils.result_table import Table
from usnrt.utils.types import Floats, TableLike

# Predictions that the contributions of all rows may take, and the smallest number of rows and of background rows.
MAX_PREDICTIONS, MIN_ROWS, MIN_BACKGROUND = 1_000_000, 20, 4


def uncertainty_importance(
    model: DistributionalRegressor,
    X: TableLike,
    y: ArrayLike | None = None,
    *,
    n_rows: int = 200,
    random_state: int = 0,
) -> Table:
    """How much each column contributes to the predicted mean and standard deviation, on average over rows.

    Contributions are Shapley values: differences from the average prediction for the table, divided among the columns
    (see `usnrt.explain.shapley`). Their mean absolute value is the importance, in units of the target.

    Parameters
    ----------
    model : DistributionalRegressor
        Any fitted model of the library.
    X : array-like or data frame of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
        With targets, also how much the CRPS rises if a column is permuted between the rows.
    n_rows : int, default=200
        Number of rows, evenly spaced among those of X, that are explained; fewer for wide tables.
    random_state : int, default=0
        Seed of the background rows and permutations.

    Returns
    -------
    Table
        One row per column of X, the most important one for the standard deviation first: ``feature``, ``std``,
        ``std_error`` (standard error over the rows), ``mean``, ``mean_error`` and with targets ``crps``,
        ``crps_error``.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt import USNRTRegressor, uncertainty_importance
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (600, 2))
    >>> y = 3 * X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=600)
    >>> model = USNRTRegressor(min_samples_leaf=200, max_epochs=30, random_state=0).fit(X, y)
    >>> table = uncertainty_importance(model, X, n_rows=50)
    >>> table.columns
    ['feature', 'std', 'std_error', 'mean', 'mean_error']
    >>> [str(table["feature"][np.argmax(table[name])]) for name in ("std", "mean")]
    ['x0', 'x1']
    """
    check_whole("n_rows", n_rows, 2)
    raw = model._encode(X)
    target = None if y is None else read_target(y)
    if target is not None and len(target) != len(raw):
        raise ValueError(f"y must have one value per row of X ({len(raw)}), got {len(target)}")
    return importance_of_encoded(model, raw, target, n_rows, random_state)


def importance_of_encoded(
    model: DistributionalRegressor, raw: Floats, y: Floats | None, n_rows: int = 200, seed: int = 0
) -> Table:
    """`uncertainty_importance` of encoded rows."""
    names, groups = model.encoder_.source_names_, feature_groups(model)
    found = contributions(model, raw, n_rows, seed)
    size = np.abs(found.values)
    average, error = size.mean(axis=0), size.std(axis=0, ddof=min(1, len(size) - 1)) / np.sqrt(len(size))
    columns: dict[str, Any] = {
        "feature": names, "std": average[:, 1], "std_error": error[:, 1], "mean": average[:, 0],
        "mean_error": error[:, 0],
    }  # fmt: skip
    if y is not None:
        columns["crps"], columns["crps_error"] = _crps_rise(model, raw, y, groups, seed)
    order = np.argsort(-average[:, 1], kind="stable")
    return Table({name: np.asarray(values)[order] for name, values in columns.items()})


def contributions(model: DistributionalRegressor, raw: Floats, n_rows: int = 200, seed: int = 0) -> Contributions:
    """Contributions to mean and standard deviation of some of the rows, compared with others of them."""
    groups = feature_groups(model)
    n_background = N_BACKGROUND
    while n_background > MIN_BACKGROUND and MIN_ROWS * 2 * n_background * len(groups) > MAX_PREDICTIONS:
        n_background //= 2
    most = max(MAX_PREDICTIONS // (2 * n_background * len(groups)), MIN_ROWS)
    moments, rng = Moments(model), np.random.default_rng(seed)
    usual = moments.nearest_supported(raw)
    rows = usual[evenly(len(raw), min(n_rows, most))]
    background = usual[np.resize(rng.permutation(len(raw)), n_background)]
    return shapley_values(moments, rows, background[None], np.zeros(len(rows), dtype=np.int64), groups, 1, seed)


def _crps_rise(
    model: DistributionalRegressor, raw: Floats, y: Floats, groups: list[list[int]], seed: int
) -> tuple[Floats, Floats]:
    """Rise of the mean CRPS if the columns of a feature are permuted between the rows, and its standard error."""
    some = evenly(len(raw), max(MAX_PREDICTIONS // (20 * len(groups)), MIN_ROWS))
    raw, y = raw[some], y[some]
    order = np.random.default_rng(seed).permutation(len(raw))

    def crps(rows: Floats) -> Floats:
        return model._predict_dist(rows, parts=False).crps(y)

    before, rise, error = crps(raw), [], []
    for columns in groups:
        permuted = raw.copy()
        permuted[:, columns] = raw[order][:, columns]
        change = crps(permuted) - before
        rise.append(change.mean())
        error.append(change.std() / np.sqrt(max(len(change) - 1, 1)))
    return np.array(rise), np.array(error)
