"""Rows that come in groups count as the groups they are."""

import numpy as np

from usnrt.reporting import write_report
from usnrt.reporting._facts import LEVELS, calibration_facts
from usnrt.reporting._numbers import wilson


def test_rows_of_a_group_that_agree_count_once():
    rng = np.random.default_rng(0)
    inside = np.repeat(rng.random((60, 1)) < [*LEVELS, 0.9], 10, axis=0)
    facts = calibration_facts(inside, np.zeros_like(inside), np.repeat(np.arange(60), 10))
    assert (facts.n, facts.evidence) == (600, 60)
    assert (facts.low, facts.high) == wilson(round(facts.inside * 60), 60)


def test_groups_of_independent_rows_change_little():
    inside = np.random.default_rng(1).random((600, 1)) < [*LEVELS, 0.9]
    facts = calibration_facts(inside, np.zeros_like(inside), np.repeat(np.arange(60), 10))
    assert 400 < facts.evidence <= 600


def test_the_page_counts_groups(model, houses, tmp_path):
    X, y = houses(600, 3)
    groups = np.arange(600) // 6
    text = write_report(model, X, y, tmp_path / "plain.html").read_text("utf-8")
    assert "groups" not in text.split("<h2")[0]
    by_name = write_report(model, X.assign(shop=groups), y, tmp_path / "named.html", groups="shop").read_text("utf-8")
    assert "which come in 100 groups" in by_name
    by_array = write_report(model, X, y, tmp_path / "array.html", groups=groups).read_text("utf-8")
    assert "which come in 100 groups" in by_array
