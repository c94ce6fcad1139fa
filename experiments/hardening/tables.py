"""Random tables: every kind of column that the library reads, as a table of numpy, pandas, polars or pyarrow."""

from dataclasses import dataclass, field

import numpy as np

WORDS = ["north", "süd", "old town", "", "0", "1e5", "None", "東", "a,b", 'say "x"', "line\nbreak", " padded ", "NaN?"]
LIBRARIES = ("numpy", "pandas", "polars", "arrow")


@dataclass
class Columns:
    """Columns by name, each an array with None, NaN or NaT where a value is missing."""

    values: dict = field(default_factory=dict)
    kinds: dict = field(default_factory=dict)

    def take(self, rows):
        """The columns of some rows."""
        return Columns({name: values[rows] for name, values in self.values.items()}, self.kinds)

    @property
    def has_numbers_only(self):
        """Whether a numeric numpy array holds the table."""
        return all(values.dtype.kind in "fiub" for values in self.values.values())

    def table(self, library):
        """The columns as a table of a library."""
        return {"numpy": as_numpy, "pandas": as_pandas, "polars": as_polars, "arrow": as_arrow}[library](self)


def as_numpy(columns):
    if columns.has_numbers_only:
        return np.column_stack([values.astype(np.float64) for values in columns.values.values()])
    lists = [values.astype(object) for values in columns.values.values()]
    return np.column_stack([np.array([_plain(v) for v in values], dtype=object) for values in lists])


def _plain(value):
    is_missing_date = isinstance(value, np.datetime64) and np.isnat(value)
    return None if is_missing_date or value is None else value


def as_pandas(columns):
    import pandas as pd

    frame = pd.DataFrame({name: pd.Series(values) for name, values in columns.values.items()})
    for name, kind in columns.kinds.items():
        if kind == "category":
            frame[name] = frame[name].astype("category")
        elif kind == "boolean":
            frame[name] = frame[name].astype("boolean")
        elif kind == "zoned":
            frame[name] = frame[name].dt.tz_localize("UTC").dt.tz_convert("Asia/Kolkata")
    return frame


def as_polars(columns):
    import polars as pl

    series = {}
    for name, values in columns.values.items():
        dtype = {"category": pl.Categorical, "boolean": pl.Boolean, "text": pl.String}.get(columns.kinds[name])
        kept = values.tolist() if values.dtype == object else values
        series[name] = pl.Series(name, kept, dtype=dtype, strict=False)
    return pl.DataFrame(series)


def as_arrow(columns):
    import pyarrow as pa

    arrays = {}
    for name, values in columns.values.items():
        array = pa.array(values.tolist() if values.dtype == object else values)
        arrays[name] = array.dictionary_encode() if columns.kinds[name] == "category" else array
    return pa.table(arrays)


def random_columns(rng, n_rows, n_columns):
    """Columns of random kinds, the rows independent and alike, so that any split of them is exchangeable."""
    columns = Columns()
    for index in range(n_columns):
        kind = str(rng.choice(list(KINDS)))
        values = KINDS[kind](rng, n_rows)
        name = str(rng.choice([f"c{index}", f"{kind} {index}", f"größe{index}"]))
        columns.values[name], columns.kinds[name] = values, kind
    return columns


def _numbers(rng, n):
    """Normal numbers of any scale and offset."""
    scale = 10.0 ** rng.uniform(-12, 12)
    return scale * (rng.normal(size=n) + rng.choice([0.0, 5.0, 1e6]))


def _some_missing(rng, values, missing=np.nan):
    share = rng.choice([0.01, 0.2, 0.9])
    values = values.copy()
    values[rng.random(len(values)) < share] = missing
    return values


def _texts(rng, n, n_words=None):
    words = rng.permutation(WORDS)[: n_words or rng.integers(1, len(WORDS))]
    values = rng.choice(words, n).astype(object)
    return _some_missing(rng, values, None) if rng.random() < 0.3 else values


def _dates(rng, n):
    days = rng.choice([3, 60, 2000, 40_000])
    dates = np.datetime64("1999-12-30T00:00", "us") + (rng.random(n) * days * 86_400e6).astype(np.int64)
    return _some_missing(rng, dates, np.datetime64("NaT")) if rng.random() < 0.3 else dates


def _booleans(rng, n):
    values = rng.random(n) < rng.choice([0.5, 0.02])
    return _some_missing(rng, values.astype(object), None) if rng.random() < 0.3 else values


def _near_constant(rng, n):
    values = np.full(n, rng.choice([0.0, 1.0, 1e9]))
    values[rng.integers(n)] += rng.choice([1.0, 1e-9, 1e6])
    return values


KINDS = {
    "number": _numbers,
    "gaps": lambda rng, n: _some_missing(rng, rng.normal(size=n)),
    "single": lambda rng, n: rng.normal(size=n).astype(np.float32),
    "heavy": lambda rng, n: rng.standard_cauchy(n),
    "extreme": lambda rng, n: 10.0 ** rng.uniform(-300, 300, n) * rng.choice([-1.0, 1.0], n),
    "whole": lambda rng, n: rng.integers(-3, 4, n),
    "byte": lambda rng, n: rng.integers(0, 255, n).astype(np.uint8),
    "large whole": lambda rng, n: rng.integers(-(2**62), 2**62, n),
    "boolean": _booleans,
    "text": _texts,
    "category": lambda rng, n: _texts(rng, n),
    "many labels": lambda rng, n: np.array([f"k{i}" for i in rng.integers(0, 2 * n, n)], dtype=object),
    "number text": lambda rng, n: np.array([f"{v:.2f}" for v in rng.normal(size=n)], dtype=object),
    "date": _dates,
    "zoned": _dates,
    "date text": lambda rng, n: np.array([str(d)[:10] for d in _day(rng, n)], dtype=object),
    "constant": lambda rng, n: np.full(n, rng.choice([0.0, -7.0, 1e300])),
    "near constant": _near_constant,
    "all missing": lambda rng, n: np.full(n, np.nan),
    "grid": lambda rng, n: rng.integers(0, 3, n).astype(np.float64),
}


def _day(rng, n):
    return np.datetime64("2020-02-27") + rng.integers(0, 1500, n)


def random_target(rng, columns, n):
    """A target that depends on the columns, the name of its kind, and whether it is continuous."""
    signal = np.zeros(n)
    for values in columns.values.values():
        if values.dtype.kind == "f" and np.isfinite(values).all() and np.ptp(values.astype(np.float64) / 2) > 0:
            signal += 2.0 * np.argsort(np.argsort(values)) / n
    noise = rng.normal(size=n) * np.where(signal > np.median(signal), 1.0, 0.2)
    kind = str(rng.choice(list(TARGETS)))
    return TARGETS[kind](rng, signal, noise), kind, kind not in ("counts", "constant", "binary", "zeros", "two")


TARGETS = {
    "normal": lambda rng, s, e: s + e,
    "scaled": lambda rng, s, e: 10.0 ** rng.uniform(-30, 30) * (s + e),
    "offset": lambda rng, s, e: 1e9 + s + e,
    "heavy": lambda rng, s, e: s + e / np.maximum(rng.random(len(s)), 1e-9),
    "lognormal": lambda rng, s, e: np.exp(s + 2.0 * e),
    "counts": lambda rng, s, e: rng.poisson(np.exp(s / 2)).astype(np.float64),
    "zeros": lambda rng, s, e: np.maximum(s + 3.0 * e, 0.0),
    "share": lambda rng, s, e: 1.0 / (1.0 + np.exp(-s - e)),
    "binary": lambda rng, s, e: (s + e > np.median(s)).astype(np.float64),
    "constant": lambda rng, s, e: np.full(len(s), rng.choice([0.0, 3.0, -1e8])),
    "two": lambda rng, s, e: np.where(np.arange(len(s)) == 0, 1.0, 0.0),
}


def random_weights(rng, n):
    """None, or weights: repetitions, fractions, many zeros, extremes."""
    kind = rng.choice(["none", "none", "whole", "fraction", "zeros", "extreme"])
    if kind == "none":
        return None
    if kind == "whole":
        return rng.integers(1, 4, n).astype(np.float64)
    if kind == "extreme":
        return 10.0 ** rng.uniform(-8, 8, n)
    weights = rng.uniform(0.1, 3.0, n)
    if kind == "zeros":
        weights[rng.random(n) < 0.7] = 0.0
        weights[:3] = 1.0
    return weights
