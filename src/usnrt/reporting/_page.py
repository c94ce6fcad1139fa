"""The report page: facts, charts and sentences in one HTML file."""

import os
import time
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from usnrt.calibration.conformal import rows_needed
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.regions import has_examples, memory_sentence, rows_in_memory
from usnrt.estimators.targets import read_target
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.metrics.models import training_sentence
from usnrt.reporting import _charts as charts
from usnrt.reporting._booster import BoosterFacts, booster_sentence, compare_with_booster
from usnrt.reporting._charts import draw_tree
from usnrt.reporting._download import csv_link
from usnrt.reporting._drift import MIN_WINDOW, Drift, drift_sentence, time_windows
from usnrt.reporting._facts import LEVELS, N_SHOWN_FEATURES, Cells, Facts, Region, RowLabels, facts_of_encoded
from usnrt.reporting._numbers import number, percent, plus_minus
from usnrt.reporting._svg import escape, isolated, shortened
from usnrt.reporting._words import (
    bound_sentence,
    level_sentence,
    metric_rows,
    rows_note,
    subject,
    support_sentence,
    typical_sentence,
    verdict,
    where_sentence,
    why_sentence,
)
from usnrt.tables.groups import groups_and_table, read_groups
from usnrt.tree.rules import count_text
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.constraints import check_whole
from usnrt.utils.notices import TrainingRowsWarning
from usnrt.utils.types import TableLike

N_DRIVERS = 12
MAX_NAME = 40  # characters of a column's name in the head of a table


def write_report(
    model: DistributionalRegressor,
    X: TableLike,
    y: ArrayLike,
    path: str | os.PathLike[str],
    *,
    coverage: float = 0.9,
    title: str | None = None,
    source: str | None = None,
    command: str | None = None,
    ids: ArrayLike | None = None,
    id_name: str = "id",
    first_row: int = 0,
    time: Any = None,
    train: tuple[Any, ArrayLike] | None = None,
    booster: bool = True,
    groups: ArrayLike | str | None = None,
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
    ids : array-like of shape (n_rows,), default=None
        Names of the rows in the tables of the page; by default their numbers.
    id_name : str, default="id"
        What the ids are.
    first_row : int, default=0
        The number of the first row, if there are no ids; the page states it.
    time : array-like of shape (n_rows,), or name of a column of X, default=None
        Dates or numbers: adds coverage and errors over time. By default ``model.time_column``, if the model has one.
    train : tuple of X and y, default=None
        Training rows, for a fair comparison with a quick booster.
    booster : bool, default=True
        Whether to compare with a booster at all; it takes a few seconds. Without ``train`` it is trained on one half of
        the rows to predict the other one.
    groups : array-like of shape (n_rows,), or name of a column of X, default=None
        Rows that belong together (of a patient, shop, machine): what is said of the coverage then counts groups.

    Returns
    -------
    Path
        The file.
    """
    if np.ndim(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be in (0, 1), got {coverage!r}")
    X, groups = groups_and_table(X, groups)
    target = read_target(y)
    if len(target) != np.shape(X)[0]:
        raise ValueError(f"y must have one value per row of X ({np.shape(X)[0]}), got {len(target)}")
    labels = _labels(ids, id_name, first_row, len(target))
    raw = model._encode(X)
    group = None if groups is None else read_groups(groups, len(target))
    facts, dist = facts_of_encoded(model, X, raw, target, coverage, 0, labels, group)
    if facts.training:
        warnings.warn(training_sentence(facts.training), TrainingRowsWarning, stacklevel=2)
    known = None if train is None else (train[0], read_target(train[1]))
    compared = compare_with_booster(model, raw, target, dist, known, group) if booster else None
    page = render(model, facts, title, source, command, _windows(model, X, facts, time), compared)
    with atomic_write(path) as file:
        file.write(page.encode())
    return Path(path)


def _labels(ids: ArrayLike | None, id_name: str, first_row: int, n: int) -> RowLabels:
    if ids is None:
        check_whole("first_row", first_row, 0)
        return RowLabels.numbers(n, first_row)
    texts = [str(value) for value in np.asarray(ids, dtype=object).ravel()]
    if len(texts) != n:
        raise ValueError(f"ids must have one value per row of X ({n}), got {len(texts)}")
    return RowLabels(id_name, texts)


def _windows(model: DistributionalRegressor, X: TableLike, facts: Facts, time: Any) -> Drift | None:
    """Windows of time; None if the time is not known."""
    given = time is not None
    if not given:
        time = model._parameter("time_column")
    if isinstance(time, str | int):
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        names = list(frame.columns) if isinstance(frame, nw.DataFrame) else []
        if isinstance(time, int) and -len(facts.names) <= time < len(facts.names):
            time = frame[names[time]].to_numpy() if names else np.asarray(X)[:, time]
        elif time in names:
            time = frame[time].to_numpy()
        elif given:
            raise ValueError(f"time must be a column of X or an array, got {time!r}")
        else:
            return None
    if time is None:
        return None
    if np.shape(time) != (facts.n,):
        raise ValueError(f"time must have one value per row of X ({facts.n}), got shape {np.shape(time)}")
    return time_windows(time, facts.y, facts.mean, (facts.lower <= facts.y) & (facts.y <= facts.upper))


def render(
    model: DistributionalRegressor,
    facts: Facts,
    title: str | None,
    source: str | None,
    command: str | None,
    windows: Drift | None = None,
    compared: BoosterFacts | None = None,
) -> str:
    """The page as HTML."""
    try:
        from jinja2 import Environment
        from markupsafe import Markup
        from markupsafe import escape as plain
    except ImportError as error:
        raise ImportError("the report needs jinja2: pip install 'usnrt[report]'") from error

    from usnrt._version import __version__

    folder = files("usnrt.reporting")
    environment = Environment(autoescape=True, finalize=lambda value: isolated(value) if type(value) is str else value)
    template = environment.from_string((folder / "page.html").read_text("utf-8"))
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
        pit=Markup(charts.pit_histogram(facts.pit, facts.calibration.evidence)),
        intervals=[Markup(svg) for svg in charts.intervals(facts, target)],
        typical=typical_sentence(facts),
        tip=bound_sentence(facts),
        booster="" if compared is None else booster_sentence(compared, _fitted_to(model)),
        drift=None if windows is None else _drift(windows, facts),
        download=csv_link(facts, model.target_name_ or "target"),
        rows_note=rows_note(facts),
        unsupported=facts.unsupported,
        levels=_levels(facts),
        tree=Markup(draw_tree(model)) if hasattr(model, "tree_") else None,
        where=where_sentence(facts),
        support=support_sentence(facts),
        memory=memory_sentence(rows_in_memory(model), has_examples(model)),
        regions=[_region(region, facts) for region in facts.regions],
        rows_table=lambda rows: Markup(_rows_table(rows)),
        why=why_sentence(facts),
        drivers=_drivers(facts),
        other_drivers=_other_drivers(facts),
        most_uncertain=facts.most_uncertain,
        shown_note=_shown_note(facts),
        provenance=_provenance(model, facts, source),
        command=Markup(plain(command or _python(facts))),  # to be copied: without isolating characters
        mean_std=number(float(np.mean(facts.std))),
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
    if not rows:
        return ""
    head = "".join(
        f'<th scope="col"{f" title={chr(34)}{escape(name)}{chr(34)}" if len(name) > MAX_NAME else ""}>'
        f"{escape(shortened(name, MAX_NAME, 1.0))}</th>"
        for name, _ in rows[0]
    )
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
    largest = max((driver.std for driver in shown), default=0.0) or 1.0
    return [
        {
            "name": driver.name,
            "std": plus_minus(driver.std, driver.std_error),
            "mean": plus_minus(driver.mean, driver.mean_error),
            "width": f"{100 * driver.std / largest:.1f}",
        }
        for driver in shown
    ]


def _other_drivers(facts: Facts) -> str:
    rest = facts.drivers[N_DRIVERS:]
    return f"{len(rest)} further features change it by {number(rest[0].std)} or less." if rest else ""


def _drift(drift: Drift, facts: Facts) -> dict[str, Any]:
    """The section on time."""
    from markupsafe import Markup

    windows = drift.windows
    if not windows:
        few = f"{facts.n:,} rows are too few to compare windows of time, which need {MIN_WINDOW} rows each."
        return {"text": few, "rows": [], "charts": []}
    rows = [
        {
            "number": place,
            "label": window.label,
            "n": f"{window.n:,}",
            "coverage": f"{percent(window.coverage)} ({percent(window.low)} to {percent(window.high)})",
            "rmse": plus_minus(window.rmse, window.rmse_error),
            "bias": plus_minus(window.bias, window.bias_error),
        }
        for place, window in enumerate(windows, 1)
    ]
    pictures = [Markup(svg) for svg in charts.over_time(windows, facts.coverage)]
    return {"text": drift_sentence(drift, facts.coverage), "rows": rows, "charts": pictures}


def _fitted_to(model: DistributionalRegressor) -> float | None:
    return float(model.tree_.n_rows[0]) if isinstance(model, TreeRegressor) else None


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
