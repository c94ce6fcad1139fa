"""The report page: facts, charts and sentences in one HTML file."""

import os
import time
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from usnrt.calibration.conformal import rows_needed
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.neighbors import memory_sentence, rows_in_memory
from usnrt.estimators.targets import read_target
from usnrt.metrics.models import training_sentence
from usnrt.report import _charts as charts
from usnrt.report._facts import LEVELS, N_SHOWN_FEATURES, Cells, Facts, Region, gather
from usnrt.report._numbers import number, percent
from usnrt.report._tree import draw_tree
from usnrt.report._words import (
    level_sentence,
    metric_rows,
    subject,
    support_sentence,
    verdict,
    where_sentence,
    why_sentence,
)
from usnrt.tree.rules import count_text
from usnrt.utils.notices import TrainingRowsWarning
from usnrt.utils.whole_file import whole_file

N_DRIVERS = 12


def write_report(
    model: DistributionalRegressor,
    X: Any,
    y: ArrayLike,
    path: str | os.PathLike[str],
    *,
    coverage: float = 0.9,
    title: str | None = None,
    source: str | None = None,
    command: str | None = None,
) -> Path:
    """Write an HTML report on a model: accuracy, calibration, and where it is uncertain and why.

    Parameters
    ----------
    model : DistributionalRegressor
        Any fitted model of the library; the section on regions is for models with a tree.
    X : array-like or data frame of shape (n_rows, n_features)
        Rows to evaluate the model on. A warning is issued, also in the report, if most of them are training rows.
    y : array-like of shape (n_rows,)
        The targets.
    path : path-like
        The file to write, atomically. An existing file is replaced.
    coverage : float, default=0.9
        Nominal coverage of the intervals that are shown.
    title, source, command : str, optional
        Title; where the rows come from; how to repeat the report.

    Returns
    -------
    Path
        The file.
    """
    if np.ndim(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be in (0, 1), got {coverage!r}")
    target = read_target(y)
    if len(target) != np.shape(X)[0]:
        raise ValueError(f"y must have one value per row of X ({np.shape(X)[0]}), got {len(target)}")
    facts = gather(model, X, target, coverage)
    if facts.training:
        warnings.warn(training_sentence(facts.training), TrainingRowsWarning, stacklevel=2)
    page = render(model, facts, title, source, command)
    with whole_file(path) as file:
        file.write(page.encode())
    return Path(path)


def render(
    model: DistributionalRegressor, facts: Facts, title: str | None, source: str | None, command: str | None
) -> str:
    """The page as HTML."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError("the report needs jinja2: pip install 'usnrt[report]'") from error

    from usnrt._version import __version__

    folder = files("usnrt.report")
    template = Environment(autoescape=True).from_string((folder / "page.html").read_text("utf-8"))
    target = model.target_name_ or "the target"
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return template.render(
        title=title or f"Uncertainty of predicting {target}",
        version=__version__,
        css=Markup((folder / "page.css").read_text("utf-8")),
        js=Markup((folder / "page.js").read_text("utf-8")),
        subject=subject(target, facts, source),
        verdict=verdict(facts),
        n=f"{facts.n:,}",
        coverage=percent(facts.coverage),
        metrics=metric_rows(facts),
        reliability=Markup(charts.reliability(facts.calibration, facts.coverage)),
        pit=Markup(charts.pit_histogram(facts.pit)),
        intervals=Markup(charts.intervals(facts)),
        levels=_levels(facts),
        tree=Markup(draw_tree(model)) if hasattr(model, "tree_") else None,
        where=where_sentence(facts),
        support=support_sentence(facts),
        memory=memory_sentence(rows_in_memory(model)),
        regions=[_region(region, facts) for region in facts.regions],
        rows_table=lambda rows: Markup(_rows_table(rows)),
        why=why_sentence(facts),
        drivers=_drivers(facts),
        other_drivers=_other_drivers(facts),
        most_uncertain=facts.most_uncertain,
        shown_note=_shown_note(facts),
        provenance=_provenance(model, facts, source),
        command=command or _python(facts),
        written=time.strftime(" on %Y-%m-%d at %H:%M UTC", time.gmtime(epoch)),
    )


def _levels(facts: Facts) -> dict[str, Any]:
    """The sentences of the slider."""
    sentences = [level_sentence(facts, index) for index in range(len(LEVELS))]
    start = int(np.argmin(np.abs(LEVELS - facts.coverage)))
    return {"count": len(LEVELS), "start": start, "text": sentences[start], "sentences": "|".join(sentences)}


def _region(region: Region, facts: Facts) -> dict[str, Any]:
    from markupsafe import Markup

    calibration = region.calibration
    inside = "no rows in this region"
    if calibration.infinite:
        count = "too few" if region.calibration_rows is None else f"{region.calibration_rows:,}"
        inside = f"infinite: {count} calibration rows in this region, {rows_needed(facts.coverage):,} are needed"
    elif calibration.n:
        inside = (
            f"contain the target in {percent(calibration.inside)} of {calibration.n:,} rows "
            f"(95 % confidence interval {percent(calibration.low)} to {percent(calibration.high)})"
        )
    return {
        "region": region.region,
        "rule": region.rule,
        "experts": region.experts,
        "share": percent(region.train_share),
        "train_rows": count_text(region.train_rows),
        "rows": f"{region.rows:,}",
        "residual_std": number(region.residual_std),
        "std": number(region.std),
        "error": number(region.error),
        "inside": inside,
        "chart": Markup(charts.reliability(calibration, facts.coverage, small=True)) if calibration.n >= 20 else None,
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
            f"<td{' class=outside' if name == 'target' and value.endswith('(outside)') else ''}>{escape(value)}</td>"
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


def _other_drivers(facts: Facts) -> str:
    rest = facts.drivers[N_DRIVERS:]
    return f"{len(rest)} further features change it by × {number(rest[0][1])} or less." if rest else ""


def _shown_note(facts: Facts) -> str:
    if len(facts.names) <= N_SHOWN_FEATURES:
        return ""
    return f"Of {len(facts.names)} features the {N_SHOWN_FEATURES} that the uncertainty depends on most are shown."


def _provenance(model: DistributionalRegressor, facts: Facts, source: str | None) -> list[tuple[str, str]]:
    parameters = model.get_params(deep=False)
    encoder = model.encoder_
    lines = [
        ("Model", type(model).__name__),
        ("Target", model.target_name_ or "not named"),
        ("Features", ", ".join(f"{n} ({t})" for n, t in zip(encoder.source_names_, encoder.source_types_))),
        ("Evaluated on", f"{facts.n:,} rows" + (f" of {source}" if source else "")),
    ]
    if hasattr(model, "tree_"):
        lines.append(("Fitted to", f"{float(model.tree_.n_rows[0]):,.0f} rows, {model.tree_.n_leaves} regions"))
    if rows_in_memory(model):
        lines.append(("In memory", f"{rows_in_memory(model):,} training rows"))
    shown = {name: value for name, value in parameters.items() if name not in ("verbose", "callbacks", "n_jobs")}
    return [*lines, ("Parameters", ", ".join(f"{name}={value!r}" for name, value in shown.items()))]


def _python(facts: Facts) -> str:
    return (
        "import usnrt\n\n"
        'model = usnrt.load("model.usnrt")\n'
        f'usnrt.report(model, X, y, "report.html", coverage={facts.coverage:g})'
    )
