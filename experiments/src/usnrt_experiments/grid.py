"""The grid of an experiment: cells of (data set, recipe, split seed), and the rows of each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from usnrt.datasets import make_heteroscedastic
from usnrt.paper.datasets import Spec, available_datasets, fetch, get_spec, seeds_for, train_test_rows
from usnrt_experiments.recipes import ABLATION, COMPARED, COVERAGE, SMALL_COMPARED, STABILITY, get_recipe
from usnrt_experiments.small import PREFIX, SmallTable, available_small, small_table

# Small enough for five seeds by the paper's rule, but slow because of its 276 features.
ONE_SEED = ("blog",)
QUICK_DATASETS = ("electrical", "conditional", "physicochemical", "power")
PRESETS = ("paper", "stability", "ablation", "quick", "small", "coverage")
# Presets whose records are not those of models on the paper's data sets: they have a folder of their own in the store.
OWN_FOLDER = ("small", "coverage")
# Every model of the paper's tables with the paper's recipe, and ours with the default recipe.
QUICK_RECIPES = [
    *("usnrt-paper", "usnrt", "hnn-paper", "extra-trees-paper", "random-forest-paper"),
    *("usnrt-ensemble-paper", "deep-ensemble-paper", "evidential-paper", "mc-dropout-paper", "concrete-dropout-paper"),
    "catboost",
]


@dataclass(frozen=True, order=True)
class Cell:
    """One fit of the experiment: a data set, a model recipe, the seed of a split.

    Examples
    --------
    >>> from usnrt_experiments import Cell
    >>> Cell("electrical", "usnrt-paper?alpha=0.02", 42).path
    'electrical/usnrt-paper%3Falpha=0.02/42'
    """

    dataset: str
    recipe: str
    seed: int

    @property
    def path(self) -> str:
        """Path of its record below the store, without a suffix."""
        return f"{quote(self.dataset, safe='')}/{quote(self.recipe, safe='=')}/{self.seed}"

    def __str__(self) -> str:
        return f"{self.dataset} {self.recipe} seed {self.seed}"


@dataclass(frozen=True)
class TrainTestSplit:
    """Data of a cell: features as frames, the target standardised by mean and standard deviation of training rows."""

    X_train: Any
    y_train: NDArray[np.float64]
    X_test: Any
    y_test: NDArray[np.float64]
    target_mean: float
    target_std: float


def make_grid(datasets: Iterable[str], recipes: Iterable[str], seeds: Sequence[int] | None = None) -> list[Cell]:
    """All cells of an experiment, the most informative first.

    The first seed of every recipe and data set precedes the second seed of any; recipes keep their order; small data
    sets precede large ones.

    Parameters
    ----------
    datasets : iterable of str
        Names of :func:`usnrt.paper.datasets.fetch`, ``"generated-KIND-ROWS"``, or ``"small-NAME"`` (module `small`).
    recipes : iterable of str
        Names accepted by :func:`get_recipe`.
    seeds : sequence of int, default=None
        Seeds of the splits; None for the paper's protocol (five below 100,000 rows, else one; one for Blog).

    Examples
    --------
    >>> from usnrt_experiments import make_grid
    >>> [str(cell) for cell in make_grid(["power", "electrical"], ["hnn"], seeds=[42])]
    ['electrical hnn seed 42', 'power hnn seed 42']
    """
    by_size = sorted(dict.fromkeys(datasets), key=size_of)
    named = list(dict.fromkeys(recipes))
    for name in named:
        get_recipe(name)
    cells = [
        (rank, order, Cell(dataset, recipe, seed))
        for order, recipe in enumerate(named)
        for dataset in by_size
        for rank, seed in enumerate(protocol_seeds(dataset) if seeds is None else seeds)
    ]
    return [cell for _, _, cell in sorted(cells, key=lambda item: item[:2])]


def preset(name: str) -> list[Cell]:
    """A grid by name.

    ``"paper"``: all models; ``"stability"``: the paper's stability study; ``"ablation"``: the default recipe without
    one of its parts; ``"quick"``: a subset of the first two; ``"small"``: the collection of small tables;
    ``"coverage"``: coverage per group beside conformal methods, first split.

    Only data sets whose files are on this machine are included.
    """
    here = available_datasets()
    if name == "paper":
        return make_grid(here, COMPARED)
    if name == "stability":
        return make_grid(here, STABILITY, seeds=[42])
    if name == "ablation":
        return make_grid(here, ABLATION, seeds=[42])
    if name == "quick":
        small = [dataset for dataset in here if dataset in QUICK_DATASETS]
        compared = make_grid(small, QUICK_RECIPES, seeds=[42])
        # Our ensemble takes minutes per cell, so it is run on two data sets only.
        ensembles = make_grid([*small[:1], *small[-1:]], ["usnrt-ensemble"], seeds=[42])
        return compared + ensembles + make_grid(small[:1], STABILITY, seeds=[42])
    if name == "small":
        return make_grid(available_small(), SMALL_COMPARED)
    if name == "coverage":
        return [Cell(dataset, COVERAGE, 42) for dataset in sorted(here, key=size_of)]
    raise ValueError(f"preset must be one of {list(PRESETS)}, got {name!r}")


def protocol_seeds(dataset: str) -> tuple[int, ...]:
    """Seeds of a data set's splits in these experiments."""
    seeds = seeds_for(n_rows_of(dataset))
    return seeds[:1] if dataset in ONE_SEED else seeds


def download_missing(datasets: Iterable[str]) -> None:
    """Download data sets that are not on this machine, so that errors occur before a run, not in every cell."""
    here = available_datasets()
    for dataset in dict.fromkeys(datasets):
        needed = small_table(dataset).needs if dataset.startswith(PREFIX) else dataset
        if needed and _generated(needed) is None and needed not in here:
            fetch(needed)


def n_rows_of(dataset: str) -> int:
    """Number of rows of a data set, without loading it."""
    generated = _generated(dataset)
    return generated[1] if generated else _spec(dataset).n_rows


def n_features_of(dataset: str) -> int:
    """Number of features of a data set, without loading it."""
    return 4 if _generated(dataset) else _spec(dataset).n_features


def size_of(dataset: str) -> int:
    """Rows times features: a rough relative measure of the run time of a data set's cells."""
    return n_rows_of(dataset) * n_features_of(dataset)


def title_of(dataset: str) -> str:
    """How a data set is named in tables.

    Examples
    --------
    >>> from usnrt_experiments.grid import title_of
    >>> title_of("realtime"), title_of("small-fair")
    ('Real-time', 'Fair')
    """
    return dataset if _generated(dataset) else _spec(dataset).title


def _spec(dataset: str) -> Spec | SmallTable:
    return small_table(dataset) if dataset.startswith(PREFIX) else get_spec(dataset)


def _generated(dataset: str) -> tuple[str, int] | None:
    prefix, _, rest = dataset.partition("-")
    kind, _, rows = rest.rpartition("-")
    if prefix != "generated":
        return None
    if not rows.isdigit():
        raise ValueError(f"dataset must read 'generated-KIND-ROWS', got {dataset!r}")
    return kind, int(rows)


@lru_cache(maxsize=1)
def load_table(dataset: str) -> tuple[Any, NDArray[np.float64]]:
    """Features (a frame) and target of a data set; the last one is cached."""
    generated = _generated(dataset)
    if dataset.startswith(PREFIX):
        return small_table(dataset).load()
    if generated is None:
        bunch = fetch(dataset)
        return bunch.data, bunch.target.to_numpy()
    import pandas as pd

    bunch = make_heteroscedastic(generated[0], n_samples=generated[1], random_state=0)
    frame = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    return frame.astype(dict.fromkeys(bunch.categorical_names, "category")), bunch.target


def load_split(dataset: str, seed: int) -> TrainTestSplit:
    """The data of one cell."""
    X, y = load_table(dataset)
    train, test = train_test_rows(len(y), seed)
    mean, std = float(y[train].mean()), float(y[train].std())
    scaled = (y - mean) / (std if std > 0 else 1.0)
    return TrainTestSplit(X.iloc[train], scaled[train], X.iloc[test], scaled[test], mean, std)
