"""Groups of test rows: the regions of a fitted tree, and groups that none of the compared models chose."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.types import Floats

# Smaller groups say little: the coverage of 20 rows has a standard error of 7 points.
MIN_GROUP_ROWS = 20
N_BINS = 5
MAX_LEVELS = 12
IMPORTANCE_ROWS = 3000
Codes = NDArray[np.intp]


def neutral_groups(X_train: Any, y_train: Floats, X_test: Any, seed: int) -> dict[str, Codes]:
    """Three ways to divide the test rows that no compared model chose; all are found on training rows.

    Parameters
    ----------
    X_train, X_test : frames
    y_train : ndarray of shape (n,)
    seed : int

    Returns
    -------
    dict of str to ndarray of int of shape (n_test,)
        ``feature``: fifths of the numeric feature with the largest mutual information with the target;
        ``category``: levels of the first categorical feature with at most 12 levels; ``difficulty``: fifths of the
        absolute error that scikit-learn's histogram boosting predicts. Those that a table does not have are left out.
    """
    train, test = numeric_matrix(X_train), numeric_matrix(X_test)
    found = {}
    is_numeric = numeric_columns(X_train)
    if is_numeric.any():
        best = _most_informative(train, y_train, np.flatnonzero(is_numeric), seed)
        found["feature"] = fifths(train[:, best], test[:, best])
    for name in X_train.columns[~is_numeric]:
        levels = X_train[name].cat.categories
        if 2 <= len(levels) <= MAX_LEVELS:
            found["category"] = X_test[name].cat.codes.to_numpy(dtype=np.intp)
            break
    found["difficulty"] = fifths(*_difficulty(train, y_train, test, seed))
    return {name: codes for name, codes in found.items() if len(np.unique(codes)) > 1}


def numeric_matrix(X: Any) -> Floats:
    """A frame of numbers and categories as numbers; categories as their codes, of all levels of the dtype."""
    columns = [
        X[name].to_numpy(dtype=float) if is_numeric else X[name].cat.codes.to_numpy(dtype=float)
        for name, is_numeric in zip(X.columns, numeric_columns(X))
    ]
    return np.column_stack(columns)


def numeric_columns(X: Any) -> NDArray[np.bool_]:
    """Which columns of a frame are numbers, shape (d,)."""
    return np.array([getattr(kind, "kind", "O") in "iufb" for kind in X.dtypes])


def fifths(train: Floats, test: Floats) -> Codes:
    """Bin of each test value, shape (m,); bins have equal numbers of training values, equal values share a bin.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt_experiments.coverage.groups import fifths
    >>> fifths(np.arange(100.0), np.array([-5.0, 25.0, 99.0]))
    array([0, 1, 4])
    """
    edges = np.unique(np.nanquantile(train, np.arange(1, N_BINS) / N_BINS))
    return np.searchsorted(edges, test, side="left")


def _most_informative(X: Floats, y: Floats, candidates: Codes, seed: int) -> int:
    from sklearn.feature_selection import mutual_info_regression

    rng = np.random.default_rng(seed)
    rows = rng.choice(len(y), min(IMPORTANCE_ROWS, len(y)), replace=False)
    values = np.nan_to_num(X[np.ix_(rows, candidates)])
    information = mutual_info_regression(values, y[rows], random_state=seed)
    # A feature that is mostly one value has no fifths.
    n_bins = np.array([len(np.unique(fifths(X[:, j], X[:, j]))) for j in candidates])
    return int(candidates[np.argmax(np.where(n_bins >= min(3, n_bins.max()), information, -1.0))])


def _difficulty(train: Floats, y: Floats, test: Floats, seed: int) -> tuple[Floats, Floats]:
    """Absolute error that a booster predicts for training and test rows."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    booster = HistGradientBoostingRegressor(max_iter=60, early_stopping=False, random_state=seed)
    folds = KFold(3, shuffle=True, random_state=seed)
    errors = np.abs(y - cross_val_predict(booster, train, y, cv=folds))
    booster.fit(train, errors)
    return booster.predict(train), booster.predict(test)


def counts(codes: Codes, inside: NDArray[np.bool_], width: Floats, score: Floats) -> list[dict[str, float]]:
    """Rows, covered rows, mean width and mean interval score of every group with enough rows.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
    inside : ndarray of bool of shape (n,)
    width, score : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt_experiments.coverage.groups import counts
    >>> counts(np.repeat([3, 7], [40, 5]), np.arange(45) > 9, np.ones(45), np.ones(45))
    [{'id': 3, 'n': 40, 'inside': 30, 'width': 1.0, 'interval_score': 1.0}]
    """
    rows = []
    for code in np.unique(codes):
        here = codes == code
        if here.sum() >= MIN_GROUP_ROWS:
            facts: dict[str, float] = {"id": int(code), "n": int(here.sum()), "inside": int(inside[here].sum())}
            facts |= {"width": float(f"{width[here].mean():.6g}")}
            rows.append(facts | {"interval_score": float(f"{score[here].mean():.6g}")})
    return rows
