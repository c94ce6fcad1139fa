"""Generated data with known noise, to compare a model's predictions with the truth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils import Bunch, check_random_state

from usnrt.utils.types import Floats, Rows

__all__ = ["Truth", "make_heteroscedastic"]

RowFunction = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Truth:
    """The model behind generated rows: ``y = mean(x) + std(x) * noise``, noise of mean 0 and standard deviation 1.

    Attributes
    ----------
    kind : str
        As in :func:`make_heteroscedastic`.
    boundaries : tuple of (int, float)
        Feature and threshold of every boundary at which mean or noise jump; empty for smooth ones.
    regions : tuple of str
        Description of each region, in the order of the indices that :meth:`region` returns.
    """

    kind: str
    boundaries: tuple[tuple[int, float], ...]
    regions: tuple[str, ...]
    _region: RowFunction
    _mean: RowFunction
    _std: RowFunction
    _noise: stats.rv_continuous

    def region(self, X: ArrayLike) -> Rows:
        """Index of the region of each row of ``X`` (n, d), shape (n,)."""
        return self._region(_rows(X)).astype(np.intp)

    def mean(self, X: ArrayLike) -> Floats:
        """True conditional mean of each row of ``X`` (n, d), shape (n,)."""
        return self._mean(_rows(X))

    def std(self, X: ArrayLike) -> Floats:
        """True conditional standard deviation of each row of ``X`` (n, d), shape (n,)."""
        return self._std(_rows(X))

    def quantile(self, X: ArrayLike, levels: ArrayLike) -> Floats:
        """True conditional quantiles.

        Parameters
        ----------
        X : array-like of shape (n, d)
        levels : float or array-like of shape (k,)

        Returns
        -------
        ndarray of shape (n,) for one level, else (n, k)
        """
        rows, q = _rows(X), np.asarray(levels, dtype=float)
        if q.ndim > 1 or not np.all((q > 0) & (q < 1)):
            raise ValueError(f"levels must be in (0, 1) and at most 1-d, got {levels!r}")
        grid = self._ppf(rows, np.broadcast_to(q.reshape(1, -1), (len(rows), q.size)))
        return grid[:, 0] if q.ndim == 0 else grid

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """True conditional probability of a value of at most ``y`` (n,), shape (n,)."""
        return self._cdf(_rows(X), np.asarray(y, dtype=float))

    def _ppf(self, rows: Floats, q: Floats) -> Floats:
        return np.asarray(self._mean(rows)[:, None] + self._std(rows)[:, None] * self._noise.ppf(q))

    def _cdf(self, rows: Floats, y: Floats) -> Floats:
        return np.asarray(self._noise.cdf((y - self._mean(rows)) / self._std(rows)))


@dataclass(frozen=True)
class _ZeroInflatedTruth(Truth):
    """Zero with a probability that depends on the row, otherwise log-normal (as comment counts are)."""

    _zero: RowFunction
    _log_mean: RowFunction
    log_std: float

    def _ppf(self, rows: Floats, q: Floats) -> Floats:
        zero = self._zero(rows)[:, None]
        above = np.clip((q - zero) / (1 - zero), 1e-300, 1.0)
        values = np.exp(self._log_mean(rows)[:, None] + self.log_std * stats.norm.ppf(above))
        return np.where(q <= zero, 0.0, values)

    def _cdf(self, rows: Floats, y: Floats) -> Floats:
        zero = self._zero(rows)
        with np.errstate(divide="ignore"):
            z = (np.log(np.maximum(y, 0.0)) - self._log_mean(rows)) / self.log_std
        return np.where(y < 0, 0.0, zero + (1 - zero) * stats.norm.cdf(z))


def make_heteroscedastic(
    kind: str = "piecewise",
    n_samples: int = 1000,
    n_features: int = 4,
    *,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Generate a regression table with known mean, noise and regions.

    Parameters
    ----------
    kind : str, default="piecewise"
        * ``"piecewise"``: three axis-aligned regions, each with its own constant noise; the mean jumps at
          the first boundary.
        * ``"jump"``: two regions; mean and noise are smooth inside and both jump at the boundary, the case
          of the paper's Proposition.
        * ``"smooth"``: noise that grows smoothly along ``x0``.
        * ``"homoscedastic"``: the same noise everywhere, so that every split is a false positive.
        * ``"heavy_tails"``: the regions of ``"jump"`` with Student-t noise of 4 degrees of freedom.
        * ``"zero_inflated"``: zero with a probability that jumps at ``x0 = 0.5``, else log-normal.
        * ``"interaction"``: noise is high where exactly one of ``x0`` and ``x1`` exceeds 0.5, which no single
          split shows.
        * ``"categorical"``: ``x0`` holds the codes 0 to 3 of a category; 1 and 3 are noisy.
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=4
        Number of features, at least 3; those beyond the third have no effect.
    random_state : int, RandomState or None, default=None
        Random seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, n_features), uniform on [0, 1]; ``target`` (n_samples,); ``feature_names``;
        ``categorical_names``; ``truth`` (:class:`Truth`); ``DESCR``.

    Examples
    --------
    >>> from usnrt.datasets import make_heteroscedastic
    >>> bunch = make_heteroscedastic("piecewise", n_samples=5, random_state=0)
    >>> bunch.data.shape, bunch.target.shape
    ((5, 4), (5,))
    >>> bunch.truth.regions
    ('x0 <= 0.5', 'x0 > 0.5 and x1 <= 0.4', 'x0 > 0.5 and x1 > 0.4')
    >>> bunch.truth.std([[0.2, 0.5, 0.5, 0.5], [0.9, 0.9, 0.5, 0.5]])
    array([0.1, 1. ])
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {sorted(_KINDS)}, got {kind!r}")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")
    if n_features < 3:
        raise ValueError(f"n_features must be at least 3, got {n_features}")
    truth = _KINDS[kind]()
    rng = check_random_state(random_state)
    data = rng.uniform(size=(n_samples, n_features))
    if kind == "categorical":
        data[:, 0] = np.floor(4 * data[:, 0])
    # Inverse transform sampling: one uniform number per row.
    target = truth._ppf(data, rng.uniform(1e-12, 1.0, size=(n_samples, 1)))[:, 0]
    names = [f"x{j}" for j in range(n_features)]
    return Bunch(
        data=data,
        target=target,
        feature_names=names,
        categorical_names=["x0"] if kind == "categorical" else [],
        truth=truth,
        DESCR=f"Generated rows with known noise ({kind}); regions: {'; '.join(truth.regions)}.",
    )


def _rows(X: ArrayLike) -> Floats:
    rows = np.asarray(X, dtype=float)
    if rows.ndim != 2 or rows.shape[1] < 3:
        raise ValueError(f"X must have shape (n, d) with d >= 3, got {rows.shape}")
    return rows


def _wave(x: Floats) -> Floats:
    """A mean that a small network fits well: one smooth bend and one product."""
    return np.sin(2 * np.pi * x[:, 2]) + x[:, 1] * x[:, 2]


def _piecewise() -> Truth:
    def region(x: Floats) -> Floats:
        return np.where(x[:, 0] <= 0.5, 0, np.where(x[:, 1] <= 0.4, 1, 2))

    return Truth(
        kind="piecewise",
        boundaries=((0, 0.5), (1, 0.4)),
        regions=("x0 <= 0.5", "x0 > 0.5 and x1 <= 0.4", "x0 > 0.5 and x1 > 0.4"),
        _region=region,
        _mean=lambda x: _wave(x) + np.where(x[:, 0] > 0.5, 2.0, 0.0),
        _std=lambda x: np.array([0.1, 0.4, 1.0])[region(x).astype(int)],
        _noise=stats.norm(),
    )


def _jump(kind: str = "jump", noise: stats.rv_continuous | None = None) -> Truth:
    def right(x: Floats) -> Floats:
        return (x[:, 0] > 0.5).astype(float)

    return Truth(
        kind=kind,
        boundaries=((0, 0.5),),
        regions=("x0 <= 0.5", "x0 > 0.5"),
        _region=right,
        _mean=lambda x: np.where(x[:, 0] > 0.5, 3.0 - x[:, 1], _wave(x)),
        _std=lambda x: np.where(x[:, 0] > 0.5, 0.6 + 0.4 * x[:, 1], 0.1 + 0.1 * x[:, 0]),
        _noise=noise or stats.norm(),
    )


def _one_region(kind: str, std: RowFunction) -> Truth:
    return Truth(
        kind=kind,
        boundaries=(),
        regions=("everywhere",),
        _region=lambda x: np.zeros(len(x)),
        _mean=_wave,
        _std=std,
        _noise=stats.norm(),
    )


def _zero_inflated() -> Truth:
    log_std = 0.8

    def zero(x: Floats) -> Floats:
        return np.where(x[:, 0] > 0.5, 0.3, 0.8)

    def log_mean(x: Floats) -> Floats:
        return 1.0 + x[:, 1]

    def mean(x: Floats) -> Floats:
        return (1 - zero(x)) * np.exp(log_mean(x) + log_std**2 / 2)

    def std(x: Floats) -> Floats:
        second_moment = (1 - zero(x)) * np.exp(2 * log_mean(x) + 2 * log_std**2)
        return np.sqrt(second_moment - mean(x) ** 2)

    return _ZeroInflatedTruth(
        kind="zero_inflated",
        boundaries=((0, 0.5),),
        regions=("x0 <= 0.5", "x0 > 0.5"),
        _region=lambda x: (x[:, 0] > 0.5).astype(float),
        _mean=mean,
        _std=std,
        _noise=stats.norm(),
        _zero=zero,
        _log_mean=log_mean,
        log_std=log_std,
    )


def _interaction() -> Truth:
    def noisy(x: Floats) -> Floats:
        return np.asarray((x[:, 0] > 0.5) != (x[:, 1] > 0.5), dtype=float)

    return Truth(
        kind="interaction",
        boundaries=((0, 0.5), (1, 0.5)),
        regions=("x0 and x1 on the same side of 0.5", "x0 and x1 on different sides of 0.5"),
        _region=noisy,
        _mean=_wave,
        _std=lambda x: np.where(noisy(x) > 0, 1.0, 0.2),
        _noise=stats.norm(),
    )


def _categorical() -> Truth:
    def noisy(x: Floats) -> Floats:
        return np.asarray(x[:, 0] % 2 == 1, dtype=float)

    return Truth(
        kind="categorical",
        boundaries=(),
        regions=("x0 in {0, 2}", "x0 in {1, 3}"),
        _region=noisy,
        _mean=lambda x: _wave(x) + 0.5 * x[:, 0],
        _std=lambda x: np.where(noisy(x) > 0, 1.0, 0.2),
        _noise=stats.norm(),
    )


_KINDS: dict[str, Callable[[], Truth]] = {
    "piecewise": _piecewise,
    "jump": _jump,
    "smooth": lambda: _one_region("smooth", lambda x: 0.1 + 0.9 * x[:, 0] ** 2),
    "homoscedastic": lambda: _one_region("homoscedastic", lambda x: np.full(len(x), 0.5)),
    # A t with 4 degrees of freedom has variance 2: scaled so that std(x) stays the standard deviation.
    "heavy_tails": lambda: _jump("heavy_tails", stats.t(df=4, scale=np.sqrt(0.5))),
    "zero_inflated": _zero_inflated,
    "interaction": _interaction,
    "categorical": _categorical,
}
