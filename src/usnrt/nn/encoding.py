"""Piecewise linear encoding of numeric network inputs (Gorishniy et al. 2022).

A multilayer perceptron learns smooth functions of a scaled number quickly and sharp ones slowly. With the position of
the number in each of several quantile bins as additional inputs, it learns both quickly.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jax import Array

#: An array of numpy or of jax.
ArrayT = TypeVar("ArrayT", "NDArray[Any]", "Array")

# Bound of the number of encoded columns: wide tables get fewer bins, so that the first layer does not dominate.
MAX_ENCODED = 2048
# Inputs are clipped to this many standard deviations, so that outliers do not extrapolate.
INPUT_LIMIT = 5.0


class PiecewiseLinear:
    r"""Piecewise linear encoding of some columns, appended to all columns that are kept, which are clipped to [-5, 5].

    Bin k of a column with edges :math:`b_0 < \dots < b_K` gives
    :math:`\mathrm{clip}((x - b_{k-1}) / (b_k - b_{k-1}), 0, 1) - \tfrac12`. Edges are quantiles of the training rows,
    or the distinct values if there are few. Unused bins are 0.

    Parameters
    ----------
    n_inputs : int
        Number of columns before encoding.
    kept : ndarray of int
        Columns that count, strictly ascending; the others are left out.
    columns : ndarray of int of shape (q,)
        Columns to encode.
    slope, offset : ndarray of shape (q, n_bins)
        Bin k of column j is ``clip(x_j * slope_jk + offset_jk, -1/2, 1/2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.nn.encoding import PiecewiseLinear
    >>> x = np.array([[0.0], [1.0], [2.0], [4.0]], dtype=np.float32)
    >>> encoding = PiecewiseLinear.fit(x, np.array([0]), n_bins=3)
    >>> encoding(np.array([[1.5]], dtype=np.float32))
    array([[ 1.5,  0.5,  0. , -0.5]], dtype=float32)
    """

    def __init__(
        self,
        n_inputs: int,
        kept: NDArray[np.int64],
        columns: NDArray[np.int64],
        slope: NDArray[np.float32],
        offset: NDArray[np.float32],
    ) -> None:
        self.n_inputs = n_inputs
        self.kept = kept
        self.columns = columns
        self.slope = slope
        self.offset = offset

    @classmethod
    def fit(
        cls,
        x: NDArray[np.float32],
        columns: NDArray[np.int64],
        n_bins: int = 16,
        kept: NDArray[np.int64] | None = None,
    ) -> "PiecewiseLinear":
        """Compute the bin edges from training rows.

        Parameters
        ----------
        x : ndarray of shape (n, n_inputs)
        columns : ndarray of int of shape (q,)
        n_bins : int, default=16
            Reduced on wide tables: the total over all columns is at most 2048.
        kept : ndarray of int, optional
            Strictly ascending; all columns by default. Others are not encoded.

        Returns
        -------
        PiecewiseLinear
        """
        kept = np.arange(x.shape[1]) if kept is None else kept
        columns = np.intersect1d(columns, kept)
        n_bins = max(1, min(n_bins, MAX_ENCODED // max(len(columns), 1)))
        slope, offset = np.zeros((2, len(columns), n_bins), dtype=np.float32)
        for j, column in enumerate(columns):
            edges = _edges(x[:, column].astype(np.float64), n_bins)
            used = len(edges) - 1
            if used < 1:
                continue
            slope[j, :used] = 1.0 / np.diff(edges)
            offset[j, :used] = -edges[:-1] / np.diff(edges) - 0.5
        return cls(x.shape[1], kept, columns, slope, offset)

    @property
    def n_outputs(self) -> int:
        """Number of columns after encoding."""
        return len(self.kept) + self.slope.size

    @property
    def constants(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
        """Kept columns, encoded columns, slope and offset, the arguments of `encode`."""
        return self.kept, self.columns, self.slope, self.offset

    def with_more(self, n_more: int) -> "PiecewiseLinear":
        """The encoding with further columns after the others, kept as they are."""
        kept = np.concatenate([self.kept, self.n_inputs + np.arange(n_more)])
        return PiecewiseLinear(self.n_inputs + n_more, kept, self.columns, self.slope, self.offset)

    def with_first(self, n_inputs: int) -> "PiecewiseLinear":
        """The encoding without the columns from this number on, none of which is encoded."""
        return PiecewiseLinear(n_inputs, self.kept[self.kept < n_inputs], self.columns, self.slope, self.offset)

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Encode rows of shape (n, n_inputs) to shape (n, n_outputs)."""
        return encode(np, x, *self.constants)


def encode(xp: ModuleType, x: ArrayT, kept: ArrayT, columns: ArrayT, slope: ArrayT, offset: ArrayT) -> ArrayT:
    """Encode ``x``, where ``xp`` is numpy or jax.numpy."""
    bins = xp.clip(x[:, columns, None] * slope + offset, -0.5, 0.5)
    plain = xp.clip(x[:, kept], -INPUT_LIMIT, INPUT_LIMIT)
    encoded: ArrayT = xp.concatenate([plain, bins.reshape(x.shape[0], -1)], axis=1)
    return encoded


def _edges(values: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """Edges of at most ``n_bins`` bins, strictly increasing and distinguishable in float32."""
    edges: NDArray[np.float64] = np.unique(values)
    if len(edges) > n_bins + 1:
        edges = np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)))
    width = edges[-1] - edges[0]
    keep = np.concatenate([[True], np.diff(edges) > 1e-5 * max(width, 1e-30)])
    kept: NDArray[np.float64] = edges[keep]
    return kept
