"""The sentences of the report."""

from dataclasses import replace

from usnrt.estimators.regions import ratio_sentence
from usnrt.metrics.models import share_text
from usnrt.report._facts import LEVELS, Facts
from usnrt.report._numbers import number, percent

FEW_ROWS = 30
TOLERANCE = 0.02  # a deviation of the coverage that is negligible, even if statistically significant

MEANINGS = {
    "rmse": ("RMSE", "root mean squared error of the predicted mean", "low"),
    "mae": ("MAE", "mean absolute error of the predicted mean", "low"),
    "r2": ("R²", "share of the target's variance that is explained", "high"),
    "crps": ("CRPS", "distance of the predicted distributions from the targets", "low"),
    "nll": ("NLL", "negative log of the predicted density at the targets", "low"),
    "ece": ("ECE", "mean difference of nominal and observed probabilities", "low"),
    "coverage": ("coverage", "share of targets inside the {coverage} interval; should be {coverage}", "target"),
    "width": ("width", "mean width of the {coverage} intervals; smaller is better at equal coverage", "plain"),
}


def subject(target: str, facts: Facts, source: str | None) -> str:
    """What was predicted from what, and which rows are evaluated."""
    features = "1 feature" if len(facts.names) == 1 else f"{len(facts.names)} features"
    rows = f"{facts.n:,} row{'s' if facts.n != 1 else ''}" + (f" of {source}" if source else "")
    return (
        f"Predicts {target} from {features}, with intervals of {percent(facts.coverage)} nominal coverage. "
        f"Evaluated on {rows}."
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
        head, kind = "The predicted uncertainty is calibrated.", ""
        first = f"The {nominal} intervals contain the target in {inside} of the rows."
    elif c.inside < facts.coverage:
        head, kind = "The model is overconfident.", "warn"
        first = f"The {nominal} intervals contain the target in only {inside} of the rows."
    else:
        head, kind = "The model is underconfident.", "warn"
        first = f"The {nominal} intervals contain the target in {inside} of the rows."
    return {
        "kind": kind,
        "head": head,
        "rest": _joined(first, _against_baseline(facts), _worst_region(facts), ratio_sentence(facts.ratio)),
    }


def _infinite_head(facts: Facts) -> str:
    share = share_text(facts.calibration.infinite).replace(" ", "\u00a0")
    return f"The {percent(facts.coverage)} intervals are infinite for {share} of the rows."


def _infinite_rest(facts: Facts) -> str:
    c = facts.calibration
    why = f"They are infinite {facts.lack}." if facts.lack else ""
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


def _against_baseline(facts: Facts) -> str:
    ours, baseline = facts.metrics["rmse"]
    if not baseline > 0:
        return ""
    change = 1 - ours / baseline
    if change > 0.005:
        return f"The RMSE is {percent(change, 0)} smaller than that of always predicting the mean."
    return "The RMSE is not smaller than that of always predicting the mean."


def _worst_region(facts: Facts) -> str:
    """The region whose coverage deviates most; empty if none deviates significantly."""
    assessed = [r for r in facts.regions if r.calibration.n >= FEW_ROWS and not r.calibration.infinite]
    deviating = [
        r
        for r in assessed
        if not r.calibration.low <= facts.coverage <= r.calibration.high
        and abs(r.calibration.inside - facts.coverage) > 2 * TOLERANCE
    ]
    if deviating:
        worst = max(deviating, key=lambda r: abs(r.calibration.inside - facts.coverage))
        return f"In region {worst.region} ({worst.rule}) the coverage is {percent(worst.calibration.inside)}."
    return ""


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
    """How many rows resemble the training rows."""
    if facts.supported is None:
        return ""
    lacking = int((~facts.supported).sum())
    if lacking == 0:
        return "All rows resemble the training rows."
    rows = "1 row does" if lacking == 1 else f"{lacking:,} rows do"
    return (
        f"{rows} not resemble the training rows ({percent(lacking / facts.n)} of all): a number is outside the range "
        "of its region, a category is new, a value is unexpectedly missing, or the combination is far from all "
        "training rows. Their predicted distributions are wider for this reason."
    )


def why_sentence(facts: Facts) -> str:
    """Which features the predicted standard deviation depends on."""
    relevant = [(name, factor) for name, factor in facts.drivers if factor >= 1.05][:3]
    if not relevant:
        return "None in particular: the predicted standard deviation is nearly the same for all rows."
    names = [f"{name} (×\u00a0{number(factor)})" for name, factor in relevant]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"Mainly {listed}."


def metric_rows(facts: Facts) -> list[dict[str, str]]:
    """The table of metrics."""
    rows = []
    for name, (ours, baseline) in facts.metrics.items():
        key = name.split("_")[0]
        if key not in MEANINGS:
            continue
        label, meaning, wanted = MEANINGS[key]
        kind = ""
        if wanted in ("low", "high") and ours != baseline:
            kind = "better" if (ours < baseline) == (wanted == "low") else "worse"
        show = percent if key in ("coverage", "ece") else number
        if key == "coverage" and facts.calibration.infinite:
            meaning = f"not informative: {share_text(facts.calibration.infinite)} of the intervals are infinite"
        if key == "r2":
            ours, baseline = round(ours, 3), round(baseline, 3)
        rows.append(
            {
                "name": label if key not in ("coverage", "width") else f"{label}, {percent(facts.coverage)}",
                "ours": show(ours),
                "baseline": show(baseline),
                "meaning": meaning.format(coverage=percent(facts.coverage)),
                "kind": kind,
            }
        )
    return rows
