"""Less sure where less is known: spread far from the data on every generator, coverage where columns are unknown."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.datasets import make_heteroscedastic
from usnrt.model.fitted import Stage

KINDS = [
    "piecewise", "jump", "smooth", "homoscedastic", "heavy_tails", "zero_inflated", "interaction", "categorical",
]  # fmt: skip
TIMES = (3, 10, 100)  # the range of the features


def fit(kind, ensemble, seed, n=1000):
    data = make_heteroscedastic(kind, n_samples=n, random_state=seed)
    model = USNRTRegressor(hidden=(64, 32), memory=False, min_samples_leaf=200, max_epochs=30)
    if ensemble:
        model = USNRTEnsemble(model, n_estimators=3)
    categorical = [0] if kind == "categorical" else None
    model.set_params(categorical_features=categorical, random_state=seed, n_jobs=1)
    return model.fit(data.data, data.target)


def far_rows(kind, seed, n=64):
    """Rows at 3, 10 and 100 times the range of the features, in random directions and along the diagonals."""
    rng = np.random.default_rng(seed)
    directions = np.vstack([rng.normal(size=(n, 4)), rng.choice([-1.0, 1.0], (n, 4))])
    if kind == "categorical":
        directions[:, 0] = 0.0
    directions /= np.abs(directions).max(axis=1, keepdims=True)
    rows = np.vstack([0.5 + times * directions for times in TIMES])
    if kind == "categorical":
        rows[:, 0] = rng.integers(0, 4, len(rows))
    return rows


def centre_rows(kind):
    rows = np.full((4 if kind == "categorical" else 1, 4), 0.5)
    if kind == "categorical":
        rows[:, 0] = np.arange(4)
    return rows


def study(kind, ensemble, seed):
    """Standard deviations at the centre and far away, with support and without."""
    model = fit(kind, ensemble, seed)
    plain = copy(model)
    plain.model_ = replace(model.model_, support=replace(model.model_.support, widens=False))
    new = make_heteroscedastic(kind, n_samples=3000, random_state=seed + 1000).data
    supported = model.predict_support(new)["supported"]
    assert supported.mean() > 0.995
    np.testing.assert_array_equal(
        model.predict_quantiles(new, [0.05, 0.5, 0.95])[supported],
        plain.predict_quantiles(new, [0.05, 0.5, 0.95])[supported],
    )
    rows = far_rows(kind, seed)
    assert not model.predict_support(rows)["supported"].any()
    centre = model.predict_dist(centre_rows(kind)).std().max()
    return centre, model.predict_dist(rows).std(), plain.predict_dist(rows).std()


@pytest.mark.parametrize("ensemble", [False, True], ids=["tree", "ensemble"])
def test_far_from_data_the_spread_is_that_of_the_centre_quick(ensemble):
    centre, ours, before = study("jump", ensemble, 0)
    assert before.min() < centre  # what the support is for
    assert ours.min() >= centre


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("ensemble", [False, True], ids=["tree", "ensemble"])
@pytest.mark.parametrize("kind", KINDS)
def test_far_from_data_the_spread_is_that_of_the_centre(kind, ensemble, seed):
    centre, ours, _ = study(kind, ensemble, seed)
    assert ours.min() >= centre


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["piecewise", "smooth", "interaction", "categorical"])
def test_the_spread_is_that_of_the_nearest_supported_row_or_more(kind):
    model = fit(kind, True, 5)
    for row in far_rows(kind, 6, n=10)[-20:]:
        start = np.full(4, 0.5)
        start[0] = row[0] if kind == "categorical" else 0.5
        ray = start + np.linspace(0, 1, 500)[:, None] ** 2 * (row - start)
        raw = model._encode(ray)
        found = model.model_.support.measure(raw, model.tree_.leaf_of(raw))
        near = model.model_.support.clamp(raw, found)
        width = np.ptp(model.model_.predict(raw).quantiles, axis=1)
        assert (width >= np.ptp(model.model_.predict(near, Stage.NONE).quantiles, axis=1) * (1 - 1e-9)).all()
        # It grows as long as the nearest supported row is the same.
        same = (near[1:] == near[:-1]).all(axis=1)
        assert same.any()
        assert (np.diff(width)[same] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_coverage_is_exact_where_calibration_rows_lack_support(seed):
    """Calibration rows from a wider distribution than the training rows: widening is a fixed map, ranks stay fair."""
    rng = np.random.default_rng(seed)

    def draw(n, wide):
        X = wide * rng.normal(size=(n, 3))
        return X, 2.0 * X[:, 0] + rng.normal(size=n)

    misses, n_new = [], 200
    base = USNRTRegressor(hidden=(8,), memory=False, max_epochs=5, random_state=0, n_jobs=1)
    base.fit(*draw(500, 1.0))
    for _ in range(100):
        model = copy(base)
        X, y = draw(199, 2.0)
        assert not model.predict_support(X)["supported"].all()
        model.calibrate(X, y, by="global")
        X, y = draw(n_new, 2.0)
        low, high = model.predict_interval(X, 0.9).T
        misses.append(np.mean((y < low) | (y > high)))
    # Order statistics 10 and 190 of 199: exactly 0.9; the variance of one study is that of a beta and a binomial.
    error = np.sqrt(0.09 * (1 / 201 + 1 / n_new) / len(misses))
    assert abs(np.mean(misses) - 0.1) < 3.5 * error
