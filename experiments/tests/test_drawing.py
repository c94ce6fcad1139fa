"""Drawings of several data sets: a metric against a hyperparameter, and spreads of regions."""

import matplotlib.pyplot as plt
import numpy as np

from usnrt_experiments.drawing import draw_region_stds, draw_stability


def axes():
    return plt.subplots()[1]


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def test_stability_over_a_wide_range_has_a_log_axis():
    ax = axes()
    lines = draw_stability(ax, [1, 2, 4, 8], {"power": [3.0, 2.0, 1.8, 1.9]}, "regions", "ECE")
    np.testing.assert_array_equal(lines[0].get_xdata(), [1, 2, 4, 8])
    np.testing.assert_array_equal(lines[0].get_ydata(), [3.0, 2.0, 1.8, 1.9])
    assert (ax.get_xscale(), ticks(ax)) == ("log", ["1", "2", "4", "8"])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("regions", "ECE")


def test_stability_of_names_and_of_close_numbers():
    named, close = axes(), axes()
    draw_stability(named, ["S1", "S2"], {"a": [1.0, 2.0]}, "structure", "ECE")
    assert ticks(named) == ["S1", "S2"]
    draw_stability(close, [1, 2, 3], {"a": [1.0, 2.0, 3.0]}, "regions", "ECE")
    assert close.get_xscale() == "linear"


def test_seventeen_data_sets_can_be_told_apart():
    lines = draw_stability(axes(), [1, 2], {f"d{i}": [1.0, i] for i in range(17)}, "regions", "ECE")
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}) == 17


def test_stds_of_regions():
    ax = axes()
    draw_region_stds(ax, {"power": [0.2, 0.5, 1.1], "wave": [0.7]}, {"power": [90, 90, 300], "wave": [100]})
    power, wave = ax.collections
    np.testing.assert_allclose(power.get_offsets(), [[0, 0.2], [0, 0.5], [0, 1.1]])
    assert len(wave.get_offsets()) == 1
    assert power.get_sizes()[0] == power.get_sizes()[1] < power.get_sizes()[2]
    assert ticks(ax) == ["power\n(0.70)", "wave\n(0.00)"]


def test_names_of_many_data_sets_are_slanted():
    ax = axes()
    draw_region_stds(ax, {f"d{i}": [1.0] for i in range(9)}, {f"d{i}": [10] for i in range(9)})
    assert ax.get_xticklabels()[0].get_rotation() == 35
