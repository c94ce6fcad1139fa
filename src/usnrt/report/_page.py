"""Puts facts, charts and words together into the page."""

import os
import time
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from usnrt.metrics.judged import training_sentence
from usnrt.report._facts import LEVELS, Cells, Facts, Region, gather
from usnrt.report._numbers import number, percent
from usnrt.report._words import (
    asked,
    level_sentence,
    measure_rows,
    support_sentence,
    verdict,
    where_sentence,
    why_sentence,
)
from usnrt.utils.notices import TrainingRowsWarning

N_DRIVERS = 12


def write_report(
    model: Any,
    X: Any,
    y: ArrayLike,
    path: str | os.PathLike[str],
    *,
    coverage: float = 0.9,
    title: str | None = None,
    source: str | None = None,
    command: str | None = None,
) -> Path:
    """Write a page about a model: how good it is, whether to believe it, where it is unsure and why.

    Parameters
    ----------
    model : DistributionalRegressor
        Any fitted model of the library; the part about regions is there for models with a tree.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows to judge the model on, which it was not trained on: else the page says so, and a warning too.
    y : array-like of shape (n_rows,)
        The truth.
    path : path-like
        The page to write, whole or not at all. An existing file is replaced.
    coverage : float, default=0.9
        Of the intervals that the page talks about most.
    title, source, command : str, optional
        Heading; where the rows come from; how to make the page again.

    Returns
    -------
    Path
        The page.
    """
    from usnrt.estimators.base import read_target
    from usnrt.utils.whole_file import whole_file

    if np.ndim(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be in (0, 1), got {coverage!r}")
    truth = read_target(y)
    if len(truth) != np.shape(X)[0]:
        raise ValueError(f"y must have a value for each row of X, got {len(truth)} for {np.shape(X)[0]} rows")
    facts = gather(model, X, truth, coverage)
    if facts.training:
        warnings.warn(training_sentence(facts.training), TrainingRowsWarning, stacklevel=2)
    page = render(model, facts, title, source, command)
    with whole_file(path) as file:
        file.write(page.encode())
    return Path(path)


def render(model: Any, facts: Facts, title: str | None, source: str | None, command: str | None) -> str:
    """The page as text."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError("the report needs jinja2: pip install 'usnrt[report]'") from error

    from usnrt._version import __version__
    from usnrt.report import _charts as charts
    from usnrt.report._tree import draw_tree

    folder = files("usnrt.report")
    template = Environment(autoescape=True).from_string((folder / "page.html").read_text("utf-8"))
    target = getattr(model, "target_name_", None) or "the target"
    by_region = {region.region: region.residual_std for region in facts.regions}
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return template.render(
        title=title or f"How sure is the model about {target}?",
        version=__version__,
        css=Markup((folder / "page.css").read_text("utf-8")),
        js=Markup((folder / "page.js").read_text("utf-8")),
        asked=asked(model, facts, source),
        verdict=verdict(facts),
        n=f"{facts.n:,}",
        coverage=percent(facts.coverage),
        measures=measure_rows(facts),
        reliability=Markup(charts.reliability(facts.calibration, facts.coverage)),
        pit=Markup(charts.pit_histogram(facts.pit)),
        intervals=Markup(charts.intervals(facts)),
        levels=_levels(facts),
        tree=Markup(draw_tree(model, by_region)) if facts.regions else None,
        where=where_sentence(facts),
        support=support_sentence(facts),
        regions=[_region(region, facts) for region in facts.regions],
        rows_table=lambda rows: Markup(_rows_table(rows)),
        why=why_sentence(facts),
        drivers=_drivers(facts),
        drivers_left=_left(facts),
        least_sure=facts.least_sure,
        shown_note=_shown_note(facts),
        made=_made(model, facts, source),
        again=command or _python(model, facts),
        written=time.strftime(" on %Y-%m-%d at %H:%M UTC", time.gmtime(epoch)),
    )


def _levels(facts: Facts) -> dict[str, Any]:
    """What the slider answers."""
    answers = [level_sentence(facts, place) for place in range(len(LEVELS))]
    start = int(np.argmin(np.abs(LEVELS - facts.coverage)))
    return {"count": len(LEVELS), "start": start, "text": answers[start], "answers": "|".join(answers)}


def _region(region: Region, facts: Facts) -> dict[str, Any]:
    from markupsafe import Markup

    from usnrt.calibration.conformal import rows_needed
    from usnrt.report._charts import reliability
    from usnrt.tree.rules import count_text

    calibration = region.calibration
    inside = "no rows here to tell"
    if calibration.infinite:
        count = "too few" if region.calibration_rows is None else f"{region.calibration_rows:,}"
        inside = f"infinite: there are {count} calibration rows here, and {rows_needed(facts.coverage):,} are needed"
    elif calibration.n:
        inside = (
            f"held the truth in {percent(calibration.inside)} of {calibration.n:,} rows "
            f"(the true share is likely {percent(calibration.low)} to {percent(calibration.high)})"
        )
    return {
        "region": region.region,
        "rule": region.rule,
        "share": percent(region.train_share),
        "train_rows": count_text(region.train_rows),
        "rows": f"{region.rows:,}",
        "residual_std": number(region.residual_std),
        "std": number(region.std),
        "error": number(region.error),
        "inside": inside,
        "chart": Markup(reliability(calibration, facts.coverage, small=True)) if calibration.n >= 20 else None,
        "examples": region.examples,
    }


def _rows_table(rows: list[Cells]) -> str:
    from markupsafe import escape

    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name, _ in rows[0])
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=outside' if name == 'truth' and value.endswith('(outside)') else ''}>{escape(value)}</td>"
            for name, value in row
        )
        + "</tr>"
        for row in rows
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Rows, scrollable"><table class="rows">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _drivers(facts: Facts) -> list[dict[str, Any]]:
    shown = facts.drivers[:N_DRIVERS]
    largest = max(np.log(max(factor, 1.0)) for _, factor in shown) or 1.0
    return [
        {"name": name, "factor": number(factor), "width": f"{100 * np.log(max(factor, 1.0)) / largest:.1f}"}
        for name, factor in shown
    ]


def _left(facts: Facts) -> str:
    rest = facts.drivers[N_DRIVERS:]
    return f"{len(rest)} further features change it by × {number(rest[0][1])} or less." if rest else ""


def _shown_note(facts: Facts) -> str:
    from usnrt.report._facts import N_SHOWN_FEATURES

    if len(facts.names) <= N_SHOWN_FEATURES:
        return ""
    return f"Of {len(facts.names)} features the {N_SHOWN_FEATURES} that drive the uncertainty most are shown."


def _made(model: Any, facts: Facts, source: str | None) -> list[tuple[str, str]]:
    parameters = model.get_params(deep=False)
    encoder = model.encoder_
    made = [
        ("Model", type(model).__name__),
        ("Target", str(getattr(model, "target_name_", "not named"))),
        ("Features", ", ".join(f"{n} ({t})" for n, t in zip(encoder.source_names_, encoder.source_types_))),
        ("Judged on", f"{facts.n:,} rows" + (f" of {source}" if source else "")),
    ]
    if hasattr(model, "tree_"):
        made.append(("Trained on", f"{float(model.tree_.n_rows[0]):,.0f} rows, {model.tree_.n_leaves} regions"))
    shown = {name: value for name, value in parameters.items() if name not in ("verbose", "callbacks", "n_jobs")}
    return [*made, ("Parameters", ", ".join(f"{name}={value!r}" for name, value in shown.items()))]


def _python(model: Any, facts: Facts) -> str:
    return (
        "import usnrt\n\n"
        'model = usnrt.load("model.usnrt")\n'
        f'usnrt.report(model, X, y, "report.html", coverage={facts.coverage:g})'
    )
