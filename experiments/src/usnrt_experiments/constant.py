"""The simplest baseline: the same normal distribution for every row. It also serves to test the runner."""

import time
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from usnrt.distributions import Normal


class ConstantNormal(RegressorMixin, BaseEstimator):  # scikit-learn is untyped
    """Predicts the mean and standard deviation of the training target for every row.

    Parameters
    ----------
    delay : float, default=0
        Seconds to sleep in ``fit``, for tests of the runner.
    random_state : int, default=None
        Ignored; present because recipes set it.

    Examples
    --------
    >>> from usnrt_experiments.constant import ConstantNormal
    >>> model = ConstantNormal().fit([[0], [1]], [1.0, 3.0])
    >>> model.predict_dist([[7]]).std()
    array([1.])
    """

    def __init__(self, delay: float = 0.0, random_state: int | None = None) -> None:
        self.delay = delay
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Store mean and standard deviation of ``y`` (n,)."""
        time.sleep(self.delay)
        target = np.asarray(y, dtype=float)
        self.mean_, self.std_ = float(target.mean()), float(target.std())
        return self

    def predict_dist(self, X: Any) -> Normal:
        """The same normal distribution for each of the n rows of ``X``."""
        return Normal(np.full(len(X), self.mean_), np.full(len(X), self.std_))
