"""The picture of the tree: what it says, and that nothing covers anything else."""

from itertools import combinations
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

from usnrt.plotting.tree import plot_tree
from usnrt.tree.split import Split
from usnrt.tree.structure import TreeBuilder

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

CITIES = ("Amsterdam", "Berlin", "Copenhagen", "Dublin", "Edinburgh", "Florence", "Geneva", "Hamburg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def make_model(n_leaves, seed=0, std=lambda rng: np.exp(rng.normal())):
    """A random tree on two numbers and a category of long labels."""
    rng = np.random.default_rng(seed)
    builder = TreeBuilder(3, [0, 0, len(CITIES)])
    builder.add_root(8192)
    leaves = [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(int(rng.integers(len(leaves))))
        feature = int(rng.integers(3))
        codes = tuple(sorted(rng.permutation(8)[:4].tolist())) if feature == 2 else None
        half = builder._nodes[node].n_rows / 2
        threshold = np.nan if codes else float(rng.normal())
        leaves += builder.add_children(node, Split(feature, threshold, codes, True, rng.normal(), -3.0, half, half, 9))
    for node in range(len(builder._nodes)):
        builder.set_residuals(node, 0.0, std(rng))
    columns = [
        SimpleNamespace(name="outside temperature", kind="numeric", categories=(), has_missing=False),
        SimpleNamespace(name="price in $ and $", kind="numeric", categories=(), has_missing=True),
        SimpleNamespace(name="city", kind="categorical", categories=CITIES, has_missing=True),
    ]
    return SimpleNamespace(tree_=builder.build()[0], columns_=columns)


def boxes_in_pixels(ax):
    ax.figure.canvas.draw()
    return [patch.get_window_extent() for patch in ax.patches]


@pytest.mark.parametrize(("n_leaves", "seed"), [(1, 0), (2, 2), (10, 0), (10, 1)])
@pytest.mark.parametrize("given_axes", [False, True])
def test_no_box_covers_another_and_every_text_stays_in_its_box(n_leaves, seed, given_axes):
    model = make_model(n_leaves, seed)
    ax = plot_tree(model, plt.subplots(figsize=(7, 4))[1] if given_axes else None)
    boxes = boxes_in_pixels(ax)
    assert len(boxes) == model.tree_.n_nodes == 2 * n_leaves - 1
    for first, second in combinations(boxes, 2):
        assert not first.overlaps(second)
    texts = [text for text in ax.texts if text.get_text() not in ("yes", "no")]
    for box, text in zip(boxes, texts, strict=True):
        extent = text.get_window_extent()
        assert extent.width > 0
        assert box.x0 <= extent.x0
        assert extent.x1 <= box.x1 + 1
        assert box.y0 - 1 <= extent.y0
        assert extent.y1 <= box.y1 + 1


@pytest.mark.parametrize("seed", range(2))
def test_no_branch_runs_through_a_box(seed):
    ax = plot_tree(make_model(12, seed))
    for line in ax.lines:
        (_start, bend, _, end), (y, _, _, child_y) = line.get_data()
        for patch in ax.patches:
            x0, y0 = patch.get_xy()
            x1, y1 = x0 + patch.get_width(), y0 + patch.get_height()
            assert not (y0 < child_y < y1 and x0 < end - 1e-6 and x1 > bend), "horizontal"
            assert not (x0 < bend < x1 and y0 < max(y, child_y) and y1 > min(y, child_y)), "vertical"


def test_leaves_say_rule_rows_std_and_splits_question_and_t():
    builder = TreeBuilder(1)
    builder.add_root(4000)
    builder.add_children(0, Split(0, 2.5, None, True, -7.04, -11.2, 3000, 1000, 25))
    for node, std in enumerate((2.0, 1.0, 4.0)):
        builder.set_residuals(node, 0.0, std)
    column = SimpleNamespace(name="load", kind="numeric", categories=(), has_missing=True)
    model = SimpleNamespace(tree_=builder.build()[0], columns_=[column])
    ax = plot_tree(model, decimals=1)
    assert [text.get_text() for text in ax.texts] == [
        "load <= 2.5 or missing\nT = -7.0",
        "yes",
        "no",
        "region 1: load <= 2.5 or missing\n3,000 rows (75.0 %), std 1",
        "region 2: load > 2.5\n1,000 rows (25.0 %), std 4",
    ]
    bar = ax.figure.axes[1]
    assert [label.get_text() for label in bar.get_yticklabels()] == ["1", "2", "4"]
    assert bar.get_ylabel() == "residual std"
    colours = matplotlib.colormaps["cividis"]
    assert [patch.get_facecolor() for patch in ax.patches] == [(1, 1, 1, 1), colours(0.0), colours(1.0)]
    # white on dark blue, black on yellow
    assert [ax.texts[3].get_color(), ax.texts[4].get_color()] == ["white", "black"]


@pytest.mark.parametrize("std", [0.0, 1.0, np.nan])
def test_equal_or_unknown_spreads_need_no_colour_bar(std):
    ax = plot_tree(make_model(3, std=lambda rng: std))
    assert len(ax.figure.axes) == 1


def test_it_draws_where_it_is_told():
    _figure, axes = plt.subplots(1, 2, figsize=(12, 4))
    assert plot_tree(make_model(4), axes[0]) is axes[0]
    assert len(axes[0].patches) == 7
    assert len(axes[1].patches) == 0
