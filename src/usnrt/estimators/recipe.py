"""From the parameters of a regressor to a grown tree: checks, networks, schedules."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from usnrt.nn.device import MARGIN, DeviceTable
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.mlp import MLP, hidden_sizes
from usnrt.nn.quantile_functions import conformity_scores
from usnrt.nn.quantiles import N_OUTPUTS, quantile_function_mean
from usnrt.nn.train import History, Training
from usnrt.tables.training import TrainingTable
from usnrt.tree.criteria import CRITERIA
from usnrt.tree.from_scratch import FromScratch
from usnrt.tree.grow import Growth, grow
from usnrt.tree.model import TreeModel
from usnrt.tree.refine import Refinement
from usnrt.tree.schedule import Schedule
from usnrt.tree.spread import QuantileSpread, Spread, TrainingContext, VarianceSpread
from usnrt.tree.warm_start import WarmStart
from usnrt.utils.checks import (
    check_applies,
    check_choice,
    check_flag,
    check_number,
    check_running,
    check_whole,
    has_default,
)
from usnrt.utils.progress import Progress

# The paper's recipe to the letter.
PAPER: dict[str, Any] = {
    "alpha": 0.01,
    "max_leaves": 10,
    "min_samples_leaf": None,
    "max_depth": None,
    "bonferroni": False,
    "criterion": "levene",
    "holdout": "node",
    "inherit": False,
    "spread": "variance",
    "encoding": None,
    "split_hidden": ("8d", "4d"),
    "mean_hidden": ("4d", "2d"),
    "variance_hidden": ("4d", "2d"),
    "n_alternations": 2,
    "learning_rate": 0.01,
    "weight_decay": 0.0,
    "average": 0.0,
    "batch_size": 64,
    "max_epochs": 1000,
    "validation_fraction": 0.2,
    "calibration": None,
    "calibration_fraction": 0.0,
}


@dataclass
class FittedTree:
    """A fitted tree, and what its fit left behind.

    Attributes
    ----------
    model : TreeModel
    held_rows : ndarray of int
        Rows of the table that have a score.
    scores : ndarray
        Their residuals over their predicted standard deviations, by networks that did not learn from them.
    history : list of dict of str to History
        One a node.
    """

    model: TreeModel
    held_rows: NDArray[np.intp]
    scores: NDArray[np.float64]
    history: list[dict[str, History]]


def check_parameters(model: Any) -> None:
    """Check all parameters of a regressor, one sentence for the first that is wrong."""
    check_number("alpha", model.alpha, 0, 1)
    check_whole("max_leaves", model.max_leaves, 1)
    check_whole("min_samples_leaf", model.min_samples_leaf, 1, optional=True)
    check_whole("max_depth", model.max_depth, 0, optional=True)
    check_flag("bonferroni", model.bonferroni)
    check_choice("criterion", model.criterion, CRITERIA)
    check_choice("holdout", model.holdout, ("tree", "node"))
    check_flag("inherit", model.inherit)
    check_choice("spread", model.spread, ("quantiles", "variance"))
    if model.encoding is not None:
        check_choice("encoding", model.encoding, ("piecewise",))
    check_whole("n_bins", model.n_bins, 1)
    check_whole("n_alternations", model.n_alternations, 1)
    check_number("learning_rate", model.learning_rate, 0, np.inf)
    check_number("weight_decay", model.weight_decay, 0, np.inf, include_low=True)
    check_number("average", model.average, 0, 1, include_low=True)
    if model.batch_size != "auto":
        check_whole("batch_size", model.batch_size, 1, MARGIN)
    check_whole("max_epochs", model.max_epochs, 1)
    check_number("validation_fraction", model.validation_fraction, 0, 1)
    check_number("calibration_fraction", model.calibration_fraction, 0, 1, include_low=True)
    if model.calibration is not None:
        check_choice("calibration", model.calibration, ("leaf", "global"))
    check_running(model.n_jobs, model.verbose, model.callbacks)
    _check_modes(model)


def _check_modes(model: Any) -> None:
    """Refuse parameters that do not go together, and those that the others leave unused."""
    if model.holdout == "node" and (model.inherit or model.encoding is not None or model.spread != "variance"):
        raise ValueError(
            "holdout='node' trains every node from nothing on plain numbers: inherit must be False, encoding None and "
            f"spread 'variance', got inherit={model.inherit!r}, encoding={model.encoding!r}, "
            f"spread={model.spread!r}"
        )
    if model.holdout == "node" and model.calibration is not None and model.calibration_fraction == 0:
        raise ValueError(
            "holdout='node' leaves no rows to calibrate with: calibration must be None or calibration_fraction "
            f"positive, got {model.calibration!r}"
        )
    check_applies(model, "split_hidden", holdout="node")
    check_applies(model, "n_alternations", holdout="node")
    check_applies(model, "n_bins", encoding="piecewise")
    check_applies(model, "max_leaves", min_samples_leaf=None)
    check_applies(model, "calibration_fraction", calibration=("leaf", "global"))


def check_member_parameters(recipe: Any) -> None:
    """Check the parameters of the recipe of an ensemble's members: what only the ensemble can set is refused.

    Examples
    --------
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.estimators.recipe import check_member_parameters
    >>> check_member_parameters(USNRTRegressor(n_jobs=3))
    Traceback (most recent call last):
        ...
    ValueError: estimator.n_jobs is not used, set n_jobs of the ensemble, got 3
    """
    check_parameters(recipe)
    for name in ("n_jobs", "verbose"):
        if not has_default(recipe, name):
            raise ValueError(f"estimator.{name} is not used, set {name} of the ensemble, got {getattr(recipe, name)!r}")
    if recipe.holdout == "tree" and not has_default(recipe, "validation_fraction"):
        raise ValueError(
            "estimator.validation_fraction is not used with holdout='tree', where members hold out folds: set "
            f"n_members of the ensemble, got {recipe.validation_fraction!r}"
        )


def warn_if_diverged(model: Any, history: Mapping[str, Mapping[str, History]], learning_rate: float) -> None:
    """One warning per fit if some of its trainings ended in NaN or infinity; to be called from ``_fit``.

    Parameters
    ----------
    model : estimator
    history : mapping of str to mapping of str to History
        The trainings by their names, of each part of the model (a node, a member) by its name.
    learning_rate : float
        The parameter that the trainings had.

    Examples
    --------
    >>> import warnings
    >>> from usnrt import USNRTRegressor
    >>> from usnrt.nn.train import History
    >>> from usnrt.estimators.recipe import warn_if_diverged
    >>> history = {"node 0": {"mean": History(diverged=True), "quantiles": History()}}
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_diverged(USNRTRegressor(), history, learning_rate=9.0)
    >>> str(caught[0].message)[:86]
    'USNRTRegressor: the loss became NaN or infinite in 1 of 2 trainings (node 0 mean); the'
    """
    trainings = [
        (name if name == part else f"{part} {name}", course)
        for part, courses in history.items()
        for name, course in courses.items()
    ]
    diverged = [name for name, course in trainings if course.diverged]
    if not diverged:
        return
    more = f" and {len(diverged) - 3} more" if len(diverged) > 3 else ""
    warnings.warn(
        f"{type(model).__name__}: the loss became NaN or infinite in {len(diverged)} of {len(trainings)} trainings "
        f"({', '.join(diverged[:3])}{more}); the last good weights were kept. "
        f"Use a lower learning_rate, got {learning_rate}",
        ConvergenceWarning,
        stacklevel=4,
    )


def smallest_leaf(model: Any, table: TrainingTable) -> float:
    """The smallest number of rows in a leaf, counted with their weights."""
    if model.min_samples_leaf is not None:
        return float(model.min_samples_leaf)
    n_rows = float(table.weight.sum())
    if model.max_leaves > max(n_rows, PAPER["max_leaves"]):  # the default is fine for the smallest table
        raise ValueError(f"max_leaves must be at most the number of rows, {n_rows:g}, got {model.max_leaves}")
    return max(n_rows / model.max_leaves, 1000.0)


def fit_tree(
    model: Any,
    table: TrainingTable,
    numeric: NDArray[np.int64],
    n_categories: NDArray[np.int64],
    held_out: NDArray[np.bool_],
    seed: int,
    n_threads: int,
    progress: Progress,
) -> FittedTree:
    """Grow one tree with the parameters of a regressor.

    Parameters
    ----------
    model : USNRTRegressor
        Whose parameters count.
    table : TrainingTable
    numeric : ndarray of int
        The input columns that hold numbers.
    n_categories : ndarray of int of shape (d,)
    held_out : ndarray of bool of shape (n,)
        Rows to hold out for the whole tree, with ``holdout="tree"``.
    seed : int
    n_threads : int
    progress : Progress

    Returns
    -------
    FittedTree
    """
    how = Growth(model.alpha, smallest_leaf(model, table), model.max_depth, model.bonferroni, model.criterion)
    encoding = None
    if model.encoding == "piecewise":
        encoding = PiecewiseLinear.fit(table.inputs[~held_out], numeric, model.n_bins)
    n_inputs = table.inputs.shape[1] if encoding is None else encoding.n_outputs
    d = table.raw.shape[1]

    def sizes(hidden: Sequence[int | str], name: str, n_outputs: int = 1) -> tuple[int, ...]:
        return (n_inputs, *hidden_sizes(hidden, d, name), n_outputs)

    mean_network = MLP(sizes(model.mean_hidden, "mean_hidden"))
    device_table = DeviceTable(table.inputs, encoding)
    strategy: FromScratch | WarmStart
    if model.holdout == "node":
        variance_network = MLP(sizes(model.variance_hidden, "variance_hidden"), "tanh", "softplus")
        split_network = MLP(sizes(model.split_hidden, "split_hidden"))
        training = _training(model, 64, "constant")
        strategy = FromScratch(
            table, device_table, split_network, mean_network, variance_network, training, model.validation_fraction,
            model.n_alternations, progress,
        )  # fmt: skip
    else:
        # Copies count: a batch of few distinct rows of very different weights would be one of much fewer rows.
        training = _training(model, batch_size_for(float(table.weight[~held_out].sum())), "cosine")
        schedule = Schedule(mean=training, variance=training, max_epochs=model.max_epochs)
        context = TrainingContext(table, device_table, encoding, schedule, progress)
        spread: Spread
        if model.spread == "quantiles":
            variance_network = MLP(sizes(model.variance_hidden, "variance_hidden", N_OUTPUTS))
            spread = QuantileSpread(context, variance_network, model.inherit)
        else:
            variance_network = MLP(sizes(model.variance_hidden, "variance_hidden"), "relu", "exp")
            spread = VarianceSpread(context, variance_network, mean_network, model.calibration is not None)
        strategy = WarmStart(context, mean_network, spread, held_out, model.inherit)
    grown = grow(table, n_categories, how, strategy, seed, n_threads, progress)
    leaves = grown.leaves
    fitted = TreeModel(
        grown.tree,
        mean_network,
        variance_network,
        [leaf.mean for leaf in leaves],
        [[leaf.variance[k] for leaf in leaves] for k in range(len(leaves[0].variance))],
        encoding,
    )
    scored = [leaf.scores for leaf in leaves if leaf.scores is not None]
    rows = np.concatenate([pair[0] for pair in scored]) if scored else np.zeros(0, dtype=np.intp)
    scores = np.concatenate([pair[1] for pair in scored]) if scored else np.zeros(0)
    if fitted.predicts_quantiles:
        scores = _refine(fitted, table, rows)
    return FittedTree(fitted, rows, scores, [node.history for node in grown.nodes])


def _refine(model: TreeModel, table: TrainingTable, validation: NDArray[np.intp]) -> NDArray[np.float64]:
    """Let validation rows blend the two means and refine the quantile functions; returns their conformity scores."""
    y, weight = table.y[validation], table.weight[validation]
    leaf, mean, quantiles = model.quantile_functions(table.raw[validation], table.inputs[validation])
    model.blend = _blend(mean, quantile_function_mean(quantiles), y, weight)
    mean = mean + model.blend * (quantile_function_mean(quantiles) - mean)
    model.refinement = Refinement.fit(leaf, mean, quantiles, y, weight, model.tree.n_leaves)
    return conformity_scores(model.refinement.apply(leaf, mean, quantiles), y)


def _blend(
    mean: NDArray[np.float64], other: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> float:
    """The share of another prediction of the mean that makes the squared error of validation rows smallest.

    Two networks err differently, so their mean errs less than either; but quantiles know little of far tails.
    """
    gap = other - mean
    share = np.average(gap * (y - mean), weights=weight) / max(np.average(gap**2, weights=weight), 1e-12)
    return float(np.clip(share, 0.0, 1.0))


def batch_size_for(n_rows: float) -> int:
    """A batch of about a sixty-fourth of the rows, counted with their weights, a power of two from 32 to 256.

    Examples
    --------
    >>> from usnrt.estimators.recipe import batch_size_for
    >>> [batch_size_for(n) for n in (400, 6400, 40_000)]
    [32, 128, 256]
    """
    return int(np.clip(2 ** round(np.log2(max(n_rows, 1) / 64)), 32, 256))


def _training(model: Any, auto_batch_size: int, schedule: str) -> Training:
    batch_size = auto_batch_size if model.batch_size == "auto" else model.batch_size
    return Training(
        learning_rate=model.learning_rate,
        batch_size=batch_size,
        max_epochs=model.max_epochs,
        schedule=schedule,
        weight_decay=model.weight_decay,
        average=model.average,
    )
