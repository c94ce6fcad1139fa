"""Folds of an ensemble, and the weights of experts of all its members."""

from types import SimpleNamespace

import numpy as np
import pytest

from usnrt.model.ensembles import TreeEnsemble, draw_folds


@pytest.mark.parametrize("n_members", [2, 3, 5, 8])
def test_every_row_is_held_out_and_every_row_trains(n_members):
    held_out = draw_folds(1003, n_members, np.random.default_rng(1))
    times = held_out.sum(axis=0)
    assert set(times) == {1, 2}
    assert np.mean(times == 2) == pytest.approx(0.25, abs=0.001)
    if n_members > 2:
        assert (~held_out).any(axis=0).all()
    assert np.ptp(held_out.sum(axis=1)) <= n_members


def test_weights_of_experts_are_averaged_over_members_and_rows():
    """Regions are those of the first member; another member has other regions there."""

    def member(leaf, weights):
        tree = SimpleNamespace(n_leaves=len(weights), leaf_of=lambda raw: np.array(leaf))
        return SimpleNamespace(tree=tree, expert_weights=np.array(weights), expert_names=["a", "b", "c"])

    members = [
        member([0, 0, 1, 1], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        member([0, 1, 1, 1], [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]),
    ]
    ensemble = TreeEnsemble(members, np.ones(2), 1.0, 1.0)
    table = SimpleNamespace(raw=np.zeros((4, 1)), weight=np.array([3.0, 1.0, 1.0, 1.0]))
    expected = [[0.5 + 0.5 * 0.25 * 0.5, 0.5 * (0.75 + 0.25 * 0.5), 0.0], [0.25, 0.25, 0.5]]
    np.testing.assert_allclose(ensemble.mean_expert_weights(table), expected)
