"""Constraints of parameters: each estimator declares them in one table, which its documentation and defaults follow."""

import ast
import inspect
import re

import numpy as np
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.estimators.ensemble import PaperUSNRTEnsemble
from usnrt.estimators.paper import PaperUSNRTRegressor
from usnrt.paper import baselines
from usnrt.utils import constraints

ESTIMATORS = [
    USNRTRegressor,
    USNRTEnsemble,
    PaperUSNRTRegressor,
    PaperUSNRTEnsemble,
    *(getattr(baselines, name) for name in baselines.__all__),
]


def documented(estimator):
    """Type and default of every parameter, as the docstring states them."""
    text = inspect.getdoc(estimator).split("Parameters\n----------\n")[1]
    text = re.split(r"\n\n\w+\n-+\n", text)[0]
    found = {}
    for names, rest in re.findall(r"^(\w+(?:, \w+)*) : (.*)$", text, flags=re.MULTILINE):
        for name in names.split(", "):
            kind, _, default = rest.partition(", default=")
            found[name] = kind, default
    return found


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_has_a_constraint_that_its_default_keeps(estimator):
    parameters = inspect.signature(estimator).parameters
    assert set(estimator._CONSTRAINTS) == set(parameters)
    constraints.check_parameters({name: p.default for name, p in parameters.items()}, estimator._CONSTRAINTS)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_documentation_follows_the_table(estimator):
    found = documented(estimator)
    parameters = inspect.signature(estimator).parameters
    assert set(found) == set(parameters)
    for name, (kind, default) in found.items():
        expected = estimator._CONSTRAINTS[name].kind
        if name != "estimator":  # each ensemble names the class of its members
            assert kind == expected, name
        assert ast.literal_eval(default) == parameters[name].default, name


def test_our_estimator_has_at_most_21_parameters():
    assert len(USNRTRegressor._CONSTRAINTS) <= 21
    assert len(PaperUSNRTRegressor._CONSTRAINTS) <= 20


NUMBER = constraints.Number(0, 1, include_low=True)


@pytest.mark.parametrize(
    ("constraint", "allowed", "refused", "must"),
    [
        (NUMBER, [0, 0.5, np.float32(0.5)], [1, -0.1, True, "a", None, np.nan], "be in [0, 1)"),
        (constraints.Number(0, 1, include_high=True), [1, 0.5], [0, 1.1], "be in (0, 1]"),
        (constraints.Whole(1, 9), [1, 9, np.int64(3)], [0, 10, 2.0, True], "be an int in [1, 9]"),
        (constraints.FLAG, [True, np.False_], [0, "yes"], "be True or False"),
        (constraints.Choice(("a", "b")), ["a"], ["c", None, 1], "be one of 'a', 'b'"),
        (constraints.Optional(constraints.Whole(0)), [None, 0], [-1], "be an int >= 0 or None"),
        (constraints.Either(constraints.Whole(1), "auto"), ["auto", 1], ["all", 0], "be an int >= 1 or 'auto'"),
        (constraints.HIDDEN_LAYERS, [(8,), ["4d", 2], 5], [(0,), "8x", None, (2.5, "d")], ""),
        (constraints.JOBS, [None, -1, 2], [0, "two", True], "be an int other than 0 or None"),
        (constraints.VERBOSITY, [0, True, 2], [-1, "much"], "be an int >= 0"),
        (constraints.CALLABLES, [None, [print]], [3, [3]], "be a list of callables or None"),
    ],
)  # fmt: skip
def test_what_is_allowed(constraint, allowed, refused, must):
    assert all(constraint.allows(value) for value in allowed)
    assert not any(constraint.allows(value) for value in refused)
    assert must in constraint.must
