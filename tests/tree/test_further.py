"""Which further experts are fitted: trials decide, and a fit happens only once."""

import numpy as np
import pytest

from usnrt import USNRTRegressor
from usnrt.experts.forest import ForestExpert
from usnrt.tree import further


def steps(n=7000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 4))
    return x, np.floor(8.0 * x[:, 0]) + 0.01 * rng.normal(size=n)


def noise(n=7000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    return x, x[:, 0] + rng.normal(size=n)


@pytest.mark.parametrize(("table", "n_refits"), [(steps, ForestExpert.n_parts + 2), (noise, 0)])
def test_forests_grow_only_if_their_trial_promises_a_gain(table, n_refits, monkeypatch):
    """One per part of the validation rows, one for training rows, one of all rows; for noise, the trial is all."""
    held_out, refit = [], ForestExpert.refit
    monkeypatch.setattr(
        ForestExpert,
        "refit",
        lambda self, rows, context: held_out.append(rows.is_validation.mean()) or refit(self, rows, context),
    )
    x, y = table()
    model = USNRTRegressor(hidden=(16,), max_epochs=4, random_state=0, n_jobs=1).fit(x, y)
    assert len(held_out) == n_refits
    assert ("forest" in model.model_.expert_names) == (n_refits > 0)
    if n_refits:
        np.testing.assert_allclose(held_out[:-2], 0.2 / ForestExpert.n_parts, rtol=0.02)
        assert held_out[-1] == 0.0


def test_rows_in_order_of_time_are_not_divided_into_parts(monkeypatch):
    """The forest that predicts is that which the latest rows judged; it has learnt from none of them."""
    monkeypatch.setattr(further, "fitted_in_parts", None)
    x, y = steps(6000)
    table = np.column_stack([np.arange(6000.0), x])
    model = USNRTRegressor(hidden=(16,), max_epochs=4, time_column=0, random_state=0, n_jobs=1).fit(table, y)
    assert "forest" in model.model_.expert_names
    assert model.model_.members[0].further[0].n_rows <= 4800
