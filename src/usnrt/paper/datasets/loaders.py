"""Loaders of the paper's data sets, and its splits."""

import io
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from usnrt.paper.datasets.files import get_files, is_here
from usnrt.paper.datasets.specs import SPECS, Spec, get_spec
from usnrt.utils.folders import cache_folder
from usnrt.utils.types import Rows


def list_datasets() -> list[str]:
    """Names of the paper's data sets, in the order of its tables.

    Examples
    --------
    >>> from usnrt.paper.datasets import list_datasets
    >>> len(list_datasets()), list_datasets()[0]
    (17, 'electrical')
    """
    return list(SPECS)


def available_datasets(data_home: str | Path | None = None) -> list[str]:
    """Names of the data sets whose files are on this machine, so that :func:`fetch` needs no download."""
    home = Path(data_home) if data_home is not None else cache_folder()
    return [spec.key for spec in SPECS.values() if is_here(spec, home.expanduser())]


def fetch(name: str, data_home: str | Path | None = None, download: bool = True) -> Bunch:
    """Load one of the paper's data sets.

    The folder in the environment variable ``USNRT_DATA`` is searched first, then ``data_home``; files in neither
    are downloaded to ``data_home``. All files are verified by the number of rows and columns, most of them also by
    checksum; a warning names those that have none.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    data_home : path, default=None
        Folder of downloads; by default ``USNRT_CACHE`` or the system's cache folder.
    download : bool, default=True
        Whether missing files may be downloaded.

    Returns
    -------
    Bunch
        ``data`` (DataFrame of shape (n, d); numbers as float, categories as ``category``), ``target`` (Series of
        shape (n,)), ``frame`` (both together), ``feature_names``, ``categorical_names``, ``numeric_names``,
        ``target_name``, ``DESCR``, ``citation``.

    Examples
    --------
    >>> from usnrt.paper.datasets import fetch
    >>> bunch = fetch("electrical")  # doctest: +SKIP
    >>> bunch.data.shape  # doctest: +SKIP
    (10000, 12)
    """
    spec = get_spec(name)
    home = Path(data_home) if data_home is not None else cache_folder()
    return _bunch(spec, get_files(spec, home.expanduser(), download))


def _bunch(spec: Spec, contents: list[bytes]) -> Bunch:
    frame = parse(spec, contents)
    features = [column for column in frame.columns if column != spec.target]
    if (len(frame), len(features)) != (spec.n_rows, spec.n_features):
        raise ValueError(
            f"data set {spec.key!r} must have {spec.n_rows} rows and {spec.n_features} features, got "
            f"{len(frame)} rows and {len(features)} features; the file is damaged or another version"
        )
    return Bunch(
        data=frame[features],
        target=frame[spec.target],
        frame=frame,
        feature_names=features,
        categorical_names=list(spec.categorical),
        numeric_names=[column for column in features if column not in spec.categorical],
        target_name=spec.target,
        DESCR=(
            f"{spec.full_name}: {spec.n_rows:,} rows, {spec.n_features} features, "
            f"{len(spec.categorical)} of them categorical; target {spec.target!r}. {spec.note}".rstrip()
        ),
        citation=spec.citation,
    )


def parse(spec: Spec, contents: list[bytes]) -> Any:
    """Parse the files of a data set into one frame of features and target.

    Parameters
    ----------
    contents : list of bytes
        One for each of ``spec.files``.

    Returns
    -------
    DataFrame with the features in the order of the file, followed by the target
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("reading data sets needs pandas: pip install 'usnrt[data]'") from error
    # Only these two texts mean missing. By default pandas includes "None", which means "no holiday" in traffic.
    options: dict[str, Any] = {"keep_default_na": False, "na_values": ["", "NA"], **spec.read}
    if spec.columns:
        options |= {"header": None, "names": list(spec.columns), "index_col": False}
    try:
        frame = pd.concat([pd.read_csv(io.BytesIO(content), **options) for content in contents], ignore_index=True)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"the file of data set {spec.key!r} must be a table, got {error}") from error
    missing = {spec.target, *spec.drop, *spec.categorical} - set(frame.columns)
    if missing:
        raise ValueError(f"data set {spec.key!r} must have the columns {sorted(missing)}")
    frame = frame.drop(columns=list(spec.drop)).dropna(subset=[spec.target])
    if spec.sample is not None and len(frame) > spec.sample:
        frame = frame.sample(n=spec.sample, random_state=42)  # as in the paper's code
    features = [column for column in frame.columns if column != spec.target]
    kinds = {column: "str" if column in spec.categorical else "float64" for column in [*features, spec.target]}
    try:
        frame = frame[[*features, spec.target]].astype(kinds)
    except ValueError as error:
        raise ValueError(
            f"data set {spec.key!r} must be numeric except {list(spec.categorical)}, got {error}"
        ) from error
    return frame.astype(dict.fromkeys(spec.categorical, "category")).reset_index(drop=True)


SEEDS = (42, 142, 242, 342, 442)
LARGE = 100_000


def seeds_for(n_rows: int) -> tuple[int, ...]:
    """Split seeds of the protocol: five below 100,000 rows, else one.

    Examples
    --------
    >>> from usnrt.paper.datasets import seeds_for
    >>> seeds_for(10_000), seeds_for(241_600)
    ((42, 142, 242, 342, 442), (42,))
    """
    return SEEDS if n_rows < LARGE else SEEDS[:1]


def train_test_rows(n_rows: int, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows of one split: 80 % drawn by ``random.sample``; test rows keep their order.

    Parameters
    ----------
    n_rows : int
        Rows of the whole table, at least 2.
    seed : int
        Seed of the split.

    Returns
    -------
    train, test : ndarray of shape (floor(0.8 n_rows),) and (n_rows - floor(0.8 n_rows),)

    Examples
    --------
    >>> from usnrt.paper.datasets import train_test_rows
    >>> train_test_rows(10, seed=42)
    (array([1, 0, 4, 9, 6, 5, 8, 2]), array([3, 7]))
    """
    if n_rows < 2:
        raise ValueError(f"n_rows must be at least 2, got {n_rows}")
    # A separate generator gives the same numbers as random.seed(seed) and leaves the global one unchanged.
    train = np.array(random.Random(seed).sample(range(n_rows), math.floor(0.8 * n_rows)), dtype=np.intp)
    is_test = np.ones(n_rows, dtype=bool)
    is_test[train] = False
    return train, np.flatnonzero(is_test)
