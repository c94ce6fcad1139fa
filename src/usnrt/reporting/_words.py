"""The sentences of the report."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from usnrt.calibration.conformal import rows_needed
from usnrt.estimators.regions import ratio_sentence
from usnrt.metrics.intervals import COVERAGE
from usnrt.metrics.registry import on_page
from usnrt.reporting._drift import Drift, Window
from usnrt.reporting._facts import LEVELS, CalibrationFacts, Facts, Region
from usnrt.reporting._numbers import metric_text, number, percent, plus_minus, wilson
from usnrt.utils.notices import share_text

FEW_ROWS = 30
# Half width of the 95 % confidence interval of the coverage from which the rows are too few to call it calibrated.
UNCERTAIN_COVERAGE = 0.06
MUCH_LESS_CERTAIN = 1.5  # ratio of residual standard deviations from which a region is named
SIGNIFICANT = 0.025  # of each test of a drift
TOLERANCE = 0.02  # a deviation of the coverage that is negligible, even if statistically significant


def subject(target: str, facts: Facts, source: str | None) -> str:
    """What was predicted from what, and which rows are evaluated."""
    features = "1 feature" if len(facts.names) == 1 else f"{len(facts.names)} features"
    rows = f"{facts.n:,} row{'s' if facts.n != 1 else ''}" + (f" of {source}" if source else "")
    groups = "" if facts.n_groups is None else f", which come in {facts.n_groups:,} groups"
    return (
        f"Predicts {target} from {features}, with intervals of {percent(facts.coverage)} nominal coverage. "
        f"Evaluated on {rows}{groups}."
    )


def verdict(facts: Facts) -> dict[str, str]:
    """The main finding; it is never positive for training rows or infinite intervals."""
    if facts.training:
        rest = verdict(replace(facts, training=0.0))["rest"]
        head = f"{share_text(facts.training)} of these rows are training rows, so this report is too optimistic."
        return {"kind": "warn", "head": head, "rest": f"Evaluate the model on new rows. {rest}"}
    c = facts.calibration
    if c.infinite:
        return {"kind": "warn", "head": _infinite_head(facts), "rest": _infinite_rest(facts)}
    nominal, inside = percent(facts.coverage), percent(c.inside)
    if c.n < FEW_ROWS:
        head, kind = f"{c.n} rows are too few to assess the calibration.", "unknown"
        first = f"The {nominal} intervals contain the target in {inside} of them."
    elif abs(c.inside - facts.coverage) <= TOLERANCE or c.low <= facts.coverage <= c.high:
        head, kind, first = _at_all_levels(facts)
    elif c.inside < facts.coverage:
        head, kind = "The model is overconfident.", "warn"
        first = f"The {nominal} intervals contain the target in only {inside} of the rows."
    else:
        head, kind = "The model is underconfident.", "warn"
        first = f"The {nominal} intervals contain the target in {inside} of the rows."
    return {
        "kind": kind,
        "head": head,
        "rest": _joined(
            first,
            _vacuous(facts),
            _against_baseline(facts),
            _worst_region(facts),
            _untested_regions(facts),
            ratio_sentence(facts.ratio),
        ),
    }


def _at_all_levels(facts: Facts) -> tuple[str, str, str]:
    """Head, kind and first sentence if the requested coverage does not deviate: the other levels may."""
    c, nominal, inside = facts.calibration, percent(facts.coverage), percent(facts.calibration.inside)
    counting = "" if facts.n_groups is None else f"; rows of a group count together, as {c.evidence:,} independent rows"
    confidence = f"(95 % confidence interval {percent(c.low)} to {percent(c.high)}{counting})"
    first = f"The {nominal} intervals contain the target in {inside} of the rows {confidence}."
    worst = _worst_level(c)
    if worst is not None:
        level, observed = percent(LEVELS[worst]), percent(c.observed[worst])
        few = "only " if c.observed[worst] < LEVELS[worst] else ""
        head = f"The predicted uncertainty is calibrated at {nominal}, but not at {level}."
        return head, "warn", f"{first} The {level} intervals contain it in {few}{observed}."
    if (c.high - c.low) / 2 > UNCERTAIN_COVERAGE:
        return f"No deviation was found, but {c.n:,} rows are too few to tell.", "unknown", first
    return "The predicted uncertainty is calibrated.", "", first


def _worst_level(c: CalibrationFacts) -> int | None:
    """The level whose coverage deviates most; None if none deviates significantly, given their number."""
    z = _z_of_all(len(LEVELS))
    deviation = np.abs(c.observed - LEVELS)
    for index, (level, observed) in enumerate(zip(LEVELS.tolist(), c.observed.tolist())):
        if _contains(c.confidence(observed, z), level) or c.infinite_at[index]:
            deviation[index] = 0.0
    worst = int(np.argmax(deviation))
    return worst if deviation[worst] > TOLERANCE else None


def _infinite_head(facts: Facts) -> str:
    share = share_text(facts.calibration.infinite).replace(" ", "\u00a0")
    return f"The {percent(facts.coverage)} intervals are infinite for {share} of the rows."


def _infinite_rest(facts: Facts) -> str:
    c = facts.calibration
    why = f"They are infinite {facts.insufficient}." if facts.insufficient else ""
    finite = round(c.n * (1 - c.infinite))
    rest = f"The finite ones contain the target in {percent(c.finite_inside)} of {finite:,} rows."
    return _joined(
        "An infinite interval contains every value, so its coverage carries no information.",
        why,
        rest if finite else "",
        _against_baseline(facts),
        ratio_sentence(facts.ratio),
    )


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def level_sentence(facts: Facts, index: int) -> str:
    """Coverage and width at one of LEVELS, for the slider."""
    c, nominal = facts.calibration, percent(LEVELS[index])
    if c.infinite_at[index]:
        return f"{nominal} intervals are infinite for {share_text(c.infinite_at[index])} of the rows."
    return (
        f"{nominal} intervals contain the target in {percent(c.observed[index])} of the rows "
        f"and are {number(facts.widths[index])} wide on average."
    )


def _vacuous(facts: Facts) -> str:
    """Whether intervals keep their promise only because they are as wide as those of a model without features."""
    width, baseline = facts.metrics["width"]
    if not width >= 0.98 * baseline:
        return ""
    return (
        f"This promise says little: on average the intervals are as wide ({number(width)}) as those of always "
        f"predicting the mean ({number(baseline)})."
    )


def _against_baseline(facts: Facts) -> str:
    ours, baseline = facts.metrics["rmse"]
    if not baseline > 0:
        return ""
    change = 1 - ours / baseline
    # The difference of the squared errors of the same rows, in standard errors.
    gain = (facts.y - facts.baseline_mean) ** 2 - (facts.y - facts.mean) ** 2
    error = float(gain.std() / np.sqrt(max(facts.n - 1, 1)))
    if change > 0.005 and (facts.n < 2 or float(gain.mean()) > 2 * error):
        return f"The RMSE is {percent(change, 0)} smaller than that of always predicting the mean."
    if change > 0.005:
        return (
            f"The RMSE is {percent(change, 0)} smaller than that of always predicting the mean, but {facts.n:,} rows "
            "are too few to exclude chance."
        )
    return "The RMSE is not smaller than that of always predicting the mean."


def _worst_region(facts: Facts) -> str:
    """The region whose coverage deviates most; empty if none deviates significantly, given their number."""
    assessed = [r for r in facts.regions if r.calibration.n >= FEW_ROWS and not r.calibration.infinite]
    z = _z_of_all(max(len(assessed), 1))
    deviating = [
        r
        for r in assessed
        if abs(r.calibration.inside - facts.coverage) > 2 * TOLERANCE
        and not _contains(r.calibration.confidence(r.calibration.inside, z), facts.coverage)
    ]
    if not deviating:
        return ""
    worst = max(deviating, key=lambda r: abs(r.calibration.inside - facts.coverage))
    return f"In region {worst.region} ({worst.rule}) the coverage is {percent(worst.calibration.inside)}."


def typical_sentence(facts: Facts) -> str:
    """How far off predictions are, in units of the target, and what to do about it."""
    if facts.n == 0:
        return ""
    error = np.abs(facts.y - facts.mean)
    half, most = (number(float(np.quantile(error, share))) for share in (0.5, 0.9))
    first = f"Half of the predictions are off by less than {half}, nine of ten by less than {most}."
    if facts.supported is not None and not facts.supported.all():
        share = percent(float((~facts.supported).mean()))
        first += f" Check by hand the {share} of rows that do not resemble the training rows (column supported)."
    if facts.ratio >= MUCH_LESS_CERTAIN and len(facts.regions) > 1:
        worst = facts.regions[0]
        return (
            f"{first} Errors are largest in region {worst.region} ({worst.rule}): rely on its intervals rather than on "
            "its means, and look for columns that tell its rows apart."
        )
    return f"{first} Errors are about as large everywhere: a column that explains the target better helps most."


def bound_sentence(facts: Facts) -> str:
    """A tip if intervals contain values below 0, though no target is negative."""
    lower = facts.lower[np.isfinite(facts.lower)]
    if len(lower) == 0 or lower.min() >= 0 or facts.y.min() < 0:
        return ""
    n_below, lowest = int((lower < 0).sum()), number(float(lower.min()))
    intervals = "1 interval reaches" if n_below == 1 else f"{n_below:,} intervals reach"
    return (
        f"{intervals} below 0, down to {lowest}, though no target is negative. If it cannot be, fit with "
        "usnrt fit --lower 0, or target_bounds=(0, None): intervals then end at 0."
    )


def _untested_regions(facts: Facts) -> str:
    """How many regions have too few rows to assess them."""
    few = sum(r.calibration.n < FEW_ROWS for r in facts.regions)
    if len(facts.regions) < 2 or not few:
        return ""
    which = "one region has" if few == 1 else f"{few} of {len(facts.regions)} regions have"
    return f"About single regions this says less: {which} fewer than {FEW_ROWS} of these rows."


def where_sentence(facts: Facts) -> str:
    """The least and the most certain region."""
    if not facts.regions:
        return ""
    if len(facts.regions) == 1:
        return "There is one region: no significant difference in the residual spread was found."
    worst, best = facts.regions[0], facts.regions[-1]
    return (
        f"It is least certain in region {worst.region}, where {worst.rule} (±\u00a0{number(worst.residual_std)}), "
        f"and most certain in region {best.region}, where {best.rule} (±\u00a0{number(best.residual_std)})."
    )


def support_sentence(facts: Facts) -> str:
    """How many rows resemble the training rows, and why others do not."""
    if facts.supported is None:
        return ""
    lacking = int((~facts.supported).sum())
    if lacking == 0:
        return "All rows resemble the training rows."
    rows = "1 row does" if lacking == 1 else f"{lacking:,} rows do"
    reasons = ", ".join(f"{name} ({count:,})" for name, count in facts.flags.items() if count)
    return (
        f"{rows} not resemble the training rows ({percent(lacking / facts.n)} of all)"
        f"{': ' if reasons else ''}{reasons}. Their predicted distributions are wider for this reason."
    )


def region_sentence(region: Region, coverage: float) -> str:
    """The coverage of the intervals of a region."""
    c = region.calibration
    if c.infinite:
        count = "too few" if region.calibration_rows is None else f"{region.calibration_rows:,}"
        return f"infinite: {count} calibration rows in this region, {rows_needed(coverage):,} are needed"
    if c.n == 0:
        return "no rows in this region"
    return (
        f"contain the target in {percent(c.inside)} of {c.n:,} rows "
        f"(95 % confidence interval {percent(c.low)} to {percent(c.high)})"
    )


def why_sentence(facts: Facts) -> str:
    """Which features the predicted standard deviation depends on."""
    usual = float(np.mean(facts.std))
    relevant = [d for d in facts.drivers if d.std > 0.03 * usual and d.std > 2 * d.std_error][:3]
    if not relevant:
        return "None in particular: the predicted standard deviation is nearly the same for all rows."
    names = [f"{d.name} (±\u00a0{number(d.std)})" for d in relevant]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"Mainly {listed}; the average standard deviation is {number(usual)}."


def rows_note(facts: Facts) -> str:
    """How rows are counted; empty if they have ids."""
    first = facts.labels.first_row
    if first is None:
        return ""
    return f"Rows are counted from {first}: row {first} is the first one of the table."


def metric_rows(facts: Facts) -> list[dict[str, str]]:
    """The table of metrics."""
    rows = []
    for metric in on_page("report"):
        if metric.name not in facts.metrics:
            continue
        ours, baseline = facts.metrics[metric.name]
        kind = ""
        if metric.orientation in ("lower", "higher") and ours != baseline:
            kind = "better" if (ours < baseline) == (metric.orientation == "lower") else "worse"
        meaning = metric.meaning.format(coverage=percent(facts.coverage))
        if metric is COVERAGE and facts.calibration.infinite:
            meaning = f"not informative: {share_text(facts.calibration.infinite)} of the intervals are infinite"
        rows.append(
            {
                "name": f"{metric.label}, {percent(facts.coverage)}" if metric.of_interval else metric.label,
                "ours": metric_text(metric, ours),
                "baseline": metric_text(metric, baseline),
                "meaning": meaning,
                "kind": kind,
            }
        )
    return rows


def drift_sentence(drift: Drift, coverage: float) -> str:
    """What changes with time beyond sampling error, corrected for the number of windows."""
    windows = drift.windows
    z = _z_of_all(len(windows))
    sentences = []
    off = [
        w
        for w in windows
        if abs(w.coverage - coverage) > TOLERANCE and not _contains(wilson(round(w.coverage * w.n), w.n, z), coverage)
    ]
    if off:
        worst = max(off, key=lambda w: abs(w.coverage - coverage))
        sentences.append(
            f"The coverage leaves {percent(coverage)} by more than sampling error in {len(off)} of {len(windows)} "
            f"windows, most from {worst.label}: {percent(worst.coverage)}."
        )
    names = {"RMSE": ("rmse", drift.rmse_p), "mean error": ("bias", drift.bias_p)}
    sentences += [_change(windows, name, value) for name, (value, p) in names.items() if p <= SIGNIFICANT]
    if sentences:
        return " ".join(sentences)
    widest = max(w.high - w.low for w in windows) / 2
    return (
        f"No drift beyond sampling error: coverage, RMSE and mean error of the {len(windows)} windows are consistent "
        f"with constant ones. With windows of this size, coverage is known to ± {percent(widest)}."
    )


def _change(windows: Sequence[Window], name: str, value: str) -> str:
    """A sentence on the window that differs most from the others."""
    values, sizes = np.array([getattr(w, value) for w in windows]), np.array([w.n for w in windows], dtype=float)
    worst = int(np.argmax(np.abs(values - np.average(values, weights=sizes))))
    others = np.arange(len(windows)) != worst
    usual = float(np.average(values[others], weights=sizes[others]))
    error = getattr(windows[worst], f"{value}_error")
    return (
        f"The {name} changes by more than sampling error; it differs most from {windows[worst].label}: "
        f"{plus_minus(values[worst], error)}, otherwise {number(usual)} on average."
    )


def _z_of_all(n: int) -> float:
    """Standard errors of n confidence intervals that together hold with 95 %, by Bonferroni."""
    return float(ndtri(1 - 0.025 / n))


def _contains(bounds: tuple[float, float], value: float) -> bool:
    return bounds[0] <= value <= bounds[1]
