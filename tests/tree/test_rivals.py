"""A memory that is of no use is given up by the first of several networks, as by a single one."""

import numpy as np
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.tree.rivals import Rivals

QUICK = {"hidden": (16, 8), "n_bins": 4, "max_epochs": 6}


def models(has_memory):
    experts = ("network", "memory") if has_memory else ("network",)
    member = USNRTRegressor(**QUICK, experts=experts, validation=1)
    return {
        "one network": USNRTRegressor(**QUICK, experts=experts, validation=1, random_state=0),
        "folds": USNRTRegressor(**QUICK, experts=experts, validation=3, random_state=0, n_jobs=2),
        "ensemble": USNRTEnsemble(member, n_estimators=3, random_state=0, n_jobs=2),
    }


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 4))
    return X, X @ [1.0, 2.0, -1.0, 0.5] + 0.1 * rng.normal(size=700)


@pytest.mark.parametrize("kind", ["one network", "folds", "ensemble"])
def test_a_useless_memory_is_given_up(kind, data, monkeypatch):
    """The model is that of one without a memory, bit for bit."""
    judged = []
    monkeypatch.setattr(Rivals, "memory_is_useless", lambda *arguments: judged.append(1) or True)
    given_up = models(True)[kind].fit(*data)
    assert judged
    without = models(False)[kind].fit(*data)
    np.testing.assert_array_equal(given_up.predict_dist(data[0]).ppf(0.9), without.predict_dist(data[0]).ppf(0.9))


@pytest.mark.parametrize("kind", ["folds", "ensemble"])
def test_a_useful_memory_stays_in_all_networks(kind, monkeypatch):
    """Planted: groups of near twins, whose values no function of this network can tell."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(80), 8)
    X = rng.uniform(-1, 1, (80, 3))[group] + 1e-3 * rng.normal(size=(640, 3))
    y = rng.normal(size=80)[group] + 0.05 * rng.normal(size=640)
    model = models(True)[kind].fit(X, y)
    assert all(member.memory is not None for member in model.model_.trees.members)
