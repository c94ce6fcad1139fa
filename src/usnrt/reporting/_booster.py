"""Comparison with a gradient-boosted model that takes seconds: scikit-learn's, by its quantiles."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from usnrt.calibration.landmarks import evenly
from usnrt.estimators.base import DistributionalRegressor
from usnrt.metrics.forecast import pinball_rows
from usnrt.reporting._facts import Facts
from usnrt.reporting._numbers import number, plus_minus
from usnrt.tables.groups import design_effect, draw_groups
from usnrt.utils.sklearn_trees import MAX_CATEGORIES, boosting_threads, without_empty_columns
from usnrt.utils.types import Floats, Rows

LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
MIN_ROWS, MAX_ROWS, MAX_COLUMNS = 200, 10_000, 200


@dataclass(frozen=True)
class BoosterFacts:
    """Quantile loss of the model and of the booster, of the same five quantiles of the same rows.

    It is not the CRPS of the table of metrics, which is that of the whole distribution.
    """

    ours: float
    theirs: float
    difference: float  # mean of ours minus theirs
    error: float  # its standard error
    rows: int
    trained_on: int
    on_training_rows: bool  # or on the other half of the evaluated rows


def compare_with_booster(
    model: DistributionalRegressor, facts: Facts, train: tuple[Any, Floats] | None = None, group: Rows | None = None
) -> BoosterFacts | None:
    """Compare the quantile loss of a model and of a booster; None for too few rows or too many columns.

    The booster is fitted to training rows. Without them, it is fitted to one half of the rows, which keeps groups
    together, and predicts the other one.
    """
    raw, y = facts.raw, facts.y
    rows = evenly(len(y), MAX_ROWS)
    if raw.shape[1] > MAX_COLUMNS or np.isnan(raw).all() or len(rows) < (MIN_ROWS if train is None else 2):
        return None
    ours = _loss(facts.distribution.ppf(LEVELS)[rows], y[rows])
    features, truth, own_group = _features(model, raw[rows]), y[rows], None if group is None else group[rows]
    if train is not None:
        encoded = model._encode(train[0])
        sample = evenly(len(encoded), MAX_ROWS)
        theirs = _loss(_boosted(model, _features(model, encoded[sample]), train[1][sample], features), truth)
        trained_on = len(sample)
    else:
        is_drawn = draw_groups(own_group, len(rows) // 2, len(rows), np.random.default_rng(0))
        halves = np.flatnonzero(~is_drawn), np.flatnonzero(is_drawn)
        theirs, trained_on = np.empty(len(rows)), len(halves[0])
        for half, other in (halves, halves[::-1]):
            predicted = _boosted(model, features[half], truth[half], features[other])
            theirs[other] = _loss(predicted, truth[other])
    difference = ours - theirs
    evidence = len(rows) / (1.0 if own_group is None else design_effect(difference, own_group))
    return BoosterFacts(
        float(ours.mean()), float(theirs.mean()), float(difference.mean()),
        float(difference.std(ddof=1) / np.sqrt(evidence)), len(rows), trained_on, train is not None,
    )  # fmt: skip


def _loss(quantiles: Floats, y: Floats) -> Floats:
    """Mean pinball loss of each row over its quantiles at LEVELS."""
    return np.asarray(pinball_rows(y, quantiles, LEVELS).mean(axis=1))


def _features(model: DistributionalRegressor, raw: Floats) -> Floats:
    """Encoded rows in which unseen categories are missing."""
    categorical = np.array([column.is_categorical for column in model.columns_], dtype=bool)
    return np.where(categorical & (raw < 0), np.nan, raw)


def _boosted(model: DistributionalRegressor, X: Floats, y: Floats, new: Floats) -> Floats:
    """Sorted quantiles of new rows, shape (n, 5)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    columns = without_empty_columns(X)
    categorical = [0 < column.n_categories <= MAX_CATEGORIES for column in model.columns_]
    with boosting_threads(model.n_jobs, len(X)):
        predicted = [
            HistGradientBoostingRegressor(
                loss="quantile", quantile=level, max_iter=60, learning_rate=0.15, max_leaf_nodes=15,
                early_stopping=False, categorical_features=np.array(categorical), random_state=0,
            ).fit(columns, y).predict(new)
            for level in LEVELS.tolist()
        ]  # fmt: skip
    return np.sort(np.stack(predicted, axis=1), axis=1)


def booster_sentence(facts: BoosterFacts, fitted_to: float | None) -> str:
    """The comparison in words; the better one is named, whichever it is. The model was ``fitted_to`` so many rows."""
    compared = (
        f"A quick booster (scikit-learn's HistGradientBoostingRegressor) has a mean loss of five quantiles of "
        f"{number(facts.theirs, 4)} on {facts.rows:,} rows, this model {number(facts.ours, 4)}: a difference of "
        f"{plus_minus(facts.difference, facts.error)}"
    )
    if abs(facts.difference) <= 2 * facts.error:
        verdict = "which is within two standard errors: neither is better beyond sampling error"
    elif facts.difference < 0:
        verdict = "so this model is better"
    else:
        verdict = "so the booster is better"
    mine = "" if fitted_to is None else f", this model on {fitted_to:,.0f}"
    if facts.on_training_rows:
        trained = f"The booster was trained on {facts.trained_on:,} training rows{mine}."
    else:
        trained = (
            f"The booster was trained on one half of the evaluated rows ({facts.trained_on:,}) to predict the other "
            f"one{mine}; give the training rows (--train) for a fair comparison."
        )
    return f"{compared}, {verdict}. {trained}"
