"""The codec of files and checkpoints: exact round trips, and objects that are checked field by field."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from usnrt.utils.codec import PLAIN, Codec, DecodingError, Stored
from usnrt.utils.result_table import Table
from usnrt.utils.schema import Array, Float, Int, Many, Maybe, Optional, Text, Values, one


def through(value):
    """A value written, made JSON, parsed and read."""
    arrays, state = PLAIN.encode(value)
    return PLAIN.decode(arrays, json.loads(json.dumps(state, allow_nan=False)))


def same(a, b):
    """Equal in value, type, dtype and memory order, with NaN equal to NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        order = a.flags.c_contiguous == b.flags.c_contiguous
        if a.dtype.kind == "O":
            return a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
        return a.dtype == b.dtype and a.shape == b.shape and order and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(map(repr, a)) == list(map(repr, b)) and all(map(same, a.values(), b.values()))
    return a == b


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    hnp.arrays(hnp.floating_dtypes(sizes=(16, 32, 64), endianness="="), hnp.array_shapes(min_dims=0, min_side=0)),
    hnp.arrays(hnp.integer_dtypes(endianness="="), hnp.array_shapes(min_side=0)),
    hnp.arrays(bool, (3,)),
    hnp.arrays("U3", (2, 2)),
    hnp.arrays("M8[us]", (2,)),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.booleans().map(np.bool_),
    st.text(max_size=3).map(np.str_),
)
keys = st.one_of(st.text(), st.integers(), st.tuples(st.integers(), st.text()), st.booleans(), st.none())
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(values)
def test_values_round_trip_exactly(value):
    assert same(through(value), value)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        -math.inf,
        -0.0,
        5e-324,
        2**200,
        {"$tuple": [1]},
        {1: "a", "1": "b", None: "c"},
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10.0)[::2],
        np.array(["a", None], dtype=object).reshape(1, 2),
        np.array("text"),
        np.datetime64("2024-01-01", "D"),
        "\ud800",
        np.str_(""),
        np.str_("\0"),
        np.str_("a\0"),
    ],
    ids=repr,
)
def test_odd_values_round_trip_exactly(value):
    assert same(
        through(value), np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim == 1 else value
    )


def test_an_array_that_stands_twice_is_stored_once():
    common = np.arange(3.0)
    arrays, state = PLAIN.encode([common, {"again": common}, common.copy()])
    assert len(arrays) == 2
    first, again, other = PLAIN.decode(arrays, state)
    assert first is again["again"]
    assert other is not first


def test_jax_arrays_become_numpy():
    import jax.numpy as jnp

    assert same(through(jnp.arange(3.0)), np.arange(3, dtype=np.float32))


def test_a_table_of_results_round_trips():
    again = through(Table({"region": ["a", "b"], "std": [0.5, 2.0]}))
    assert type(again) is Table
    assert again.columns == ["region", "std"]
    assert again["std"].tolist() == [0.5, 2.0]


def test_shared_arrays_are_named_and_order_in_memory_is_kept():
    one_array, common = np.arange(6.0).reshape(2, 3), np.arange(2)
    arrays, state = PLAIN.encode([one_array.T, common], {"columns": common})
    assert len(arrays) == 1
    transposed, again = PLAIN.decode(arrays, state, {"columns": common})
    assert transposed.strides == one_array.T.strides
    assert again is common


def test_an_array_named_often_is_made_once():
    entries = [{"$array": "a", "order": "F"}, {"$array": "a", "order": "F"}, {"$array": "a"}]
    first, second, third = PLAIN.decode({"a": np.ones((2, 3))}, entries)
    assert first is second
    assert first.flags.f_contiguous
    assert third.flags.c_contiguous


# -- objects ----------------------------------------------------------------------------------------------------


@dataclass
class Leaf:
    name: str
    weight: np.ndarray
    shift: float | None = None


@dataclass
class Branch:
    leaves: list[Leaf]
    n_units: int


LEAF = Stored(
    __name__,
    {"name": Text(("a", "b")), "weight": Array("f8", ("n_weights",), low=0.0), "shift": Maybe(Float())},
    lambda leaf: leaf.weight.sum() <= 10.0,
    {"n_positive": lambda leaf: int((leaf.weight > 0).sum())},
)
BRANCH = Stored(
    __name__,
    {
        "leaves": Many(one("Leaf", n_positive="n_units"), least=1),
        "n_units": Int(1, 9, "n_units"),
        "note": Optional(Text()),
    },
)
CODEC = Codec({"Leaf": LEAF, "Branch": BRANCH})


@pytest.fixture
def importable(monkeypatch):
    """The classes above, in the module that the table names."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__, type(sys)(__name__)))
    for kind in (Leaf, Branch):
        monkeypatch.setattr(sys.modules[__name__], kind.__name__, kind, raising=False)


def branch():
    return Branch([Leaf("a", np.array([1.0, 2.0])), Leaf("b", np.array([0.0, 3.0, 4.0]), 0.5)], 2)


def changed(change):
    arrays, state = CODEC.encode(branch())
    change(arrays, state["state"])
    return CODEC.decode(arrays, state)


@pytest.mark.usefixtures("importable")
def test_objects_come_back_with_all_fields():
    again = changed(lambda arrays, state: None)
    assert (type(again), type(again.leaves[0])) == (Branch, Leaf)
    assert again.leaves[1].weight.tolist() == [0.0, 3.0, 4.0]
    assert again.leaves[1].shift == 0.5


def with_leaf(**fields):
    return lambda arrays, state: state["leaves"][0]["state"].update(fields)


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_leaf(name="c"), "attribute 'name' of class Leaf is invalid"),
        (with_leaf(shift=2), "attribute 'shift' of class Leaf is invalid"),
        (with_leaf(extra=2), "class Leaf has no stored attribute 'extra'"),
        (lambda arrays, state: state["leaves"][0]["state"].pop("shift"), "attribute 'shift' of class Leaf is missing"),
        (lambda arrays, state: arrays.update({"0": np.array([1, 2])}), "attribute 'weight' of class Leaf is invalid"),
        (lambda arrays, state: arrays.update({"0": np.array([-1.0])}), "attribute 'weight' of class Leaf is invalid"),
        (
            lambda arrays, state: arrays.update({"0": np.array([8.0, 8.0])}),
            "the attributes of an object of class Leaf do not fit together",
        ),
        (lambda arrays, state: state.update(n_units=3), "attribute 'n_units' of class Branch is invalid"),
        (lambda arrays, state: state.update(leaves=[]), "attribute 'leaves' of class Branch is invalid"),
        (lambda arrays, state: state.update(leaves=[7]), "attribute 'leaves' of class Branch is invalid"),
        (lambda arrays, state: state.update({"note": 1}), "attribute 'note' of class Branch is invalid"),
        (
            lambda arrays, state: state.update({"leaves": {"$object": "Table", "state": {}}}),
            "it contains an object of ",
        ),
    ],
)
def test_objects_that_do_not_fit_their_schema_are_refused(change, reason):
    with pytest.raises(DecodingError, match=f"^{reason}"):
        changed(change)


def test_what_the_table_does_not_name_is_not_written():
    with pytest.raises(TypeError, match=r"^value\[0\] cannot be saved: it is of type Stored$"):
        CODEC.encode([LEAF])
    forgotten = branch()
    forgotten.leaves[1].colour = "red"
    message = r"^value.leaves\[1\].colour cannot be saved: class Leaf has no such stored attribute$"
    with pytest.raises(TypeError, match=message):
        CODEC.encode(forgotten)


@pytest.mark.parametrize(
    ("spec", "values", "allowed"),
    [
        (Array("i8", (None,), low=0, below="n"), [0, 1], True),
        (Array("i8", (None,), low=0, below="n"), [0, 2], False),
        (Array("f8", (None,), order="ascending"), [1.0, 1.0, 2.0], True),
        (Array("f8", (None,), order="strictly ascending"), [1.0, 1.0, 2.0], False),
        (Array("f8", (None,), order="ascending"), [2.0, 1.0], False),
        (Array("f8", ("n",), filled=True), [1.0, 2.0], True),
        (Array("f8", (None,), filled=True), np.zeros(0), False),
        (Array("f8", (None,)), [np.inf], False),
        (Array("f8", (None,), special="inf"), [np.nan], False),
        (Array("f8", (None,), special="any"), [np.nan], True),
        (Values("f", "n"), [1.0, 2.0], True),
        (Values("iu", "n"), [1.0, 2.0], False),
    ],
)
def test_what_an_array_may_be(spec, values, allowed):
    from usnrt.utils.schema import Sizes, first_misfit

    schema = {"values": spec, "n": Int(size="n")}
    assert (first_misfit(schema, {"values": np.array(values), "n": 2}, Sizes()) is None) == allowed
