"""Numbers for networks: beside each number, how far it has come in each of some bins.

A multilayer perceptron learns smooth functions of a scaled number quickly and sharp ones slowly. With the number's
way through quantile bins as further inputs (piecewise linear encoding, Gorishniy et al. 2022), both are easy.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Bins become fewer on wide tables, so that the first layer does not outgrow the rest.
MAX_ENCODED = 2048
# Numbers further out than so many standard deviations are taken as that: no answer may run away with an outlier.
FARTHEST = 5.0


class PiecewiseLinear:
    r"""Piecewise linear encoding of some columns, appended to all columns, which are bounded by 5 either way.

    Bin k of a column with edges :math:`b_0 < \dots < b_K` gives
    :math:`\mathrm{clip}((x - b_{k-1}) / (b_k - b_{k-1}), 0, 1) - \tfrac12`. Edges are quantiles of the training rows,
    or the values themselves where there are few. A bin that a column does not need gives 0.

    Parameters
    ----------
    n_inputs : int
        Columns before encoding.
    columns : ndarray of int of shape (q,)
        The columns to encode.
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
        columns: NDArray[np.int64],
        slope: NDArray[np.float32],
        offset: NDArray[np.float32],
    ) -> None:
        self.n_inputs = n_inputs
        self.columns = columns
        self.slope = slope
        self.offset = offset

    @classmethod
    def fit(cls, x: NDArray[np.float32], columns: NDArray[np.int64], n_bins: int = 16) -> "PiecewiseLinear":
        """Find the edges of the bins.

        Parameters
        ----------
        x : ndarray of shape (n, n_inputs)
        columns : ndarray of int of shape (q,)
        n_bins : int, default=16
            Fewer on wide tables: all columns together have at most 2048.

        Returns
        -------
        PiecewiseLinear
        """
        n_bins = max(1, min(n_bins, MAX_ENCODED // max(len(columns), 1)))
        slope, offset = np.zeros((2, len(columns), n_bins), dtype=np.float32)
        for place, column in enumerate(columns):
            edges = _edges(x[:, column].astype(np.float64), n_bins)
            used = len(edges) - 1
            if used < 1:
                continue
            slope[place, :used] = 1.0 / np.diff(edges)
            offset[place, :used] = -edges[:-1] / np.diff(edges) - 0.5
        return cls(x.shape[1], np.asarray(columns, dtype=np.int64), slope, offset)

    @property
    def n_outputs(self) -> int:
        """Columns after encoding."""
        return self.n_inputs + self.slope.size

    @property
    def constants(self) -> tuple[NDArray[Any], ...]:
        """What a compiled program needs."""
        return self.columns, self.slope, self.offset

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Encode rows of shape (n, n_inputs) to shape (n, n_outputs)."""
        return encode(np, x, *self.constants)


def encode(xp: Any, x: Any, columns: Any, slope: Any, offset: Any) -> Any:
    """The encoding itself, for numpy or jax.numpy as ``xp``."""
    bins = xp.clip(x[:, columns, None] * slope + offset, -0.5, 0.5)
    return xp.concatenate([xp.clip(x, -FARTHEST, FARTHEST), bins.reshape(x.shape[0], -1)], axis=1)


def _edges(values: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """Edges of at most ``n_bins`` bins, strictly rising and not closer than float32 can tell apart."""
    distinct = np.unique(values)
    edges = distinct if len(distinct) <= n_bins + 1 else np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)))
    spread = edges[-1] - edges[0]
    keep = np.concatenate([[True], np.diff(edges) > 1e-5 * max(spread, 1e-30)])
    return edges[keep]
