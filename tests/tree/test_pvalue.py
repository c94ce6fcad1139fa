"""log10 p against mpmath and against scipy."""

from math import inf

import numpy as np
import pytest
from scipy import stats

from usnrt.tree.pvalue import log10_p

DFS = [1, 2.5, 10, 100, 7998, 1e6]
STATISTICS = [1e-3, 0.1, 2, 10, 38, 100, 1e3, 1e4]


def exact(statistic, df):
    """The tail integral of Student's density by quadrature with 25 digits."""
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(25):
        t, df = mp.mpf(statistic), mp.mpf(df)
        log_front = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
        log_first = -(df + 1) / 2 * mp.log1p(t * t / df)

        def density(s):  # over its value at t
            return mp.exp(-(df + 1) / 2 * mp.log1p(s * s / df) - log_first)

        if t * t > df or df < 50:  # heavy tail: integrate over log s
            bounds = [k / df for k in (0, 0.01, 0.1, 1, 3, 10, 30, 100)] + [mp.inf]
            integral = mp.quad(lambda v: density(t * mp.exp(v)) * t * mp.exp(v), bounds)
        else:  # exponential tail: in units of its decay
            step = (1 + t * t / df) / (t * (df + 1) / df) if t > 1 else mp.mpf(1)
            integral = mp.quad(lambda u: density(t + step * u) * step, [0, 0.5, 1, 2, 4, 8, 16, 32, 64, 128])
        return float((mp.log(2) + log_front + log_first + mp.log(integral)) / mp.log(10))


@pytest.mark.parametrize("df", DFS)
def test_log10_p_equals_mpmath_however_far_out(df):
    for statistic in STATISTICS:
        assert log10_p(statistic, df) == pytest.approx(exact(statistic, df), rel=1e-11), statistic


def test_log10_p_equals_scipy_where_scipy_has_digits():
    for df in (1, 4, 50, 1e4):
        for statistic in np.geomspace(1e-3, 30, 20):
            expected = np.log10(2 * stats.t.sf(statistic, df))
            assert log10_p(-statistic, df) == pytest.approx(expected, rel=1e-9, abs=1e-13)


def test_log10_p_falls_without_a_step_where_the_method_changes():
    statistics = np.linspace(33, 36, 400)  # p passes 1e-250 here
    values = np.array([log10_p(t, 1e5) for t in statistics])
    steps = np.diff(values)
    assert values[0] > -250 > values[-1]
    assert (steps < 0).all()
    assert np.abs(np.diff(steps, 2)).max() < 1e-8


def test_ends_of_the_scale():
    assert log10_p(0.0, 5) == 0.0
    assert log10_p(inf, 5) == log10_p(-inf, 5) == -inf
    assert log10_p(7.0, 0) == log10_p(inf, 0) == 0.0
    assert log10_p(1e-200, 5) == 0.0
    # p ~ 2 / (pi T) for one degree of freedom
    assert log10_p(1e200, 1) == pytest.approx(-200 + np.log10(2 / np.pi), rel=1e-14)
    assert log10_p(1e300, 1) == pytest.approx(-300 + np.log10(2 / np.pi), rel=1e-14)
