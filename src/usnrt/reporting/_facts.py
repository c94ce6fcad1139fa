"""Everything that the report shows, computed from a model and a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.calibration.groups import GroupCalibration, calibration_rows, insufficient_calibration
from usnrt.distributions import Distribution, Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.predictions import EncodedPredictions
from usnrt.estimators.regions import region_rows, uncertainty_ratio
from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.explain.importance import importance_of_encoded
from usnrt.explain.rows import row_values, support_reasons
from usnrt.metrics.differences import Z
from usnrt.metrics.forecast import as_forecast
from usnrt.metrics.intervals import is_infinite
from usnrt.metrics.models import encoded_training_share
from usnrt.metrics.registry import EvaluatedRows, defined_values
from usnrt.reporting._numbers import digits_for, number, plus_minus, wilson
from usnrt.tables.groups import design_effect
from usnrt.tree.rules import MAX_LABELS
from usnrt.utils.types import Floats, Rows, TableLike

LEVELS = np.array([*np.arange(5, 100, 5), 99]) / 100
N_EXPLAINED = 200  # rows whose predictions are divided among the features
Cells = list[tuple[str, str]]  # header and text; a feature may have the name of one of our columns
N_EXAMPLES, N_UNCERTAIN, N_UNSUPPORTED, N_SHOWN_FEATURES = 4, 10, 10, 8


@dataclass
class CalibrationFacts:
    """Nominal against observed coverage of some rows."""

    n: int
    observed: NDArray[np.float64]  # share inside the central interval of each of LEVELS
    inside: float  # share inside the intervals of the requested coverage
    low: float  # 95 % confidence interval of that share
    high: float
    infinite: float = 0.0  # share of rows whose interval of the requested coverage is infinite
    finite_inside: float = float("nan")  # share inside among the rows with a finite interval
    infinite_at: NDArray[np.float64] = field(
        default_factory=lambda: np.zeros(len(LEVELS))
    )  # share of infinite intervals at each of LEVELS
    design_effect: float = 1.0  # how many rows count as one, since rows of a group are inside or outside together

    @property
    def evidence(self) -> int:
        """How many independent rows these rows count for."""
        return min(max(round(self.n / self.design_effect), 1), self.n)

    def confidence(self, share: float, z: float = Z) -> tuple[float, float]:
        """Wilson's confidence interval of an observed share."""
        return wilson(round(share * self.evidence), self.evidence, z)


@dataclass(frozen=True)
class RowLabels:
    """How rows are named: by an id, or by their number."""

    name: str  # of the id, or "row"
    texts: Sequence[str]
    first_row: int | None = None  # its number; None for ids

    @classmethod
    def numbers(cls, n: int, first_row: int = 0) -> "RowLabels":
        """Rows numbered from ``first_row`` on."""
        return cls("row", [str(i) for i in range(first_row, first_row + n)], first_row)


@dataclass(frozen=True)
class Driver:
    """Mean absolute contribution of a feature to standard deviation and mean, with standard errors."""

    name: str
    std: float
    std_error: float
    mean: float
    mean_error: float


@dataclass
class Region:
    """One region and the rows of the table that are in it."""

    region: int  # its id, as from apply
    rule: str
    train_rows: float
    train_share: float
    residual_std: float  # as in rules()
    calibration_rows: int | None  # None without calibration
    rows: int
    std: float
    error: float
    calibration: CalibrationFacts
    examples: list[Cells]
    experts: str | None = None  # their weights in words; None for models without experts


@dataclass
class Facts:
    """A model's predictions for a table, and their evaluation."""

    n: int
    coverage: float
    names: list[str]
    raw: Floats  # the encoded rows
    distribution: Distribution
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    y: NDArray[np.float64]
    pit: NDArray[np.float64]
    calibration: CalibrationFacts
    widths: NDArray[np.float64]  # mean width of the interval of each of LEVELS
    metrics: dict[str, tuple[float, float]]  # name -> (model, baseline)
    drivers: list[Driver]  # the most important one for the standard deviation first
    labels: RowLabels
    baseline_mean: float  # mean of the training target
    ratio: float  # of the residual std of the least certain region to that of the most certain one
    insufficient: str  # which regions have too few calibration rows for this coverage, and how many are needed
    training: float  # share of training rows, 0 unless it is more than half
    n_groups: int | None = None  # None if rows do not come in groups
    region: NDArray[np.int64] | None = None  # id of each row's region
    regions: list[Region] = field(default_factory=list)
    most_uncertain: list[Cells] = field(default_factory=list)
    supported: NDArray[np.bool_] | None = None  # whether rows resemble the training rows; None without support
    flags: dict[str, int] = field(default_factory=dict)  # number of rows by reason why they do not
    unsupported: list[Cells] = field(default_factory=list)  # some of these rows

    def texts(self, i: int) -> list[str]:
        """Mean, interval and target of a row, with enough digits to see its standard deviation."""
        values = [float(part[i]) for part in (self.mean, self.lower, self.upper, self.y)]
        return [number(value, digits_for(value, float(self.std[i]))) for value in values]


def gather(
    model: DistributionalRegressor,
    X: TableLike,
    y: Floats,
    coverage: float,
    labels: RowLabels | None = None,
    group: Rows | None = None,
) -> Facts:
    """Predict and evaluate everything that the report shows; the table is encoded once."""
    raw = model._encode(X)
    # infinite where nothing is guaranteed: the report judges the guarantee
    predicted = model._predict_encoded(raw, [*LEVELS.tolist(), coverage], guaranteed=True)
    dist, bounds = predicted.distribution, predicted.bounds
    inside = (bounds[:, 0] <= y[:, None]) & (y[:, None] <= bounds[:, 1])
    infinite = is_infinite(bounds)
    insufficient = None
    if infinite[:, -1].any():
        insufficient = insufficient_calibration(getattr(model, "calibration_", None), coverage)
    facts = Facts(
        n=len(y),
        raw=raw,
        distribution=dist,
        coverage=coverage,
        names=list(model.encoder_.source_names_),
        mean=dist.mean(),
        std=dist.std(),
        lower=bounds[:, 0, -1],
        upper=bounds[:, 1, -1],
        y=y,
        pit=np.clip(dist.cdf(y), 0.0, 1.0),
        calibration=calibration_facts(inside, infinite, group),
        widths=(bounds[:, 1] - bounds[:, 0]).mean(axis=0)[:-1],
        metrics=compare_with_baseline(model, predicted, y, coverage),
        drivers=uncertainty_drivers(model, raw),
        labels=labels or RowLabels.numbers(len(y)),
        baseline_mean=model.target_scale_.training_moments[0],
        ratio=uncertainty_ratio(model),
        insufficient="" if insufficient is None else f"{insufficient.where}; {insufficient.needed:,} are needed",
        training=encoded_training_share(model, raw, y),
        n_groups=None if group is None else len(np.unique(group)),
        region=predicted.region,
        supported=predicted.supported,
    )
    shown = [driver.name for driver in facts.drivers][:N_SHOWN_FEATURES]
    facts.regions = _regions(model, X, facts, inside, infinite, group, shown)
    facts.most_uncertain = _rows(X, np.argsort(-facts.std, kind="stable")[:N_UNCERTAIN], facts, shown)
    if isinstance(model, TreeRegressor):
        _add_support(model, X, facts, shown)
    return facts


def _add_support(model: TreeRegressor, X: TableLike, facts: Facts, shown: list[str]) -> None:
    """Why rows do not resemble the training rows: how many for each reason, and some of the rows."""
    found = model.model_.measured_support(facts.raw)
    flags = {
        "a number is outside the range of its region": found.outside,
        "a category is new": found.unseen,
        "a value is missing where training had none missing": found.missing,
        "the combination is far from all training rows": found.far,
    }
    if model.model_.support.subjects is not None:
        flags["the subject is unlike all training subjects"] = found.unlike
    facts.flags = {name: int(rows.sum()) for name, rows in flags.items()}
    # those with the widest predictions first
    lacking = np.flatnonzero(~found.supported)
    lacking = lacking[np.argsort(-facts.std[lacking], kind="stable")][:N_UNSUPPORTED]
    reasons = support_reasons(model, facts.raw[lacking])
    cells = _rows(X, lacking, facts, shown)
    facts.unsupported = [[*row[:1], ("why", "; ".join(own)), *row[1:]] for row, own in zip(cells, reasons)]


def calibration_facts(
    inside: NDArray[np.bool_], infinite: NDArray[np.bool_], group: Rows | None = None
) -> CalibrationFacts:
    """Compare nominal and observed coverage of intervals, shape (n, len(LEVELS) + 1), of the requested coverage last.

    Of rows in groups, confidence intervals count as many as are independent, at the level where rows of a group depend
    on each other most.
    """
    n = len(inside)
    if n == 0:
        return CalibrationFacts(0, np.full(len(LEVELS), np.nan), np.nan, 0.0, 1.0)
    shares, infinite_shares = inside.mean(axis=0), infinite.mean(axis=0)
    finite = inside[~infinite[:, -1], -1]
    facts = CalibrationFacts(
        n,
        shares[:-1],
        float(shares[-1]),
        low=0.0,
        high=1.0,
        infinite=float(infinite_shares[-1]),
        finite_inside=float(finite.mean()) if len(finite) else float("nan"),
        infinite_at=infinite_shares[:-1],
        design_effect=1.0 if group is None else max(design_effect(level.astype(float), group) for level in inside.T),
    )
    facts.low, facts.high = facts.confidence(facts.inside)
    return facts


def compare_with_baseline(
    model: DistributionalRegressor, predicted: EncodedPredictions, y: Floats, coverage: float
) -> dict[str, tuple[float, float]]:
    """Metrics of the model and of a constant normal distribution with the training target's mean and std."""
    mean, std = model.target_scale_.training_moments
    constant = Normal(np.full(len(y), mean), np.full(len(y), std))
    ours = EvaluatedRows(y, as_forecast(predicted.distribution), coverage, predicted.bounds[:, :, -1])
    baseline = defined_values(EvaluatedRows(y, as_forecast(constant), coverage))
    return {name: (value, baseline[name]) for name, value in defined_values(ours).items() if name in baseline}


def uncertainty_drivers(model: DistributionalRegressor, raw: Floats) -> list[Driver]:
    """`usnrt.uncertainty_importance` of each feature, the most important one for the standard deviation first."""
    table = importance_of_encoded(model, raw, None, N_EXPLAINED)
    names = ("std", "std_error", "mean", "mean_error")
    return [Driver(row["feature"], *(row[name] for name in names)) for row in table.rows()]


def _regions(
    model: DistributionalRegressor,
    X: TableLike,
    facts: Facts,
    inside: NDArray[np.bool_],
    infinite: NDArray[np.bool_],
    group: Rows | None,
    shown: list[str],
) -> list[Region]:
    """The regions in the order of ``region_rows``, the least certain first; empty for a model without regions."""
    if not hasattr(model, "tree_"):
        return []
    calibration = getattr(model, "calibration_", None)
    regions = []
    for row in region_rows(model, MAX_LABELS):
        members = np.flatnonzero(facts.region == row["region"])
        leaf = int(model.tree_.leaf_index[row["region"]])
        error = facts.y[members] - facts.mean[members]
        # examples over the range of the predicted std, its extremes included
        by_std = members[np.argsort(facts.std[members], kind="stable")]
        picks = by_std[np.unique(np.linspace(0, max(len(by_std) - 1, 0), N_EXAMPLES).astype(int))[: len(by_std)]]
        regions.append(
            Region(
                region=row["region"],
                rule=row["rule"],
                train_rows=row["rows"],
                train_share=row["share"],
                residual_std=row["residual_std"],
                calibration_rows=calibration_rows(calibration, leaf)
                if isinstance(calibration, GroupCalibration)
                else None,
                rows=len(members),
                std=float(facts.std[members].mean()) if len(members) else np.nan,
                error=float(np.sqrt(np.mean(error**2))) if len(members) else np.nan,
                calibration=calibration_facts(
                    inside[members], infinite[members], None if group is None else group[members]
                ),
                examples=_rows(X, picks, facts, shown),
                experts=row.get("experts"),
            )
        )
    return regions


def _rows(X: TableLike, numbers: NDArray[Any], facts: Facts, shown: list[str]) -> list[Cells]:
    """Rows of the table with their predictions, as text."""
    result = []
    for i, values in zip(map(int, numbers), row_values(X, facts.names, numbers)):
        outside = not facts.lower[i] <= facts.y[i] <= facts.upper[i]
        _, lower, upper, y = facts.texts(i)
        cells = [
            (facts.labels.name, facts.labels.texts[i]),
            ("predicted", plus_minus(facts.mean[i], facts.std[i], digits_for(facts.mean[i], facts.std[i]))),
            ("interval", f"{lower} to {upper}"),
            ("target", y + (" (outside)" if outside else "")),
        ]
        if facts.region is not None:
            cells.append(("region", str(facts.region[i])))
        if facts.supported is not None:
            cells.append(("supported", "yes" if facts.supported[i] else "no"))
        result.append(cells + [(name, cell_text(values[name])) for name in shown])
    return result


def cell_text(value: object) -> str:
    """A value as text; missing values are shown as "missing"."""
    if value is None or value != value:
        return "missing"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | float | np.number):
        return number(float(value), 4)
    text = str(value).removesuffix(" 00:00:00")
    return text if len(text) <= 40 else text[:39] + "…"
