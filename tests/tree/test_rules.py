"""Rules of a tree as table, text and Graphviz source."""

from types import SimpleNamespace

import numpy as np
import pytest

from usnrt.tree.rules import (
    experts_text,
    export_graphviz,
    export_text,
    number_text,
    region_text,
    rules_table,
    split_text,
)
from usnrt.tree.split import Split
from usnrt.tree.structure import TreeBuilder


def column(name, categories=(), has_missing=False):
    kind = "categorical" if categories else "numeric"
    return SimpleNamespace(name=name, kind=kind, categories=categories, has_missing=has_missing)


def make_model(columns, splits, stds=None):
    """Splits by handle: {0: (feature, threshold or codes, missing_left)}; 64 rows, halved at every split."""
    builder = TreeBuilder(len(columns), [len(c.categories) for c in columns])
    builder.add_root(64)
    for k, (handle, (feature, where, missing_left)) in enumerate(splits.items()):
        codes = where if isinstance(where, tuple) else None
        half = builder._nodes[handle].n_rows / 2
        threshold = np.nan if codes is not None else where
        split = Split(feature, threshold, codes, missing_left, 3.0 - k, -4.0 + k, half, half, 9)
        builder.add_children(handle, split)
    for handle in range(len(builder._nodes)):
        builder.set_residuals(handle, 0.0, stds[handle] if stds else 1.0 + handle)
    return SimpleNamespace(tree_=builder.build()[0], columns_=columns)


def regions(model):
    return rules_table(model.tree_, model.columns_)["rule"].tolist()


def test_conditions_on_one_feature_are_merged():
    model = make_model([column("tau1"), column("g")], {0: (0, 2.1, True), 1: (0, 0.3, False), 4: (1, 5.0, False)})
    assert regions(model) == [
        "tau1 <= 0.3",
        "0.3 < tau1 <= 2.1 and g <= 5",
        "0.3 < tau1 <= 2.1 and g > 5",
        "tau1 > 2.1",
    ]


def test_categories_are_shown_by_label_and_intersected():
    city = column("city", ("A", "B", "C", "D"))
    model = make_model([city], {0: (0, (0, 1, 3), True), 1: (0, (1, 2), True)})
    assert regions(model) == ["city = B", "city in {A, D}", "city = C"]


def test_rules_have_all_categories_and_texts_some_of_them():
    letters = column("letter", tuple("ABCDEFGHIJKLMNOP"))
    model = make_model([letters], {0: (0, tuple(range(13)), True)})
    assert regions(model) == ["letter in {A, B, C, D, E, F, G, H, I, J, K, L, M}", "letter in {N, O, P}"]
    shown = rules_table(model.tree_, model.columns_, max_labels=6)["rule"].tolist()
    assert shown == ["letter in {A, B, C, D, E, F, ... (7 more)}", "letter in {N, O, P}"]
    assert "letter in {A, B, C, D, E, F, ... (7 more)}" in export_text(model)


def test_rules_mention_missing_values_of_training_where_they_go():
    both = [column("a", has_missing=True), column("c", ("x", "y"), has_missing=True)]
    splits = {0: (0, 1.0, True), 1: (1, (0,), False)}
    assert regions(make_model(both, splits)) == [
        "(a <= 1 or missing) and c = x",
        "(a <= 1 or missing) and (c = y or missing)",
        "a > 1",
    ]
    none = [column("a"), column("c", ("x", "y"))]
    assert regions(make_model(none, splits)) == ["a <= 1 and c = x", "a <= 1 and c = y", "a > 1"]
    # missing values follow one side of every split on their feature
    model = make_model(both, {0: (0, 2.0, True), 1: (0, 1.0, False)})
    assert regions(model) == ["a <= 1", "1 < a <= 2 or missing", "a > 2"]


def test_missing_against_all_others():
    both = [column("a", has_missing=True), column("c", ("x", "y"), has_missing=True)]
    model = make_model(both, {0: (0, np.inf, False), 1: (1, (0, 1), False), 3: (0, 7.0, False)})
    assert regions(model) == [
        "a <= 7 and c not missing",
        "a > 7 and c not missing",
        "a not missing and c missing",
        "a missing",
    ]


def test_close_bounds_stay_apart():
    model = make_model([column("x")], {0: (0, 0.12345, True), 1: (0, 0.12341, True)})
    assert regions(model) == ["x <= 0.123", "0.1234 < x <= 0.1235", "x > 0.123"]


def test_the_table_has_one_row_per_region():
    model = make_model([column("x"), column("y")], {0: (0, 1.0, True), 2: (1, 2.0, True)})
    table = rules_table(model.tree_, model.columns_)
    assert table.columns == [
        "region", "rule", "rows", "share", "residual_std", "statistic", "log10_p", "statistics", "log10_ps",
    ]  # fmt: skip
    assert table.rows() == [
        {
            "region": 1, "rule": "x <= 1", "rows": 32, "share": 0.5, "residual_std": 2.0,
            "statistic": 3.0, "log10_p": -4.0, "statistics": "3.00", "log10_ps": "-4.0",
        },
        {
            "region": 3, "rule": "x > 1 and y <= 2", "rows": 16, "share": 0.25, "residual_std": 4.0,
            "statistic": 2.0, "log10_p": -3.0, "statistics": "3.00, 2.00", "log10_ps": "-4.0, -3.0",
        },
        {
            "region": 4, "rule": "x > 1 and y > 2", "rows": 16, "share": 0.25, "residual_std": 5.0,
            "statistic": 2.0, "log10_p": -3.0, "statistics": "3.00, 2.00", "log10_ps": "-4.0, -3.0",
        },
    ]  # fmt: skip


def test_the_table_has_the_weights_of_experts_and_their_words():
    model = make_model([column("x")], {0: (0, 1.0, True)})
    weights = np.array([[1.0, 0.0, 0.0], [0.1, 0.2, 0.7]])
    table = rules_table(model.tree_, model.columns_, expert_weights=weights)
    assert table.columns[-4:] == ["network", "guided", "memory", "experts"]
    np.testing.assert_array_equal(np.column_stack([table[name] for name in table.columns[-4:-1]]), weights)
    assert table["experts"].tolist() == ["network alone", "mostly memory of similar rows"]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ((1.0, 0.0, 0.0), "network alone"),
        ((0.0, 1.0, 0.0), "network guided by similar rows"),
        ((0.0, 0.0, 1.0), "memory of similar rows alone"),
        ((0.9, 0.1, 0.0), "mostly network"),
        ((0.2, 0.8, 0.0), "mostly network guided by similar rows"),
        ((0.0, 0.1, 0.9), "mostly memory of similar rows"),
        ((0.5, 0.0, 0.5), "half network, half memory"),
        ((0.0, 0.4, 0.5), "half guided network, half memory"),
        ((0.4, 0.5, 0.1), "half network, half guided network"),
        ((0.6, 0.4, 0.0), "more network than guided network"),
        ((0.3, 0.1, 0.6), "more memory than network"),
        ((0.2, 0.3, 0.5), "memory, guided network and network"),
        ((1 / 3, 1 / 3, 1 / 3), "network, guided network and memory"),
    ],
)
def test_words_of_the_weights_of_experts(weights, words):
    assert experts_text(weights) == words


def test_words_are_true_of_all_weights():
    steps = [(a, b, 20 - a - b) for a in range(21) for b in range(21 - a)]
    for weights in np.array(steps) / 20:
        words, name = experts_text(weights), ("network", "guided", "memory")[int(weights.argmax())]
        first, second, third = sorted(weights, reverse=True)
        if words.startswith("half"):
            assert first - second <= 0.15 + 1e-9
            assert third < 0.15
        elif words.startswith("more"):
            assert first > second + 0.1
            assert words.removeprefix("more ").startswith(name)
        elif words.startswith("mostly") or words.endswith("alone"):
            assert first >= 0.65
            assert name in words
        elif words == "network guided by similar rows":
            assert weights[1] >= 0.95
        else:
            assert third >= 0.15
            assert words.startswith(name) or first - second < 1e-9


def test_a_tree_of_one_leaf():
    model = make_model([column("x")], {})
    table = rules_table(model.tree_, model.columns_)
    assert table["rule"].tolist() == ["all rows"]
    assert np.isnan(table["statistic"][0])
    assert table["statistics"].tolist() == [""]
    assert export_text(model) == "all rows: 64 rows, residual std 1\nregion 0: 64 rows (100.0 %), residual std 1"


def test_text_of_nodes_and_splits():
    model = make_model([column("x", has_missing=True)], {0: (0, 1 / 3, True), 1: (0, -1.0, False)})
    tree, columns = model.tree_, model.columns_
    assert region_text(tree, 0, columns) == "all rows"
    assert region_text(tree, 1, columns, decimals=1) == "x <= 0.3 or missing"
    assert split_text(tree, 0, columns, to_left=False, decimals=5) == "x > 0.33333"
    assert split_text(tree, 1, columns) == "x <= -1"
    assert split_text(tree, 1, columns, to_left=False) == "x > -1 or missing"


def test_export_text():
    model = make_model([column("x"), column("c", ("p", "q"))], {0: (0, 1.0, True), 1: (1, (1,), True)})
    assert export_text(model, decimals=1) == "\n".join(
        [
            "all rows: 64 rows, residual std 1",
            "|-- x <= 1   [T = 3.00, log10 p = -4.0]",
            "|   |-- c = q   [T = 2.00, log10 p = -3.0]",
            "|   |   region 2: 16 rows (25.0 %), residual std 4",
            "|   |-- c = p",
            "|   |   region 3: 16 rows (25.0 %), residual std 5",
            "|-- x > 1",
            "|   region 4: 32 rows (50.0 %), residual std 3",
        ]
    )


def test_the_text_of_a_split_has_only_what_can_reach_it():
    city, load = column("city", ("A", "B", "C", "D"), has_missing=True), column("load", has_missing=True)
    model = make_model([city], {0: (0, (0, 1, 3), True), 1: (0, (1, 2), True)})  # C went right at the root
    assert split_text(model.tree_, 1, model.columns_) == "city = B or missing"
    assert split_text(model.tree_, 1, model.columns_, to_left=False) == "city in {A, D}"
    model = make_model([load], {0: (0, 5.0, False), 1: (0, 3.0, True)})  # missing went right at the root
    assert split_text(model.tree_, 1, model.columns_) == "load <= 3"


def test_export_graphviz():
    model = make_model([column("x")], {0: (0, 1.0, True)}, stds=[2.0, 1.0, 4.0])
    assert export_graphviz(model).splitlines() == [
        "digraph tree {",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica"];',
        '  edge [fontname="Helvetica"];',
        '  0 [label="x <= 1\\nT = 3.00, log10 p = -4.0\\n64 rows (100.0 %), residual std 2", fillcolor="#b2cce0"];',
        '  0 -> 1 [label="yes"];',
        '  0 -> 2 [label="no"];',
        '  1 [label="region 1\\n32 rows (50.0 %), residual std 1", fillcolor="#f2f7fb"];',
        '  2 [label="region 2\\n32 rows (50.0 %), residual std 4", fillcolor="#72a1c6"];',
        "}",
    ]


def test_export_graphviz_escapes_names():
    model = make_model([column('say "a\\b"\nplease', ('"', "\\"))], {0: (0, (0,), True)})
    assert '0 [label="say \\"a\\\\b\\"\\\\nplease = \\"\\nT = 3.00' in export_graphviz(model)


@pytest.mark.parametrize("stds", [[0.0, 0.0, 0.0], [np.nan, np.nan, np.nan], [0.0, 1.0, 0.0]])
def test_colours_survive_residuals_without_spread(stds):
    model = make_model([column("x")], {0: (0, 1.0, True)}, stds=stds)
    colours = [line.split("fillcolor=")[1][1:8] for line in export_graphviz(model).splitlines() if "fillcolor" in line]
    assert colours == ["#b2cce0"] * 3


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.0, 3, "0"), (1.0, 3, "1"), (-2.50, 3, "-2.5"), (1234.5678, 2, "1234.57"), (1e-7, 3, "1e-07"),
        (0.004, 3, "0.004"), (100.0, 0, "100"), (1e20, 3, "1e+20"), (np.inf, 3, "inf"), (np.nan, 3, "nan"),
    ],
)  # fmt: skip
def test_number_text(value, decimals, text):
    assert number_text(value, decimals) == text


def test_fractional_weights_are_shown():
    builder = TreeBuilder(1)
    builder.add_root(1234567.25, 0.0, 1.0)
    model = SimpleNamespace(tree_=builder.build()[0], columns_=[column("x")])
    assert export_text(model).startswith("all rows: 1,234,567.2 rows")


def test_control_characters_of_names_and_categories_are_escaped():
    columns = [column("a\x1b[2J\nb"), column("c\u202ed\x9b", ("x\x07", "y\u2066"))]
    model = make_model(columns, {0: (0, 2.5, True), 1: (1, (0,), True)})
    text = export_text(model)
    assert r"a\x1b[2J\nb <= 2.5" in text
    assert r"c\u202ed\x9b = x\x07" in text
    assert r"c\u202ed\x9b = y\u2066" in text
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    assert export_graphviz(model).replace("\n", "").isprintable()
