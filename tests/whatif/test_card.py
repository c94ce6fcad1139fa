"""The row that pages begin with is a typical one, not the middle of ranges, where there may be no rows at all."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from usnrt import USNRTRegressor
from usnrt.whatif.card import _typical, model_facts

N = 300


def skewed():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "income": np.exp(2.0 * rng.normal(size=N)),
            "town": np.where(rng.random(N) < 0.2, "a", "b"),
            "member": rng.random(N) < 0.9,
            "sold": pd.Timestamp("2000-01-01") + pd.to_timedelta(365 * 20 * rng.random(N) ** 4, unit="D"),
        }
    )
    return X, np.log(X["income"].to_numpy()) + rng.normal(size=N)


@pytest.mark.parametrize("memory", [True, "examples", False])
def test_the_first_row_is_typical(memory):
    X, y = skewed()
    model = USNRTRegressor(hidden=(8,), max_epochs=2, validation=1, memory=memory, random_state=0).fit(X, y)
    example = model_facts(model)["example"]
    assert X["income"].quantile(0.2) < example["income"] < X["income"].quantile(0.8)
    assert (example["town"], example["member"]) == ("b", True)
    assert X["sold"].quantile(0.1) < pd.Timestamp(example["sold"]) < X["sold"].quantile(0.9) + pd.Timedelta(days=366)


def test_a_model_without_background_begins_in_the_middle():
    X, y = skewed()
    model = USNRTRegressor.paper(max_epochs=1, random_state=0).fit(X[["income"]], y)
    facts = model_facts(model)
    assert facts["example"]["income"] == pytest.approx(np.mean(facts["columns"][0]["range"]), rel=1e-3)


def test_the_rest_of_many_categories_is_not_typical():
    """It has no value that a page could show."""
    column = SimpleNamespace(is_categorical=True, n_categories=3, rest=True)
    encoder = SimpleNamespace(columns_=[column, column])
    background = np.array([[[2.0, 2.0], [2.0, -1.0], [1.0, 2.0]]])
    assert _typical(SimpleNamespace(background_=background, encoder_=encoder)) == {0: 1.0}
