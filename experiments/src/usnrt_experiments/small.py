"""A second collection for the experiments: tables of 300 to 5,000 rows that need no download of their own.

Names begin with ``small-``. They come from scikit-learn, from statsmodels, from seeded subsamples of
the paper's data sets (where their files are on this machine) and from generators with known noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from usnrt.datasets import make_heteroscedastic
from usnrt.paper.datasets import available_datasets, fetch, get_spec

PREFIX = "small-"
SEED = 0  # of subsamples and generators
Table = tuple[Any, NDArray[np.float64]]


@dataclass(frozen=True)
class SmallTable:
    """A small table: how it is shown, where it comes from, and how it is loaded.

    Attributes
    ----------
    title : str
    source : {"scikit-learn", "statsmodels", "subsample", "generated"}
    n_rows, n_features : int
    target : str
        What is predicted.
    load : callable
        Returns the features as a frame and the target, shape (n_rows,).
    needs : str
        Data set of the paper whose file it is drawn from; empty for the others.
    """

    title: str
    source: str
    n_rows: int
    n_features: int
    target: str
    load: Callable[[], Table]
    needs: str = ""

    @property
    def is_here(self) -> bool:
        """Whether it can be loaded on this machine without a download."""
        return not self.needs or self.needs in available_datasets()


def small_table(name: str) -> SmallTable:
    """A small table by its name in the grid.

    Examples
    --------
    >>> from usnrt_experiments.small import small_table
    >>> table = small_table("small-diabetes")
    >>> table.n_rows, table.source
    (442, 'scikit-learn')
    """
    if name not in SMALL:
        raise ValueError(f"small table must be one of {list(SMALL)}, got {name!r}")
    return SMALL[name]


def available_small() -> list[str]:
    """Names of the small tables that can be loaded here without a download."""
    return [name for name, table in SMALL.items() if table.is_here]


def _diabetes() -> Table:
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(as_frame=True)
    return bunch.data, bunch.target.to_numpy(dtype=float)


def _statsmodels(name: str) -> Any:
    return import_module(f"statsmodels.datasets.{name}").load_pandas().data.astype(float)


def _from_statsmodels(name: str, target: str, n_rows: int) -> Callable[[], Table]:
    def load() -> Table:
        data = _statsmodels(name)
        kept = data.iloc[_drawn(len(data), n_rows)].reset_index(drop=True)
        return kept.drop(columns=target), kept[target].to_numpy()

    return load


def _star98() -> Table:
    """Share of pupils above the national median, per school district; the file's products of features left out."""
    data = _statsmodels("star98")
    above = data["NABOVE"].to_numpy()
    return data.loc[:, "LOWINC":"PCTYRRND"], above / (above + data["NBELOW"].to_numpy())


def _subsample(dataset: str, n_rows: int) -> Callable[[], Table]:
    def load() -> Table:
        bunch = fetch(dataset)
        kept = _drawn(len(bunch.target), n_rows)
        return bunch.data.iloc[kept].reset_index(drop=True), bunch.target.to_numpy(dtype=float)[kept]

    return load


def _drawn(n_all: int, n_rows: int) -> NDArray[np.intp]:
    """Seeded sample of row numbers, in order; all rows if they are not more."""
    if n_all <= n_rows:
        return np.arange(n_all)
    return np.sort(np.random.default_rng(SEED).choice(n_all, n_rows, replace=False))


def _friedman(number: int, n_rows: int) -> Callable[[], Table]:
    """Friedman's functions; the noise grows with the first feature, from 5 to 35 % of the signal's deviation."""

    def load() -> Table:
        import pandas as pd
        from sklearn import datasets

        X, signal = getattr(datasets, f"make_friedman{number}")(n_rows, noise=0.0, random_state=SEED)
        share = np.argsort(np.argsort(X[:, 0])) / (n_rows - 1)
        spread = (0.05 + 0.3 * share**2) * np.std(signal)
        noise = np.random.default_rng(SEED).normal(size=n_rows)
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), signal + spread * noise

    return load


def _own(kind: str, n_rows: int) -> Callable[[], Table]:
    def load() -> Table:
        import pandas as pd

        bunch = make_heteroscedastic(kind, n_samples=n_rows, random_state=SEED)
        frame = pd.DataFrame(bunch.data, columns=bunch.feature_names)
        return frame.astype(dict.fromkeys(bunch.categorical_names, "category")), bunch.target

    return load


SUBSAMPLES = {
    "electrical": 500,
    "industry": 600,
    "conditional": 700,
    "beijing": 1000,
    "traffic": 1000,
    "physicochemical": 1500,
    "appliances": 2000,
    "facebook1": 2500,
    "power": 4000,
}


def _registry() -> dict[str, SmallTable]:
    tables = {
        "diabetes": SmallTable("Diabetes", "scikit-learn", 442, 10, "progression after a year", _diabetes),
        "star98": SmallTable("Star98", "statsmodels", 303, 12, "share of pupils above the median", _star98),
        "anes96": SmallTable(
            "ANES 96", "statsmodels", 944, 10, "income bracket", _from_statsmodels("anes96", "income", 5000)
        ),
        "randhie": SmallTable(
            "RAND HIE", "statsmodels", 3000, 9, "visits to a doctor", _from_statsmodels("randhie", "mdvis", 3000)
        ),
        "fair": SmallTable("Fair", "statsmodels", 2000, 8, "affairs", _from_statsmodels("fair", "affairs", 2000)),
    }
    for dataset, n_rows in SUBSAMPLES.items():
        spec = get_spec(dataset)
        title, load = f"{spec.title} {n_rows}", _subsample(dataset, n_rows)
        tables[f"{dataset}"] = SmallTable(title, "subsample", n_rows, spec.n_features, "as in the set", load, dataset)
    for number, n_features, n_rows in ((1, 10, 500), (2, 4, 1000), (3, 4, 300)):
        load = _friedman(number, n_rows)
        tables[f"friedman{number}"] = SmallTable(
            f"Friedman {number}", "generated", n_rows, n_features, "function and growing noise", load
        )
    for kind, n_rows in (("jump", 1000), ("heavy_tails", 2000), ("categorical", 800)):
        title = kind.replace("_", " ").capitalize()
        tables[kind] = SmallTable(title, "generated", n_rows, 4, "function and noise in regions", _own(kind, n_rows))
    return {f"{PREFIX}{name}": table for name, table in tables.items()}


SMALL = _registry()
