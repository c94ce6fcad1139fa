"""Everything that the page says, computed before a word of it is written."""

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from usnrt.estimators.regions import calibration_rows, region_rows, shortage, uncertainty_ratio
from usnrt.metrics.judged import interval_of, is_infinite, training_share
from usnrt.report._numbers import wilson

LEVELS = np.array([*np.arange(5, 100, 5), 99]) / 100
MAX_SAMPLE = 2000  # rows that the slower questions are asked on
Cells = list[tuple[str, str]]  # heading and text; a feature may be called like one of our columns
N_EXAMPLES, N_LEAST_SURE, N_SHOWN_FEATURES = 4, 10, 8


@dataclass
class CalibrationFacts:
    """Stated against observed probabilities of some rows."""

    n: int
    observed: NDArray[np.float64]  # share inside the central interval of each of LEVELS
    inside: float  # share inside the intervals that were asked for
    low: float  # 95 % interval of that share
    high: float
    infinite: float = 0.0  # share of rows whose interval, as asked for, is infinite
    finite_inside: float = float("nan")  # share inside among the rows whose interval is finite
    infinite_at: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(LEVELS)))  # the share at LEVELS


@dataclass
class Region:
    """One region and the rows of the table that fall into it."""

    region: int  # its id, as from apply
    rule: str
    train_rows: float
    train_share: float
    residual_std: float  # in training, as rules() has it
    calibration_rows: int | None  # None without calibration
    rows: int
    std: float
    error: float
    calibration: CalibrationFacts
    examples: list[Cells]


@dataclass
class Facts:
    """What is known of a model on a table."""

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
    measures: dict[str, tuple[float, float]]  # name -> (model, baseline)
    drivers: list[tuple[str, float]]  # feature -> factor by which shuffling it changes the std
    ratio: float  # of the residual std of the least certain region to that of the most certain one
    lack: str  # where calibration rows are too few for intervals of this coverage, and how many are needed
    training: float  # share of the rows that the model was trained on, 0 unless it is more than half
    region: NDArray[np.int64] | None = None  # of each row
    regions: list[Region] = field(default_factory=list)
    least_sure: list[Cells] = field(default_factory=list)
    supported: NDArray[np.bool_] | None = None  # whether rows resemble the training rows; None if nobody knows


def gather(model: Any, X: Any, y: NDArray[np.float64], coverage: float, seed: int = 0) -> Facts:
    """Ask the model everything that the page shows."""
    raw = model._encode(X)
    dist = predict(model, raw)
    mean, std = dist.mean(), dist.std()
    # The model's own intervals, which a calibrated one does not take from the distribution.
    bounds = interval_of(model, X, [*LEVELS.tolist(), coverage])
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
        mean=mean,
        std=std,
        lower=bounds[:, 0, -1],
        upper=bounds[:, 1, -1],
        y=y,
        pit=np.clip(dist.cdf(y), 0.0, 1.0),
        calibration=calibrate(inside, infinite),
        widths=(bounds[:, 1] - bounds[:, 0]).mean(axis=0)[:-1],
        measures=measures(model, dist, y, coverage, bounds[:, :, -1]),
        drivers=drivers,
        ratio=uncertainty_ratio(model),
        lack="" if lack is None else f"{lack.where}; {lack.needed:,} are needed",
        training=training_share(model, X, y),
    )
    shown = [name for name, _ in drivers][:N_SHOWN_FEATURES]
    if hasattr(model, "tree_"):
        facts.region = model.apply(X)
        facts.regions = _regions(model, X, facts, inside, infinite, shown)
    if getattr(model, "support_", None) is not None:
        facts.supported = model.predict_support(X)["supported"]
    facts.least_sure = _rows(X, np.argsort(-std, kind="stable")[:N_LEAST_SURE], facts, shown)
    return facts


def predict(model: Any, raw: NDArray[np.float64]) -> Any:
    """Distributions of encoded rows, in the target's units."""
    return model._distribution(raw).scaled(model.target_mean_, model.target_std_)


def calibrate(inside: NDArray[np.bool_], infinite: NDArray[np.bool_]) -> CalibrationFacts:
    """Compare stated with observed probabilities; the last column is the coverage that was asked for.

    Parameters
    ----------
    inside, infinite : ndarray of bool of shape (n, len(LEVELS) + 1)
        Whether each row's interval held the truth, and whether it is infinite and thus could not but hold it.
    """
    n = len(inside)
    if n == 0:
        return CalibrationFacts(0, np.full(len(LEVELS), np.nan), np.nan, 0.0, 1.0)
    shares, endless = inside.mean(axis=0), infinite.mean(axis=0)
    finite = inside[~infinite[:, -1], -1]
    return CalibrationFacts(
        n,
        shares[:-1],
        float(shares[-1]),
        *wilson(int(inside[:, -1].sum()), n),
        infinite=float(endless[-1]),
        finite_inside=float(finite.mean()) if len(finite) else float("nan"),
        infinite_at=endless[:-1],
    )


def measures(
    model: Any, dist: Any, y: NDArray[np.float64], coverage: float, interval: NDArray[np.float64]
) -> dict[str, tuple[float, float]]:
    """Each measure of the model beside that of a normal with the training target's mean and std for every row."""
    from usnrt.distributions import Normal
    from usnrt.metrics import evaluate

    constant = Normal(np.full(len(y), model.target_mean_), np.full(len(y), model.target_std_))
    ours = evaluate(dist, y=y, coverage=coverage, interval=interval)
    theirs = evaluate(constant, y=y, coverage=coverage)
    simplest = dict(zip(theirs["metric"].tolist(), theirs["value"].tolist()))
    return {n: (v, simplest[n]) for n, v in zip(ours["metric"].tolist(), ours["value"].tolist()) if n in simplest}


def uncertainty_drivers(
    model: Any, raw: NDArray[np.float64], rng: np.random.Generator, repeats: int = 3
) -> list[tuple[str, float]]:
    """How much each feature moves the stated std: shuffle it and see.

    Returns
    -------
    list of (name, factor)
        The largest first; 1.5 means that shuffling the feature makes the std 1.5 times larger or smaller, in the
        geometric mean over the rows. 1 means that the std does not depend on it.
    """
    if getattr(model, "support_", None) is not None:
        model = copy(model)  # shuffled rows lack support, which is not what is asked here
        model.support_ = None
    before = np.log(np.maximum(predict(model, raw).std(), np.finfo(float).tiny))
    result = []
    for name in model.encoder_.source_names_:
        columns = model.encoder_.source_of(name)
        moved = []
        for _ in range(repeats):
            shuffled = raw.copy()
            shuffled[:, columns] = raw[rng.permutation(len(raw))][:, columns]
            after = np.log(np.maximum(predict(model, shuffled).std(), np.finfo(float).tiny))
            moved.append(np.abs(after - before).mean())
        result.append((name, float(np.exp(np.mean(moved)))))
    return sorted(result, key=lambda item: -item[1])


def _regions(
    model: Any, X: Any, facts: Facts, inside: NDArray[np.bool_], infinite: NDArray[np.bool_], shown: list[str]
) -> list[Region]:
    """The regions in the order of ``region_rows``, the least certain first."""
    calibration = getattr(model, "calibration_", None)
    regions = []
    for row in region_rows(model):
        members = np.flatnonzero(facts.region == row["region"])
        place = int(model.tree_.leaf_index[row["region"]])
        error = facts.y[members] - facts.mean[members]
        # examples across the range of certainty, the surest and the least sure included
        by_std = members[np.argsort(facts.std[members], kind="stable")]
        picks = by_std[np.unique(np.linspace(0, max(len(by_std) - 1, 0), N_EXAMPLES).astype(int))[: len(by_std)]]
        regions.append(
            Region(
                region=row["region"],
                rule=row["rule"],
                train_rows=row["rows"],
                train_share=row["share"],
                residual_std=row["residual_std"],
                calibration_rows=None if calibration is None else calibration_rows(calibration, place),
                rows=len(members),
                std=float(facts.std[members].mean()) if len(members) else np.nan,
                error=float(np.sqrt(np.mean(error**2))) if len(members) else np.nan,
                calibration=calibrate(inside[members], infinite[members]),
                examples=_rows(X, picks, facts, shown),
            )
        )
    return regions


def _rows(X: Any, numbers: NDArray[Any], facts: Facts, shown: list[str]) -> list[Cells]:
    """Rows of the table beside what was predicted for them, as text."""
    from usnrt.report._numbers import number

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
            "truth": number(facts.y[i], 4) + (" (outside)" if outside else ""),
        }
        if facts.region is not None:
            cells["region"] = str(facts.region[i])
        result.append(list(cells.items()) + [(name, cell_text(values[name])) for name in shown])
    return result


def cell_text(value: Any) -> str:
    """A cell for people; missing values are said to be missing."""
    from usnrt.report._numbers import number

    if value is None or value != value:
        return "missing"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | float | np.number):
        return number(float(value), 4)
    text = str(value).removesuffix(" 00:00:00")
    return text if len(text) <= 40 else text[:39] + "…"
