"""The report page: facts, charts and sentences in one HTML file."""

import base64
import csv
import io
import os
import warnings
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.regions import has_examples, memory_sentence, rows_in_memory
from usnrt.estimators.targets import read_target
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.metrics.models import training_sentence
from usnrt.reporting import _charts as charts
from usnrt.reporting import _words as words
from usnrt.reporting._booster import BoosterFacts, booster_sentence, compare_with_booster
from usnrt.reporting._drift import MIN_WINDOW, Drift, time_windows
from usnrt.reporting._facts import LEVELS, N_SHOWN_FEATURES, Facts, RowLabels, gather
from usnrt.reporting._html import render_page
from usnrt.reporting._numbers import percent
from usnrt.tables.groups import groups_and_table, read_groups
from usnrt.tree.rules import count_text
from usnrt.utils.atomic_write import atomic_write
from usnrt.utils.constraints import check_whole
from usnrt.utils.notices import TrainingRowsWarning
from usnrt.utils.types import TableLike

MAX_BYTES, MIN_LINE = 1_500_000, 14  # of the CSV file in the page, and of its lines


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
    group = None if groups is None else read_groups(groups, len(target))
    facts = gather(model, X, target, coverage, labels, group)
    if facts.training:
        warnings.warn(training_sentence(facts.training), TrainingRowsWarning, stacklevel=2)
    known = None if train is None else (train[0], read_target(train[1]))
    compared = compare_with_booster(model, facts, known, group) if booster else None
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
    drift: Drift | None = None,
    compared: BoosterFacts | None = None,
) -> str:
    """The page as HTML."""
    target = model.target_name_ or "the target"
    fitted_to = float(model.tree_.n_rows[0]) if isinstance(model, TreeRegressor) else None
    return render_page(
        "reporting",
        facts=facts,
        words=words,
        charts=charts,
        title=title or f"Uncertainty of predicting {target}",
        subject=words.subject(target, facts, source),
        verdict=words.verdict(facts),
        target=target,
        coverage=percent(facts.coverage),
        booster="" if compared is None else booster_sentence(compared, fitted_to),
        drift=drift,
        min_window=MIN_WINDOW,
        download=csv_link(facts, model.target_name_ or "target"),
        levels=[words.level_sentence(facts, index) for index in range(len(LEVELS))],
        level=int(np.argmin(np.abs(LEVELS - facts.coverage))),
        tree=charts.draw_tree(model) if hasattr(model, "tree_") else None,
        memory=memory_sentence(rows_in_memory(model), has_examples(model)),
        n_shown=N_SHOWN_FEATURES,
        count_text=count_text,
        provenance=_provenance(model, facts, source),
        command=command or _python(facts),
    )


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


def csv_link(facts: Facts, target: str) -> str:
    """A data: address of a CSV file of all rows, or "" if it were too long for a page."""
    # Before the text of a million rows is made, which takes seconds; a row has at least this many characters.
    if MIN_LINE * facts.n > MAX_BYTES:
        return ""
    # Pairs, since the target may have the name of a prediction.
    columns = [
        (facts.labels.name, facts.labels.texts),
        (target, _texts(facts.y)),
        *((name, _texts(getattr(facts, name))) for name in ("mean", "std", "lower", "upper")),
    ]
    further = {"region": facts.region, "supported": facts.supported}
    columns += [(name, values.tolist()) for name, values in further.items() if values is not None]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    writer.writerows(zip(*(values for _, values in columns)))
    text = file.getvalue().encode()
    return "" if len(text) > MAX_BYTES else f"data:text/csv;base64,{base64.b64encode(text).decode()}"


def _texts(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> list[str]:
    return [f"{value:.9g}" for value in values.tolist()]
