"""The charts of the page."""

import numpy as np
from numpy.typing import NDArray

from usnrt.report._facts import LEVELS, CalibrationFacts, Facts
from usnrt.report._numbers import number, percent, wilson
from usnrt.report._svg import Chart, nice_ticks

PERCENT_TICKS = [(level, f"{100 * level:.0f}") for level in (0, 0.2, 0.4, 0.6, 0.8, 1.0)]
N_BINS = 20
MAX_STROKES = 80


def reliability(calibration: CalibrationFacts, coverage: float, small: bool = False) -> str:
    """Nominal against observed coverage; a calibrated model follows the diagonal."""
    chart = Chart(
        (0, 1),
        (0, 1),
        "nominal coverage, %",
        "observed coverage, %",
        f"Reliability: {percent(coverage)} intervals contain the target in {percent(calibration.inside)} of the rows",
        *((300, 240) if small else (420, 340)),
    )
    chart.ticks(PERCENT_TICKS, PERCENT_TICKS)
    bounds = [wilson(round(level * calibration.n), calibration.n) for level in LEVELS]
    low, high = np.array(bounds).T
    chart.band(LEVELS.tolist(), low.tolist(), high.tolist(), "chance", "sampling variation of a calibrated model")
    chart.line([0, 1], [0, 1], "ideal", "nominal = observed")
    finite = calibration.infinite_at == 0  # the coverage of infinite intervals carries no information
    chart.line([0, *LEVELS[finite]], [0, *calibration.observed[finite]], "line")
    for level, share in zip(LEVELS[finite], calibration.observed[finite]):
        tip = f"{percent(level)} intervals contain the target in {percent(share)} of the rows"
        chart.dot(level, share, "dot", tip, 2.5 if small else 3.5)
    return chart.svg()


def pit_histogram(pit: NDArray[np.float64]) -> str:
    """Histogram of the PIT values; flat for a calibrated model."""
    counts, edges = np.histogram(pit, N_BINS, (0, 1))
    shares = counts / len(pit) * N_BINS  # 1 is the expected share
    low, high = wilson(round(len(pit) / N_BINS), len(pit))
    top = max(1.5, float(shares.max()) * 1.08, high * N_BINS * 1.08)
    chart = Chart(
        (0, 1),
        (0, top),
        "predicted probability below the target (PIT), %",
        "rows relative to expected",
        "Histogram of the PIT values, the predicted probabilities below the targets; flat is good",
        420,
        340,
    )
    chart.ticks(PERCENT_TICKS, [(value, f"{value:g}") for value in nice_ticks(0, top, 4)])
    for left, right, share, count in zip(edges[:-1], edges[1:], shares, counts):
        tip = f"{count:,} rows between {percent(left)} and {percent(right)}"
        chart.bar(left + 0.003, right - 0.003, share, "bar", tip)
    chart.band([0, 1], [low * N_BINS] * 2, [high * N_BINS] * 2, "chance", "sampling variation of a calibrated model")
    chart.line([0, 1], [1, 1], "ideal")
    return chart.svg()


def intervals(facts: Facts) -> str:
    """Intervals of some rows, by predicted mean, with the target as a dot, hollow if outside."""
    order = np.argsort(facts.mean, kind="stable")
    if len(order) > MAX_STROKES:
        order = order[np.linspace(0, len(order) - 1, MAX_STROKES).astype(int)]
    ends = np.concatenate([facts.lower[order], facts.upper[order], facts.y[order]])
    ends = ends[np.isfinite(ends)]
    low, high = float(ends.min()), float(ends.max())
    room = 0.04 * (high - low) or max(abs(high), 1.0)
    chart = Chart(
        (-1, len(order)),
        (low - room, high + room),
        f"{len(order)} rows, by predicted mean",
        "target",
        f"{percent(facts.coverage)} intervals of {len(order)} rows with the targets",
        880,
        360,
    )
    ticks = nice_ticks(low - room, high + room, 6)
    chart.ticks(y=[(value, number(value)) for value in ticks])
    for position, i in enumerate(order):
        inside = facts.lower[i] <= facts.y[i] <= facts.upper[i]
        tip = (
            f"row {i + 1}: predicted {number(facts.mean[i])}, {number(facts.lower[i])} to {number(facts.upper[i])}, "
            f"target {number(facts.y[i])}{'' if inside else ', outside'}"
        )
        bounds = np.clip([facts.lower[i], facts.upper[i]], low - room, high + room)
        chart.stroke(position, bounds[0], bounds[1], "interval", tip)
        chart.dot(position, facts.y[i], "truth" if inside else "truth outside", tip, 3.2)
    return chart.svg()
