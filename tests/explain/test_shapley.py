"""Shapley values of functions whose exact values are known."""

from itertools import permutations

import numpy as np
import pytest

from usnrt.explain import shapley
from usnrt.explain.shapley import shapley_values


def exact(value_of, row, background, players):
    """Shapley values by all permutations and all background rows."""
    total = np.zeros(len(players))
    orders = list(permutations(range(len(players))))
    for z in background:
        for order in orders:
            mixed = z.copy()
            before = value_of(mixed[None])[0, 0]
            for player in order:
                mixed[players[player]] = row[players[player]]
                after = value_of(mixed[None])[0, 0]
                total[player] += after - before
                before = after
    return total / (len(orders) * len(background))


def additive(rows):
    return np.stack([2 * rows[:, 0] - rows[:, 1] ** 2, np.exp(rows[:, 2])], axis=1)


def interacting(rows):
    return (rows[:, 0] * rows[:, 1] * (1 + rows[:, 2]) + rows[:, 3])[:, None]


RNG = np.random.default_rng(0)
ROWS, BACKGROUND = RNG.normal(size=(5, 4)), RNG.normal(size=(1, 16, 4))
FIRST = np.zeros(5, dtype=int)


def test_contributions_of_an_additive_function_are_exact():
    found = shapley_values(additive, ROWS, BACKGROUND, FIRST, [[0], [1], [2], [3]])
    terms = [2 * ROWS[:, 0] - 2 * BACKGROUND[0, :, 0].mean(), np.mean(BACKGROUND[0, :, 1] ** 2) - ROWS[:, 1] ** 2]
    np.testing.assert_allclose(found.values[:, :2, 0], np.stack(terms, axis=1), atol=1e-12)
    np.testing.assert_allclose(found.values[:, 2, 1], np.exp(ROWS[:, 2]) - np.exp(BACKGROUND[0, :, 2]).mean())
    np.testing.assert_allclose(found.values[:, 2:, 0], 0.0, atol=1e-12)
    np.testing.assert_array_equal(found.values[:, 3], 0.0)  # a column that nothing depends on


def test_contributions_of_interactions_are_within_their_errors():
    players = [[0], [1], [2], [3]]
    found = shapley_values(interacting, ROWS, BACKGROUND, FIRST, players, rounds=20)
    truth = np.stack([exact(interacting, row, BACKGROUND[0], players) for row in ROWS])
    # The background is common, so the error is that of the permutations only, which is smaller.
    assert (np.abs(found.values[..., 0] - truth) <= 4 * found.errors[..., 0] + 1e-12).all()
    assert np.abs(found.values[..., 0] - truth).max() < 0.1 * np.abs(truth).max()


def test_pairs_of_permutations_are_exact_for_interactions_of_two():
    def product(rows):
        return (rows[:, 0] * rows[:, 1] + rows[:, 2])[:, None]

    found = shapley_values(product, ROWS[:, :3], BACKGROUND[..., :3], FIRST, [[0], [1], [2]])
    truth = np.stack([exact(product, row, BACKGROUND[0, :, :3], [[0], [1], [2]]) for row in ROWS[:, :3]])
    np.testing.assert_allclose(found.values[..., 0], truth, atol=1e-12)


@pytest.mark.parametrize("max_cells", [1, 500, 10**7])
def test_batches_do_not_change_the_result(monkeypatch, max_cells):
    whole = shapley_values(interacting, ROWS, BACKGROUND, FIRST, [[0, 2], [1], [3]])
    monkeypatch.setattr(shapley, "MAX_CELLS", max_cells)
    cut = shapley_values(interacting, ROWS, BACKGROUND, FIRST, [[0, 2], [1], [3]])
    np.testing.assert_array_equal(cut.values, whole.values)
    total = cut.base + cut.values.sum(axis=1)
    np.testing.assert_allclose(total, interacting(ROWS), atol=1e-12)


def test_each_row_is_compared_with_its_own_background():
    backgrounds = np.stack([BACKGROUND[0], BACKGROUND[0] + 5, BACKGROUND[0] - 3])
    group = np.array([2, 0, 2, 0, 2])
    found = shapley_values(additive, ROWS, backgrounds, group, [[0], [1], [2], [3]])
    for number in (0, 2):
        own = shapley_values(additive, ROWS[group == number], backgrounds[[number]], FIRST[group == number],
                             [[0], [1], [2], [3]])  # fmt: skip
        np.testing.assert_array_equal(found.values[group == number], own.values)
        np.testing.assert_array_equal(found.base[group == number], own.base)


def test_one_player_has_all_of_the_difference():
    found = shapley_values(additive, ROWS, BACKGROUND, FIRST, [[0, 1, 2, 3]])
    np.testing.assert_allclose(found.values[:, 0], additive(ROWS) - additive(BACKGROUND[0]).mean(axis=0))
