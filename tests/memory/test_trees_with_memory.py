"""Trees with memory: used where rows repeat places, dropped if nothing is to be remembered, calibrated as a whole."""

import numpy as np
import pytest

import usnrt.tree.fit as tree_fit
from usnrt import USNRTEnsemble, USNRTRegressor

WITH, WITHOUT = ["network", "memory"], ["network"]  # no experts that would take the place of the memory
SMALL = {"hidden": (32, 16), "max_epochs": 40, "validation": 1, "random_state": 0, "experts": WITH}
N_PLACES, N_TRAIN, N_TEST = 300, 3000, 4000


def places(n, seed):
    """Rows at a few hundred places, each with a level of its own that no smooth function of the coordinates gives."""
    rng = np.random.default_rng(0)
    where, level = rng.uniform(size=(N_PLACES, 2)), rng.normal(size=N_PLACES)
    rng = np.random.default_rng(seed)
    place = rng.integers(N_PLACES, size=n)
    X = np.column_stack([where[place] + 1e-3 * rng.normal(size=(n, 2)), rng.uniform(size=n)])
    return X, level[place] + 0.3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def models():
    X, y = places(N_TRAIN, 1)
    return {experts is WITH: USNRTRegressor(**{**SMALL, "experts": experts}).fit(X, y) for experts in (WITH, WITHOUT)}


def test_places_are_remembered(models):
    X, y = places(N_TEST, 2)
    crps = {memory: np.mean(model.predict_dist(X).crps(y)) for memory, model in models.items()}
    assert crps[True] < 0.6 * crps[False]
    ideal = 0.3 / np.sqrt(np.pi)  # CRPS of the true distribution
    assert crps[True] < 1.25 * ideal
    model = models[True].model_.trees
    assert model.memory is not None
    assert (model.expert_weights[:, 1:].sum(axis=1) > 0.5).all()
    np.testing.assert_allclose(model.expert_weights.sum(axis=1), 1.0)


def test_coverage_with_memory(models):
    X, y = places(N_TEST, 3)
    for coverage in (0.5, 0.9):
        lower, upper = models[True].predict_interval(X, coverage).T
        # 600 validation rows calibrate, which also chose the weights; rows of one place are not independent of them
        noise = np.sqrt(coverage * (1 - coverage) * (1 / 600 + 1 / N_TEST))
        assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(coverage, abs=4 * noise)


def test_coverage_is_guaranteed_with_calibration_rows():
    """Calibration rows are not in the memory, so they are exchangeable with new rows."""
    X, y = places(N_TRAIN, 1)
    model = USNRTRegressor(**SMALL, calibration_fraction=0.3, calibration="global").fit(X, y)
    assert model.model_.trees.memory is not None
    assert model.model_.trees.memory.n_rows == round(0.7 * N_TRAIN)
    lower, upper = model.predict_interval(places(N_TEST, 4)[0], 0.8).T
    inside = np.mean((lower <= places(N_TEST, 4)[1]) & (places(N_TEST, 4)[1] <= upper))
    assert inside == pytest.approx(0.8, abs=4 * np.sqrt(0.16 * (1 / 900 + 1 / N_TEST)))


def test_nothing_to_remember():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 3))
    model = USNRTRegressor(**SMALL).fit(X, rng.normal(size=1500))
    assert model.model_.trees.memory is None
    np.testing.assert_array_equal(model.model_.trees.expert_weights, [[1.0, 0.0, 0.0]] * model.n_leaves_)


def test_dropping_the_memory_is_fitting_without_it():
    """Trained with guides it was worse without them: its means had 0.6 times the slope of the true ones."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 3))
    y = np.sin(6 * X[:, 0]) + rng.normal(size=600)
    with_memory, alone = (USNRTRegressor(**{**SMALL, "experts": own}).fit(X, y) for own in (WITH, WITHOUT))
    assert with_memory.model_.trees.memory is None
    np.testing.assert_array_equal(with_memory.predict_quantiles(X, [0.1, 0.9]), alone.predict_quantiles(X, [0.1, 0.9]))


@pytest.mark.parametrize("is_smooth", [True, False])
def test_a_guided_network_is_given_up_if_guides_do_not_help(monkeypatch, is_smooth):
    """A smooth function of eight columns, where no rows are similar; and places, of which only a memory knows."""
    trained, original = [], tree_fit.train_root
    monkeypatch.setattr(tree_fit, "train_root", lambda *args: trained.append(original(*args)) or trained[-1])
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (2000, 8))
    X, y = (X, np.sin(3 * X).sum(axis=1) + 0.1 * rng.normal(size=2000)) if is_smooth else places(2000, 1)
    model = USNRTRegressor(**SMALL, max_leaves=1).fit(X, y)
    assert [result is None for result in trained] == ([True, False] if is_smooth else [False])
    assert (model.model_.trees.memory is None) == is_smooth


def test_training_rows_do_not_see_themselves(models):
    """In the fit a row is predicted by the others: otherwise spreads would be far too small."""
    X, _ = places(N_TEST, 5)
    std = models[True].predict(X, return_std=True)[1]
    assert 0.27 < np.median(std) < 0.5


def test_the_same_bits_for_any_number_of_threads():
    X, y = places(1500, 1)
    quick = {**SMALL, "max_epochs": 10}
    one, two = (USNRTRegressor(**quick, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.predict_quantiles(X, [0.1, 0.9]), two.predict_quantiles(X, [0.1, 0.9]))
    together = one.predict(X[:300])
    np.testing.assert_array_equal(together[:7], [one.predict(X[row : row + 1])[0] for row in range(7)])


def test_ensembles_remember(models):
    X, y = places(N_TRAIN, 1)
    ensemble = USNRTEnsemble(USNRTRegressor(**{**SMALL, "random_state": None}), n_estimators=2, random_state=0).fit(
        X, y
    )
    new, truth = places(N_TEST, 6)
    assert np.mean(ensemble.predict_dist(new).crps(truth)) < 1.35 * 0.3 / np.sqrt(np.pi)
    lower, upper = ensemble.predict_interval(new, 0.9).T
    assert np.mean((lower <= truth) & (truth <= upper)) == pytest.approx(0.9, abs=0.05)
