"""Roles by hash: the shares asked for, independent of the order of the hashes, and another draw per seed."""

import numpy as np
import pytest

from usnrt.tables.roles import CALIBRATION, TRAINING, VALIDATION, RowRoles, uniform

N = 200_000
HASHES = np.sort(np.random.default_rng(0).integers(2**64, size=N, dtype=np.uint64))


def within(share, expected, n=N):
    """Whether a share of n rows is within five standard errors."""
    return abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / n)


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 2])
def test_shares(seed):
    roles = RowRoles(seed, validation=0.2, calibration=0.1).of(HASHES)
    assert within((roles == CALIBRATION).mean(), 0.1)
    assert within((roles == VALIDATION).mean(), 0.18)
    assert within((roles == TRAINING).mean(), 0.72)


def test_the_first_rows_by_hash_have_the_same_shares():
    first = RowRoles(3, 0.2).of(HASHES)[: N // 10]
    assert within((first == VALIDATION).mean(), 0.2, N // 10)


def test_seeds_draw_independently():
    both = (RowRoles(0, 0.2).of(HASHES) == VALIDATION) & (RowRoles(1, 0.2).of(HASHES) == VALIDATION)
    assert within(both.mean(), 0.04)


def test_a_role_does_not_depend_on_the_other_rows():
    np.testing.assert_array_equal(RowRoles(0, 0.2).of(HASHES)[5:9], RowRoles(0, 0.2).of(HASHES[5:9]))


def test_uniform_numbers_are_in_range():
    values = uniform(HASHES, 7)
    assert values.min() >= 0
    assert values.max() < 1
    assert within((values < 0.5).mean(), 0.5)
