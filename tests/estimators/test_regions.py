"""Regions: their table, their ratio, and which have too few calibration rows."""

from types import SimpleNamespace

import numpy as np
import pytest

from usnrt.calibration.conformal import conformal_bounds, rows_needed
from usnrt.calibration.groups import ScoredRows, insufficient_calibration
from usnrt.calibration.methods import METHODS
from usnrt.estimators.regions import ratio_sentence, region_rows, uncertainty_ratio
from usnrt.tree import Split, TreeBuilder, rules_table


def make_model(stds=(1.0, 4.0), n_rows=(30, 10)):
    builder = TreeBuilder(n_features=1)
    builder.add_root(sum(n_rows))
    builder.add_children(0, Split(0, 2.5, None, True, -7.0, -11.2, *n_rows, 25))
    for node, std in zip((1, 2), stds):
        builder.set_residuals(node, 0.0, std)
    column = SimpleNamespace(name="load", kind="numeric", categories=(), has_missing=False)
    return SimpleNamespace(tree_=builder.build()[0], columns_=[column])


@pytest.mark.parametrize("coverage", [0.01, 0.1, 0.5, 0.6, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999])
def test_rows_needed_are_the_fewest_that_make_finite_bounds(coverage):
    n = rows_needed(coverage)
    assert np.isfinite(conformal_bounds(np.arange(float(n)), coverage)).all()
    assert np.isinf(conformal_bounds(np.arange(float(n - 1)), coverage)).all()


def test_regions_are_those_of_the_rules_the_least_certain_first():
    model = make_model()
    assert region_rows(model) == rules_table(model.tree_, model.columns_).rows()[::-1]
    assert [(row["region"], row["rule"], row["rows"]) for row in region_rows(model)] == [
        (2, "load > 2.5", 10),
        (1, "load <= 2.5", 30),
    ]
    assert type(region_rows(model)[0]["rows"]) is int
    assert region_rows(make_model(n_rows=(1.5, 2.0)))[0]["rows"] == 2.0


def test_the_ratio():
    assert uncertainty_ratio(make_model((3.0, 1.5))) == 2.0
    for unknown in (make_model((0.0, 1.0)), make_model((np.nan, 1.0)), SimpleNamespace()):
        assert np.isnan(uncertainty_ratio(unknown))
        assert ratio_sentence(uncertainty_ratio(unknown)) == ""


@pytest.mark.parametrize("by", ["region", "global"])
def test_lacking_rows_are_told_by_region_and_number(by):
    tree = make_model().tree_
    leaf = np.repeat([0, 1], [150, 300])
    calibration = METHODS[by](ScoredRows(np.linspace(-2, 2, 450), leaf, np.ones(450)), tree)
    assert insufficient_calibration(None, 0.9) is None
    assert insufficient_calibration(calibration, 0.9) is None
    if by == "global":
        assert insufficient_calibration(calibration, 0.99) is None
        expected = "in 2 of 2 regions, which have 450 calibration rows; 1,999 are needed"
    else:
        assert str(insufficient_calibration(calibration, 0.99)).endswith(
            "in 1 of 2 regions, which has 150 calibration rows; 199 are needed"
        )
        expected = "in 2 of 2 regions, which have 150 to 300 calibration rows; 1,999 are needed"
    assert str(insufficient_calibration(calibration, 0.999)) == f"the 99.9 % interval is infinite {expected}"
