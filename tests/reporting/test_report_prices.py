"""Pages of prices: many categories, thousands, values that cannot be negative, and what to do about errors."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from usnrt import USNRTRegressor
from usnrt.reporting import write_report
from usnrt.reporting._facts import LEVELS, calibration_facts, gather
from usnrt.reporting._numbers import axis_labels, number
from usnrt.reporting._words import bound_sentence, typical_sentence, verdict


def cars(n, seed):
    """Prices whose spread depends on the city, one of 40."""
    rng = np.random.default_rng(seed)
    cities = np.array([f"city {k:02}" for k in range(40)])
    city, power = rng.integers(0, 40, n), rng.integers(60, 400, n)
    noise = np.where(city % 2 == 0, 6000.0, 300.0) * np.abs(rng.normal(size=n))
    return pd.DataFrame({"city": cities[city], "power": power}), 2000.0 + 10.0 * power + noise


@pytest.fixture(scope="module")
def model():
    X, y = cars(1500, 0)
    return USNRTRegressor(memory=False, hidden=(16, 8), max_epochs=15, n_bins=4, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def facts(model):
    X, y = cars(600, 1)
    return gather(model, X, y, 0.9)


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    X, y = cars(600, 1)
    return write_report(model, X, y, tmp_path_factory.mktemp("prices") / "r.html", booster=False).read_text()


def test_edges_with_many_categories_say_how_many(page):
    branches = re.findall(r'<text class="branch"[^>]*><title>([^<]*)</title>([^<]*)</text>', page)
    (whole, shown), *_ = [pair for pair in branches if "city" in pair[0]]
    assert shown.strip("\u2068\u2069") == f"{whole.count('city ') - 1} categories"
    assert "more)" not in whole


def test_thousands_are_grouped_alike_and_years_are_not():
    shown = [number(value) for value in (6989.4, 36920.0, 1500.5, 1950, 2024.0)]
    assert shown == ["6,989", "36,920", "1,500", "1950", "2024"]
    assert axis_labels([0.0, 2000.0, 4000.0])[0] == ["0", "2,000", "4,000"]
    assert axis_labels([1980.0, 2000.0])[0] == ["1980", "2000"]


def test_typical_errors_are_said_in_units_of_the_target(facts, page):
    error = np.abs(facts.y - facts.mean)
    half, most = number(np.quantile(error, 0.5)), number(np.quantile(error, 0.9))
    sentence = typical_sentence(facts)
    assert sentence.startswith(f"Half of the predictions are off by less than {half}, nine of ten by less than {most}.")
    assert f"Errors are largest in region {facts.regions[0].region} (" in sentence
    assert "rely on its intervals" in sentence
    assert f"off by less than {half}" in page
    even = typical_sentence(replace(facts, ratio=1.1))
    assert even.endswith("a column that explains the target better helps most.")
    strange = typical_sentence(replace(facts, supported=np.arange(facts.n) > 5))
    assert "Check by hand the 1\u00a0% of rows that do not resemble the training rows" in strange


def test_intervals_below_0_get_a_tip(facts):
    low = facts.lower.copy()
    low[:3] = -55171.0
    tip = bound_sentence(replace(facts, lower=low))
    assert "below 0, down to -55,171, though no target is negative" in tip
    assert "usnrt fit --lower 0" in tip
    assert bound_sentence(replace(facts, lower=np.abs(low))) == ""
    assert bound_sentence(replace(facts, lower=low, y=facts.y - 1e6)) == ""


@pytest.mark.parametrize(("shift", "head"), [
    (0.0, "The predicted uncertainty is calibrated."),
    (0.035, "The predicted uncertainty is calibrated at 90\u00a0%, but not at"),
])  # fmt: skip
def test_calibrated_is_judged_at_all_levels(facts, shift, head):
    """3.5 points between 30 and 70 % leave the band of 20,000 rows."""
    n, u = 20_000, (np.arange(20_000) + 0.5) / 20_000
    levels = np.array([*LEVELS, 0.9])
    observed = levels + shift * ((levels >= 0.3) & (levels <= 0.7))
    inside = np.random.default_rng(0).permutation(u)[:, None] < observed
    found = calibration_facts(inside, np.zeros(inside.shape, dtype=bool))
    judged = verdict(replace(facts, calibration=found, n=n, regions=[]))
    assert judged["head"].startswith(head)
