"""Members go on together: with little noise, one that stopped early by chance would spoil the mean of all."""

import numpy as np
import pytest

from usnrt import USNRTRegressor


@pytest.fixture
def rounds(monkeypatch):
    """Trainings of each of five members, given whether each goes on after its trainings."""

    def fit(*decisions):
        answers = iter(decisions)
        monkeypatch.setattr("usnrt.tree.strategies._still_improves", lambda *arguments: next(answers, False))
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (300, 2))
        quick = {"hidden": (16, 8), "n_bins": 4, "max_epochs": 4, "experts": ("network",)}
        model = USNRTRegressor(**quick, validation=5, random_state=0, n_jobs=1).fit(X, X[:, 0] + X[:, 1] ** 2)
        names = [name for name in model.history_[0] if "network" in name]
        return [sum(name.startswith(f"member {member} ") for name in names) for member in range(1, 6)]

    return fit


def test_members_that_stopped_early_go_on(rounds):
    assert rounds(False, True, False, True, False) == [2, 2, 2, 2, 2]


def test_a_member_may_go_on_alone(rounds):
    """The null case: nearly all have one training, and are left as they are."""
    assert rounds(True, False, False, False) == [2, 1, 1, 1, 1]
