"""Weights and refinement by rows that members were not trained on; the rows that tests of splits use."""

import copy

import numpy as np
import pytest

from usnrt.nn.quantiles import POSITIONS
from usnrt.tables.training import TrainingTable
from usnrt.tree.held_out import HeldOut, mean_quantiles, refine
from usnrt.tree.levels import MAX_CATEGORIES_FOR_SUBSETS
from usnrt.tree.model import ExpertTree
from usnrt.tree.strategies import _is_tested
from usnrt.tree.structure import TreeBuilder

N = 400


def table_of(y):
    n = len(y)
    return TrainingTable(np.arange(float(n))[:, None], np.zeros((n, 1), np.float32), np.asarray(y, float), np.ones(n))


def folds(n, number):
    return np.arange(n) % number == np.arange(number)[:, None]


class Expert:
    """Exact for rows that its member was trained on; one quantile function for all others."""

    max_weight, min_errors = 1.0, 3.0

    def __init__(self, place, y, is_held_out):
        self.place, self.y, self.is_held_out = place, y, is_held_out

    def quantile_functions(self, query):
        rows = query.without
        return np.where(self.is_held_out[rows], self.place, self.y[rows])[:, None] + POSITIONS


def member_of(y, is_held_out, places):
    """A tree of one region with given experts."""
    builder = TreeBuilder(1, np.zeros(1, np.int64))
    builder.add_root(float(len(y)))
    member = GivenExperts(builder.build()[0], None, None, [], np.zeros(1, np.int64), None, np.eye(3)[:1])
    member.experts = [Expert(place, y, is_held_out) for place in places]
    return member


class GivenExperts(ExpertTree):
    """A tree whose experts are given."""

    @property
    def _experts(self):
        return dict(enumerate(self.experts))


def test_the_mean_is_by_members_that_did_not_see_a_row():
    held_out = HeldOut(table_of(np.zeros(4)), np.array([[1, 0, 1, 0], [0, 1, 1, 0]], bool))
    predicted = held_out.mean(np.arange(4), lambda member, own: np.full(len(own), 2.0 + 2 * member))
    np.testing.assert_array_equal(predicted, [2.0, 4.0, 3.0, 3.0])
    np.testing.assert_array_equal(held_out.counts(np.arange(4)), [1, 1, 2, 2])
    np.testing.assert_array_equal(held_out.rows, [0, 1, 2])


def test_a_table_without_held_out_rows_is_predicted_by_all():
    held_out = HeldOut(table_of(np.zeros(3)), np.zeros((2, 3), bool))
    np.testing.assert_array_equal(held_out.rows, np.arange(3))
    assert [len(rows) for rows in held_out.by_member] == [3, 3]
    np.testing.assert_array_equal(held_out.counts(held_out.rows), [2, 2, 2])


def test_quantiles_of_members_are_put_in_place():
    is_validation = folds(6, 3)
    held_out = HeldOut(table_of(np.zeros(6)), is_validation)
    quantiles = [np.tile(rows[:, None].astype(float), 2) for rows in held_out.by_member]
    np.testing.assert_array_equal(mean_quantiles(held_out, quantiles)[:, 0], np.arange(6.0))


def test_rows_of_the_training_do_not_choose_weights(monkeypatch):
    """Averaged over all rows the first expert is the best, since three of four members know a row."""
    y = np.random.default_rng(0).normal(size=N)
    held_out = HeldOut(table_of(y), folds(N, 4))
    members = [member_of(y, own, places=(3.0, 0.0, 9.0)) for own in held_out.is_validation]
    monkeypatch.setattr("usnrt.tree.held_out.replace", lambda member, **changes: kept(member, changes))
    chosen, quantiles = refine(members, held_out)
    for member in chosen:
        np.testing.assert_array_equal(member.expert_weights, [[0.0, 1.0, 0.0]])
        assert member.refinement is chosen[0].refinement
    assert [len(own) for own in quantiles] == [N // 4] * 4


def kept(member, changes):
    changed = copy.copy(member)
    vars(changed).update(changes)
    return changed


@pytest.mark.parametrize("n_categories", [3, MAX_CATEGORIES_FOR_SUBSETS + 1])
def test_a_third_of_the_folds_orders_many_categories(n_categories):
    held_out = HeldOut(table_of(np.zeros(60)), folds(60, 6))
    is_tested = _is_tested(held_out, np.array([0, n_categories]))
    assert is_tested.sum() == (60 if n_categories == 3 else 40)
    one = HeldOut(table_of(np.zeros(60)), folds(60, 5)[:1])
    np.testing.assert_array_equal(_is_tested(one, np.array([n_categories])), one.is_validation[0])
