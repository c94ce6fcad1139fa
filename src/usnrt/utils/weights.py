"""Weights as evidence: as many rows as count, not as their weights add up to."""

import numpy as np

from usnrt.utils.types import Floats


def effective_weight(weight: Floats) -> Floats:
    """Weights scaled so that their sum is the effective number of rows, (sum w)^2 / sum w^2 (Kish).

    Copies of a row carry no new information, so equal weights become 1, whatever their size.

    Parameters
    ----------
    weight : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from usnrt.utils.weights import effective_weight
    >>> effective_weight(np.array([3.0, 3.0])), effective_weight(np.array([1.0, 3.0]))
    (array([1., 1.]), array([0.4, 1.2]))
    """
    if len(weight) == 0 or weight.min() == weight.max():
        return np.ones(len(weight))
    return weight * float(weight.sum() / (weight @ weight))
