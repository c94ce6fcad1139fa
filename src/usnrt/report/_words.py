"""The page's sentences, from its numbers."""

from dataclasses import replace
from typing import Any

from usnrt.estimators.regions import ratio_sentence
from usnrt.metrics.judged import share_text
from usnrt.report._facts import LEVELS, Facts
from usnrt.report._numbers import number, percent

FEW_ROWS = 30
TOLERANCE = 0.02  # a difference in coverage that nobody need mind, however many rows prove it

MEANINGS = {
    "rmse": ("RMSE", "typical size of an error, large ones counting more", "low"),
    "mae": ("MAE", "mean size of an error", "low"),
    "r2": ("R²", "share of the target's variance that is explained", "high"),
    "crps": ("CRPS", "distance of the stated distributions from what happened", "low"),
    "nll": ("NLL", "minus the log of the density given to what happened", "low"),
    "ece": ("ECE", "mean gap between stated and observed probabilities", "low"),
    "coverage": ("inside", "rows inside their {coverage} interval; should be {coverage}", "target"),
    "width": ("width", "mean width of the {coverage} intervals; small is good if they are true", "plain"),
}


def asked(model: Any, facts: Facts, source: str | None) -> str:
    """What the page is about."""
    target = getattr(model, "target_name_", None) or "the target"
    features = "1 feature" if len(facts.names) == 1 else f"{len(facts.names)} features"
    rows = f"{facts.n:,} row{'s' if facts.n != 1 else ''}" + (f" of {source}" if source else "")
    return (
        f"Asked: predict {target} from {features}, with intervals that hold the truth {percent(facts.coverage)} "
        f"of the time. Judged on {rows}."
    )


def verdict(facts: Facts) -> dict[str, str]:
    """The answer in a sentence or two; no praise for rows that were trained on or intervals that hold everything."""
    if facts.training:
        rest = verdict(replace(facts, training=0.0))["rest"]
        head = f"These are training rows ({share_text(facts.training)} of them), so this page cannot be relied on."
        return {"kind": "warn", "head": head, "rest": f"A model looks better on them than it is. {rest}"}
    c = facts.calibration
    if c.infinite:
        return {"kind": "warn", "head": _infinite_head(facts), "rest": _infinite_rest(facts)}
    stated, inside = percent(facts.coverage), percent(c.inside)
    if c.n < FEW_ROWS:
        head, kind = f"{c.n} rows are too few to judge the stated uncertainty.", "unknown"
        first = f"Its {stated} intervals held the truth in {inside} of them."
    elif abs(c.inside - facts.coverage) <= TOLERANCE or c.low <= facts.coverage <= c.high:
        head, kind = "The stated uncertainty can be believed.", ""
        first = f"Its {stated} intervals held the truth in {inside} of the rows."
    elif c.inside < facts.coverage:
        head, kind = "The model is surer than it should be.", "warn"
        first = f"Its {stated} intervals held the truth in only {inside} of the rows."
    else:
        head, kind = "The model is less sure than it could be.", "warn"
        first = f"Its {stated} intervals held the truth in {inside} of the rows."
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
    why = f"They are so {facts.lack}." if facts.lack else ""
    finite = round(c.n * (1 - c.infinite))
    rest = f"Where they are finite, they held the truth in {percent(c.finite_inside)} of {finite:,} rows."
    return _joined(
        "An infinite interval holds every value, so that it held the truth says nothing.",
        why,
        rest if finite else "",
        _against_baseline(facts),
        ratio_sentence(facts.ratio),
    )


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def level_sentence(facts: Facts, place: int) -> str:
    """What the slider answers at one of LEVELS."""
    c, stated = facts.calibration, percent(LEVELS[place])
    if c.infinite_at[place]:
        return f"{stated} intervals are infinite for {share_text(c.infinite_at[place])} of the rows."
    return (
        f"{stated} intervals held the truth in {percent(c.observed[place])} of the rows "
        f"and are {number(facts.widths[place])} wide on average."
    )


def _against_baseline(facts: Facts) -> str:
    ours, theirs = facts.measures["rmse"]
    if not theirs > 0:
        return ""
    change = 1 - ours / theirs
    if change > 0.005:
        return f"Its errors are {percent(change, 0)} smaller than those of always answering with the average."
    return "Its errors are not smaller than those of always answering with the average."


def _worst_region(facts: Facts) -> str:
    """CalibrationFacts may be right on the whole and wrong somewhere."""
    judged = [r for r in facts.regions if r.calibration.n >= FEW_ROWS and not r.calibration.infinite]
    wrong = [
        r
        for r in judged
        if not r.calibration.low <= facts.coverage <= r.calibration.high
        and abs(r.calibration.inside - facts.coverage) > 2 * TOLERANCE
    ]
    if wrong:
        worst = max(wrong, key=lambda r: abs(r.calibration.inside - facts.coverage))
        return f"In region {worst.region} ({worst.rule}) they hold {percent(worst.calibration.inside)}."
    return ""


def where_sentence(facts: Facts) -> str:
    """Where the model is unsure, in words."""
    if not facts.regions:
        return ""
    if len(facts.regions) == 1:
        return "The spread of the errors does not differ enough anywhere to draw a border: there is one region."
    worst, best = facts.regions[0], facts.regions[-1]
    return (
        f"It is least certain in region {worst.region}, where {worst.rule} (±\u00a0{number(worst.residual_std)}), "
        f"and most certain in region {best.region}, where {best.rule} (±\u00a0{number(best.residual_std)})."
    )


def support_sentence(facts: Facts) -> str:
    """How many rows resemble the training rows, in words."""
    if facts.supported is None:
        return ""
    lacking = int((~facts.supported).sum())
    if lacking == 0:
        return "All rows resemble the training rows."
    rows = "1 row does" if lacking == 1 else f"{lacking:,} rows do"
    return (
        f"{rows} not resemble the training rows ({percent(lacking / facts.n)} of all): a number is outside the range "
        "of its region, a category is new, a value is unexpectedly missing, or the combination is far from all "
        "training rows. Their stated spread is wider for that."
    )


def why_sentence(facts: Facts) -> str:
    """Which features the stated spread depends on, in words."""
    telling = [(name, factor) for name, factor in facts.drivers if factor >= 1.05][:3]
    if not telling:
        return "None in particular: the stated spread is nearly the same for all rows."
    names = [f"{name} (×\u00a0{number(factor)})" for name, factor in telling]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"Most of all {listed}."


def measure_rows(facts: Facts) -> list[dict[str, str]]:
    """The table of measures."""
    rows = []
    for name, (ours, theirs) in facts.measures.items():
        key = name.split("_")[0]
        if key not in MEANINGS:
            continue
        label, meaning, wanted = MEANINGS[key]
        kind = ""
        if wanted in ("low", "high") and ours != theirs:
            kind = "better" if (ours < theirs) == (wanted == "low") else "worse"
        show = percent if key in ("coverage", "ece") else number
        if key == "coverage" and facts.calibration.infinite:
            meaning = f"rows inside, but {share_text(facts.calibration.infinite)} have an infinite interval"
        if key == "r2":
            ours, theirs = round(ours, 3), round(theirs, 3)
        rows.append(
            {
                "name": label if key not in ("coverage", "width") else f"{label}, {percent(facts.coverage)}",
                "ours": show(ours),
                "theirs": show(theirs),
                "meaning": meaning.format(coverage=percent(facts.coverage)),
                "kind": kind,
            }
        )
    return rows
