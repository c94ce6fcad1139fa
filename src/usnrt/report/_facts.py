"""Everything that the report shows, computed from a model and a table."""

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from usnrt.distributions import Distribution, Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.prediction_table import EncodedPredictions
from usnrt.estimators.regions import calibration_rows, region_rows, shortage, uncertainty_ratio
from usnrt.estimators.supported import SupportedRegressor
from usnrt.metrics.evaluate import evaluate
from usnrt.metrics.models import encoded_training_share, is_infinite
from usnrt.report._numbers import number, wilson
from usnrt.utils.types import Floats

LEVELS = np.array([*np.arange(5, 100, 5), 99]) / 100
MAX_SAMPLE = 2000  # rows for the slower computations
Cells = list[tuple[str, str]]  # header and text; a feature may have the name of one of our columns
N_EXAMPLES, N_UNCERTAIN, N_SHOWN_FEATURES = 4, 10, 8


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
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    y: NDArray[np.float64]
    pit: NDArray[np.float64]
    calibration: CalibrationFacts
    widths: NDArray[np.float64]  # mean width of the interval of each of LEVELS
    metrics: dict[str, tuple[float, float]]  # name -> (model, baseline)
    drivers: list[tuple[str, float]]  # feature -> factor by which shuffling it changes the std
    ratio: float  # of the residual std of the least certain region to that of the most certain one
    lack: str  # which regions have too few calibration rows for this coverage, and how many are needed
    training: float  # share of training rows, 0 unless it is more than half
    region: NDArray[np.int64] | None = None  # id of each row's region
    regions: list[Region] = field(default_factory=list)
    most_uncertain: list[Cells] = field(default_factory=list)
    supported: NDArray[np.bool_] | None = None  # whether rows resemble the training rows; None without support


def gather(model: DistributionalRegressor, X: Any, y: Floats, coverage: float, seed: int = 0) -> Facts:
    """Predict and evaluate everything that the report shows; the table is encoded once."""
    raw = model._encode(X)
    predicted = model._predict_encoded(raw, [*LEVELS.tolist(), coverage])
    dist, bounds = predicted.distribution, predicted.bounds
    inside = (bounds[:, 0] <= y[:, None]) & (y[:, None] <= bounds[:, 1])
    infinite = is_infinite(bounds)
    lack = shortage(getattr(model, "calibration_", None), coverage) if infinite[:, -1].any() else None
    rng = np.random.default_rng(seed)
    sample = np.sort(rng.permutation(len(y))[:MAX_SAMPLE])
    drivers = uncertainty_drivers(model, raw[sample], rng)
    facts = Facts(
        n=len(y),
        coverage=coverage,
        names=list(model.encoder_.source_names_),
        mean=dist.mean(),
        std=dist.std(),
        lower=bounds[:, 0, -1],
        upper=bounds[:, 1, -1],
        y=y,
        pit=np.clip(dist.cdf(y), 0.0, 1.0),
        calibration=calibration_facts(inside, infinite),
        widths=(bounds[:, 1] - bounds[:, 0]).mean(axis=0)[:-1],
        metrics=compare_with_baseline(model, predicted, y, coverage),
        drivers=drivers,
        ratio=uncertainty_ratio(model),
        lack="" if lack is None else f"{lack.where}; {lack.needed:,} are needed",
        training=encoded_training_share(model, raw, y),
        region=predicted.region,
        supported=predicted.supported,
    )
    shown = [name for name, _ in drivers][:N_SHOWN_FEATURES]
    facts.regions = _regions(model, X, facts, inside, infinite, shown)
    facts.most_uncertain = _rows(X, np.argsort(-facts.std, kind="stable")[:N_UNCERTAIN], facts, shown)
    return facts


def predict(model: DistributionalRegressor, raw: Floats) -> Distribution:
    """Distributions of encoded rows, in units of the target."""
    return model._in_units(model._distribution(raw))


def calibration_facts(inside: NDArray[np.bool_], infinite: NDArray[np.bool_]) -> CalibrationFacts:
    """Compare nominal and observed coverage; the last column is the requested coverage.

    Parameters
    ----------
    inside, infinite : ndarray of bool of shape (n, len(LEVELS) + 1)
        Whether each interval contains the target, and whether it is infinite.
    """
    n = len(inside)
    if n == 0:
        return CalibrationFacts(0, np.full(len(LEVELS), np.nan), np.nan, 0.0, 1.0)
    shares, infinite_shares = inside.mean(axis=0), infinite.mean(axis=0)
    finite = inside[~infinite[:, -1], -1]
    return CalibrationFacts(
        n,
        shares[:-1],
        float(shares[-1]),
        *wilson(int(inside[:, -1].sum()), n),
        infinite=float(infinite_shares[-1]),
        finite_inside=float(finite.mean()) if len(finite) else float("nan"),
        infinite_at=infinite_shares[:-1],
    )


def compare_with_baseline(
    model: DistributionalRegressor, predicted: EncodedPredictions, y: Floats, coverage: float
) -> dict[str, tuple[float, float]]:
    """Metrics of the model and of a constant normal distribution with the training target's mean and std."""
    mean, std = model.target_moments_ or (model.target_mean_, model.target_std_)
    constant = Normal(np.full(len(y), mean), np.full(len(y), std))
    ours = evaluate(predicted.distribution, y=y, coverage=coverage, interval=predicted.bounds[:, :, -1])
    baseline_table = evaluate(constant, y=y, coverage=coverage)
    baseline = dict(zip(baseline_table["metric"].tolist(), baseline_table["value"].tolist()))
    return {n: (v, baseline[n]) for n, v in zip(ours["metric"].tolist(), ours["value"].tolist()) if n in baseline}


def uncertainty_drivers(
    model: DistributionalRegressor, raw: Floats, rng: np.random.Generator, repeats: int = 3
) -> list[tuple[str, float]]:
    """Permutation importance of each feature for the predicted standard deviation.

    Returns
    -------
    list of (name, factor)
        The largest first; 1.5 means that permuting the feature makes the standard deviation 1.5 times larger or
        smaller, in the geometric mean over the rows; 1 that it does not depend on the feature.
    """
    if isinstance(model, SupportedRegressor) and model.support_ is not None:
        model = copy(model)  # permuted rows lack support, which is not to be measured here
        model.support_ = None
    before = np.log(np.maximum(predict(model, raw).std(), np.finfo(float).tiny))
    result = []
    for name in model.encoder_.source_names_:
        columns = model.encoder_.source_of(name)
        changes = []
        for _ in range(repeats):
            shuffled = raw.copy()
            shuffled[:, columns] = raw[rng.permutation(len(raw))][:, columns]
            after = np.log(np.maximum(predict(model, shuffled).std(), np.finfo(float).tiny))
            changes.append(np.abs(after - before).mean())
        result.append((name, float(np.exp(np.mean(changes)))))
    return sorted(result, key=lambda item: -item[1])


def _regions(
    model: DistributionalRegressor,
    X: Any,
    facts: Facts,
    inside: NDArray[np.bool_],
    infinite: NDArray[np.bool_],
    shown: list[str],
) -> list[Region]:
    """The regions in the order of ``region_rows``, the least certain first; empty for a model without regions."""
    if not hasattr(model, "tree_"):
        return []
    calibration = getattr(model, "calibration_", None)
    regions = []
    for row in region_rows(model):
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
                calibration_rows=None if calibration is None else calibration_rows(calibration, leaf),
                rows=len(members),
                std=float(facts.std[members].mean()) if len(members) else np.nan,
                error=float(np.sqrt(np.mean(error**2))) if len(members) else np.nan,
                calibration=calibration_facts(inside[members], infinite[members]),
                examples=_rows(X, picks, facts, shown),
                experts=row.get("experts"),
            )
        )
    return regions


def _rows(X: Any, numbers: NDArray[Any], facts: Facts, shown: list[str]) -> list[Cells]:
    """Rows of the table with their predictions, as text."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    result = []
    for i in (int(n) for n in numbers):
        if isinstance(frame, nw.DataFrame):
            values = {str(k): v for k, v in frame[[i]].rows(named=True)[0].items()}
        else:
            values = dict(zip(facts.names, np.asarray(X)[i].tolist()))
        outside = not facts.lower[i] <= facts.y[i] <= facts.upper[i]
        cells = {
            "row": str(i + 1),
            "predicted": f"{number(facts.mean[i], 4)} ± {number(facts.std[i], 2)}",
            "interval": f"{number(facts.lower[i], 4)} to {number(facts.upper[i], 4)}",
            "target": number(facts.y[i], 4) + (" (outside)" if outside else ""),
        }
        if facts.region is not None:
            cells["region"] = str(facts.region[i])
        result.append(list(cells.items()) + [(name, cell_text(values[name])) for name in shown])
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
