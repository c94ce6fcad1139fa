"""Figures of trees: variance function, root split, picture of the tree."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest

import usnrt.plotting
from usnrt.distributions import Normal
from usnrt.plotting import RootPartitionDisplay, VarianceFunctionDisplay

RNG = np.random.default_rng(0)
N = 300
X = RNG.random((N, 3))


class TwoRegions:
    """Calm up to x0 = 0.37, wild beyond; remembers the rows it was asked for."""

    def _array(self, rows):
        self.asked = rows
        return np.asarray(rows.select_dtypes("number") if isinstance(rows, pd.DataFrame) else rows)

    def predict_dist(self, rows):
        x = self._array(rows)[:, 0].astype(float)
        return Normal(np.zeros(len(x)), np.where(x <= 0.37, 1.0, 2.0 + x))

    def apply(self, rows):
        return np.where(self._array(rows)[:, 0].astype(float) <= 0.37, 1, 2)


def test_variance_function_of_an_array():
    model = TwoRegions()
    display = VarianceFunctionDisplay.from_estimator(model, X, 0, n_points=50, target_name="load")
    assert len(display.lines_) == 2
    np.testing.assert_allclose(display.jumps_, [0.37], atol=1e-4)
    left, right = display.lines_
    np.testing.assert_array_equal(left.get_ydata(), np.ones(len(left.get_xdata())))
    np.testing.assert_allclose(right.get_ydata(), 2.0 + right.get_xdata())
    assert left.get_xdata()[-1] <= 0.37 < right.get_xdata()[0]
    assert (left.get_xdata()[0], right.get_xdata()[-1]) == (X[:, 0].min(), X[:, 0].max())
    np.testing.assert_allclose(model.asked[:, 1], X[:, 1].mean())
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("x0", "predicted std of load")
    assert display.ax_.get_ylim()[0] == 0


def test_variance_function_without_regions_is_one_line():
    class Smooth:
        def predict_dist(self, rows):
            return Normal(0.0, 1.0 + rows[:, 1])

    display = VarianceFunctionDisplay.from_estimator(Smooth(), X, 1)
    assert len(display.lines_) == 1
    assert display.jumps_ == []


@pytest.mark.parametrize("module", [pd, pl])
def test_variance_function_of_a_data_frame(module):
    words = np.where(RNG.random(N) < 0.7, "often", "seldom")
    frame = module.DataFrame({"wind": X[:, 0], "count": np.arange(N), "word": words})

    class Model:
        def predict_dist(self, rows):
            assert isinstance(rows, module.DataFrame)
            assert list(rows.columns) == ["wind", "count", "word"]
            assert set(rows["word"]) == {"often"}
            np.testing.assert_allclose(np.asarray(rows["count"], float), (N - 1) / 2)
            return Normal(0.0, 1.0 + np.asarray(rows["wind"], float))

    display = VarianceFunctionDisplay.from_estimator(Model(), frame, "wind", n_points=30)
    np.testing.assert_allclose(display.lines_[0].get_ydata(), 1.0 + display.lines_[0].get_xdata())
    assert display.ax_.get_xlabel() == "wind"
    with pytest.raises(ValueError, match="feature must be numeric, got word of type String"):
        VarianceFunctionDisplay.from_estimator(Model(), frame, "word")
    with pytest.raises(ValueError, match=r"feature must be one of \['wind', 'count', 'word'\], got 'rain'"):
        VarianceFunctionDisplay.from_estimator(Model(), frame, "rain")


def test_variance_function_keeps_odd_indexes_and_missing_values():
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": pd.Categorical(["u", None, "u"])}, index=[7, 7, 9])

    class Model:
        def predict_dist(self, rows):
            assert rows["b"].dtype == "category"
            assert (rows["b"] == "u").all()
            return Normal(np.zeros(len(rows)), np.asarray(rows["a"], float))

    display = VarianceFunctionDisplay.from_estimator(Model(), frame, "a", n_points=3)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: VarianceFunctionDisplay.from_estimator(TwoRegions(), X, 3),
            r"feature must be in \[0, 3\), got 3",
        ),
        (
            lambda: VarianceFunctionDisplay.from_estimator(TwoRegions(), X, 0, n_points=1),
            "n_points must be an int >= 2,",
        ),
        (
            lambda: VarianceFunctionDisplay.from_estimator(TwoRegions(), X[0], 0),
            r"X must have shape \(n, d\), got \(3,\)",
        ),
        (
            lambda: VarianceFunctionDisplay.from_estimator(TwoRegions(), np.array([["a", "b"]]), 0),
            "X must be numeric or a data frame, got an array with text",
        ),
        (
            lambda: VarianceFunctionDisplay.from_predictions([1.0, 2.0], [1.0]),
            r"x, std and region must have one shape \(k,\), got \(2,\), \(1,\)",
        ),
        (
            lambda: VarianceFunctionDisplay.from_predictions([1.0], [np.nan]),
            "x and std must be finite, got NaN or infinity",
        ),
    ],
)
def test_bad_variance_functions(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_variance_function_sorts_its_points():
    display = VarianceFunctionDisplay.from_predictions([3.0, 1.0, 2.0], [30.0, 10.0, 20.0], region=["b", "a", "a"])
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), [10.0, 20.0])
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), [30.0])
    assert display.jumps_ == [2.5]


RESIDUALS = RNG.normal(scale=np.where(X[:, 0] <= 0.4, 1.0, 3.0))


def test_root_split_draws_ranks_and_variances():
    display = RootPartitionDisplay.from_predictions(
        X[:, 0], X[:, 1], RESIDUALS, 0.4, feature_name="wind", other_name="rain"
    )
    left = X[:, 0] <= 0.4
    assert display.variance_left_ == pytest.approx(RESIDUALS[left].var())
    assert display.variance_right_ == pytest.approx(RESIDUALS[~left].var())
    np.testing.assert_allclose(display.points_.get_offsets(), X[:, :2])
    colours = display.points_.get_array()
    np.testing.assert_array_equal(np.argsort(colours), np.argsort(RESIDUALS**2))
    assert (colours.min(), colours.max()) == (0.0, 1.0)
    assert display.split_.get_linestyle() == "--"
    assert display.split_.get_xdata()[0] == 0.4
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == [
        "split at 0.4",
        f"left variance {RESIDUALS[left].var():.3g}",
        f"right variance {RESIDUALS[~left].var():.3g}",
    ]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("wind", "rain")


def test_root_split_draws_a_part_of_many_rows():
    display = RootPartitionDisplay.from_predictions(X[:, 0], X[:, 1], RESIDUALS, 0.4, max_rows=100)
    assert len(display.points_.get_offsets()) == 100
    assert display.variance_left_ == pytest.approx(RESIDUALS[X[:, 0] <= 0.4].var())


def fitted(kind="numeric", raw=X):
    """What RootPartitionDisplay needs to know of a fitted tree."""
    categories = ("a", "b", "c") if kind == "categorical" else ()
    tree = SimpleNamespace(
        feature=np.array([0, -1, 2, -1, -1]),
        threshold=np.array([0.4 if kind == "numeric" else np.nan, np.nan, 0.5, np.nan, np.nan]),
        category_row=np.array([0 if kind == "categorical" else -1, -1, -1, -1, -1]),
        left_categories=np.array([[False, True, False]]),
        residual_std=np.array([2.0, 1.0, 3.0, 2.5, 4.0]),
        n_rows=np.array([300.0, 120.0, 180.0, 90.0, 90.0]),
    )
    columns = [
        SimpleNamespace(name=n, kind=k, categories=categories) for n, k in zip("uvw", (kind, "numeric", "numeric"))
    ]
    return SimpleNamespace(
        tree_=tree,
        columns_=columns,
        encoder_=SimpleNamespace(transform=lambda rows: raw),
        predict_dist=lambda rows: Normal(np.ones(N), 1.0),
    )


def test_points_of_few_values_stand_side_by_side_on_their_side():
    rng = np.random.default_rng(0)
    x, other = rng.choice([16.0, 32.0, 64.0, 128.0], 500), rng.choice([0.0, 1.0], 500)
    display = RootPartitionDisplay.from_predictions(x, other, rng.normal(size=500), threshold=63.0)
    at = np.asarray(display.points_.get_offsets())
    assert len(np.unique(at[:, 0])) > 400
    nearest = {16.0: 16.0, 32.0: 16.0, 64.0: 32.0, 128.0: 64.0}
    for value, gap in nearest.items():
        assert np.abs(at[x == value, 0] - value).max() <= 0.3 * gap
    assert ((at[:, 0] <= 63.0) == (x <= 63.0)).all()
    assert len(np.unique(at[:, 1])) > 400
    assert np.abs(at[:, 1] - other).max() <= 0.3


def test_root_split_of_an_estimator():
    display = RootPartitionDisplay.from_estimator(fitted(), X, RESIDUALS + 1.0)
    np.testing.assert_allclose(display.points_.get_offsets(), X[:, [0, 2]])  # w, the next feature of the tree
    np.testing.assert_allclose(display.residuals, RESIDUALS)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("u", "w")
    assert RootPartitionDisplay.from_estimator(fitted(), X, RESIDUALS, "v").ax_.get_ylabel() == "v"
    assert RootPartitionDisplay.from_estimator(fitted(), X, RESIDUALS, 1).ax_.get_ylabel() == "v"


def test_root_split_of_a_category_has_its_left_categories_first():
    raw = np.column_stack([np.arange(N) % 4.0, X[:, 1:]])
    raw[raw[:, 0] == 3, 0] = -1  # never seen in training
    display = RootPartitionDisplay.from_estimator(fitted("categorical", raw), X, RESIDUALS)
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["b", "a", "c"]
    assert display.split_.get_xdata()[0] == 0.5
    assert display.ax_.get_legend().get_texts()[0].get_text() == "left: b"
    assert len(display.points_.get_offsets()) == (raw[:, 0] >= 0).sum()
    places = np.round(display.points_.get_offsets()[:, 0])
    expected = np.array([1.0, 0.0, 2.0])[raw[raw[:, 0] >= 0, 0].astype(int)]
    np.testing.assert_array_equal(places, expected)
    assert display.variance_left_ == pytest.approx((RESIDUALS - 1.0)[raw[:, 0] == 1].var())


def test_many_categories_on_the_left_are_counted():
    display = RootPartitionDisplay(
        np.arange(10.0), np.zeros(10), np.arange(10.0), np.arange(10) < 8, 7.5, ticks=[f"k{i}" for i in range(10)]
    ).plot()
    assert display.split_.get_label() == "left: k0 and 7 more"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: RootPartitionDisplay.from_predictions(X[:, 0], X[:5, 1], RESIDUALS, 0.4),
            r"x, other and residuals must have one shape \(n,\), got \(300,\), \(5,\), \(300,\)",
        ),
        (
            lambda: RootPartitionDisplay.from_predictions(X[:, 0], X[:, 1] * np.nan, RESIDUALS, 0.4),
            "x, other and residuals must be finite, got NaN or infinity",
        ),
        (
            lambda: RootPartitionDisplay.from_predictions(X[:, 0], X[:, 1], RESIDUALS, 2.0),
            "threshold must have rows on both sides, got 2.0",
        ),
        (
            lambda: RootPartitionDisplay.from_estimator(fitted(), X, RESIDUALS, "z"),
            r"other must be one of \['u', 'v', 'w'\], got 'z'",
        ),
        (
            lambda: RootPartitionDisplay.from_estimator(fitted(), X, RESIDUALS, 3),
            r"other must be in \[0, 3\), got 3",
        ),
    ],
)
def test_bad_root_splits(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_tree_without_a_split_has_no_root_split():
    model = fitted()
    model.tree_.feature = np.array([-1])
    with pytest.raises(ValueError, match="estimator must have split its root, got a tree of a single region"):
        RootPartitionDisplay.from_estimator(model, X, RESIDUALS)


def test_given_axes_are_used_and_no_figure_is_made():
    _, axes = plt.subplots(2)
    displays = [
        VarianceFunctionDisplay.from_predictions([1.0, 2.0], [1.0, 1.0], ax=axes[0]),
        RootPartitionDisplay.from_predictions(X[:, 0], X[:, 1], RESIDUALS, 0.4, ax=axes[1]),
    ]
    assert [display.ax_ for display in displays] == list(axes.ravel())
    assert len(plt.get_fignums()) == 1


def test_names_load_when_asked_for():
    assert set(usnrt.plotting.__all__) == {
        "IntervalDisplay",
        "PITDisplay",
        "ReliabilityDisplay",
        "RootPartitionDisplay",
        "SharpnessCalibrationDisplay",
        "VarianceFunctionDisplay",
        "plot_tree",
    }
    assert all(callable(getattr(usnrt.plotting, name)) for name in usnrt.plotting.__all__)
    assert set(usnrt.plotting.__all__) <= set(dir(usnrt.plotting))
    with pytest.raises(AttributeError, match="module 'usnrt.plotting' has no attribute 'PieDisplay'"):
        usnrt.plotting.PieDisplay  # noqa: B018


def test_without_matplotlib_one_clear_sentence(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'usnrt\[plot\]'"):
        VarianceFunctionDisplay.from_predictions([1.0, 2.0], [1.0, 1.0])
