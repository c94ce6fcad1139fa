"""Background rows: what explanations compare a row with, a few rows per region and of the whole table."""

import numpy as np
from numpy.typing import NDArray

from usnrt.utils.types import Floats

N_BACKGROUND = 32


def background_of(
    raw: Floats, leaf: NDArray[np.int64], n_leaves: int, weight: Floats | None = None, size: int = N_BACKGROUND
) -> Floats:
    """A sample of the rows of each region, and of all rows.

    Parameters
    ----------
    raw : ndarray of shape (n, d)
        Encoded rows in an order that does not matter; the rows of a training table are sorted by a hash, so that evenly
        spaced ones are a random sample.
    leaf : ndarray of int of shape (n,)
        Region of each row, counted from 0.
    n_leaves : int
    weight : ndarray of shape (n,), optional
        Weights of the rows: one of weight 2 counts like two equal rows.
    size : int
        Number of rows per sample; smaller regions repeat theirs.

    Returns
    -------
    ndarray of shape (n_leaves + 1, size, d)
        The last sample is that of all rows, which also stands for regions without rows.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.model.background import background_of
    >>> background_of(np.array([[1.0], [2.0], [3.0]]), np.array([0, 1, 0]), 2, size=2)[..., 0]
    array([[1., 3.], [2., 2.], [1., 2.]])
    """
    weight = np.ones(len(raw)) if weight is None else weight
    samples = []
    for own in _groups(leaf, n_leaves):
        total = np.cumsum(weight[own])
        chosen = np.searchsorted(total, np.arange(size) * (total[-1] / size), side="right")
        samples.append(raw[own[np.minimum(chosen, len(own) - 1)]])
    return np.stack(samples)


def marginal_background_of(
    raw: Floats,
    leaf: NDArray[np.int64],
    n_leaves: int,
    categorical: NDArray[np.bool_],
    weight: Floats | None = None,
    size: int = N_BACKGROUND,
) -> Floats:
    """Rows made up of the quantiles of each column in each region, for models that must not contain training rows.

    Quantiles of different columns are combined at random, so that no row is one of the table, and the columns of a
    background row are independent.

    Parameters
    ----------
    raw, leaf, n_leaves, weight, size
        As for `background_of`.
    categorical : ndarray of bool of shape (d,)

    Returns
    -------
    ndarray of shape (n_leaves + 1, size, d)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.model.background import marginal_background_of
    >>> raw, leaf = (np.arange(100)[:, None] + 0.5) / 100, np.zeros(100, dtype=int)
    >>> np.sort(marginal_background_of(raw, leaf, 1, np.array([False]), size=4)[0, :, 0])
    array([0.125, 0.375, 0.625, 0.875])
    """
    rng, levels = np.random.default_rng(0), (np.arange(size) + 0.5) / size
    background = np.empty((n_leaves + 1, size, raw.shape[1]))
    weight = np.ones(len(raw)) if weight is None else weight
    for sample, own in zip(background, _groups(leaf, n_leaves)):
        for j in range(raw.shape[1]):
            sample[:, j] = rng.permutation(_quantiles(raw[own, j], weight[own], levels, bool(categorical[j])))
    return background


def _groups(leaf: NDArray[np.int64], n_leaves: int) -> list[NDArray[np.intp]]:
    """Rows of each region, and all rows; all rows for regions without any."""
    own = [np.flatnonzero(leaf == number) for number in range(n_leaves)]
    everything = np.arange(len(leaf))
    return [rows if len(rows) else everything for rows in own] + [everything]


def _quantiles(values: Floats, weight: Floats, levels: Floats, categorical: bool) -> Floats:
    """Quantiles of a column, missing values last; those of whole numbers and categories are some of them."""
    present = ~np.isnan(values)
    order = np.argsort(values[present], kind="stable")
    values, own = values[present][order], weight[present][order]
    inside = levels < own.sum() / weight.sum()
    result = np.full(len(levels), np.nan)
    if inside.any():
        wanted, total = levels[inside] * weight.sum(), np.cumsum(own)
        if categorical or bool((values == np.floor(values)).all()):
            result[inside] = values[np.minimum(np.searchsorted(total, wanted), len(values) - 1)]
        else:
            result[inside] = np.interp(wanted, total - 0.5 * own, values)
    return result
