"""One small distribution of each type, for tests of the common interface."""

import numpy as np

from usnrt.distributions import (
    Distribution,
    Mixture,
    Normal,
    QuantileDistribution,
    ResidualDistribution,
    StudentT,
)


def make(family: str, n: int = 7, seed: int = 0) -> Distribution:
    rng = np.random.default_rng(seed)

    def loc() -> np.ndarray:
        return rng.normal(scale=3.0, size=n)

    def scale() -> np.ndarray:
        return rng.uniform(0.2, 3.0, size=n)

    if family == "normal":
        return Normal(loc(), scale())
    if family == "student_t":
        return StudentT(rng.uniform(2.5, 30.0, size=n), loc(), scale())
    if family == "normal_mixture":
        return Mixture([Normal(loc(), scale()) for _ in range(4)], weights=[1.0, 2.0, 3.0, 0.5])
    residuals = [
        ResidualDistribution.from_residuals(rng.normal(size=200)),
        ResidualDistribution.from_residuals(rng.standard_t(4, size=60)),
    ]
    positions = np.linspace(-2.0, 2.0, 6)
    knots = loc()[:, None] + scale()[:, None] * (positions + 0.02 * positions**2)
    return QuantileDistribution(knots, positions, np.arange(n) % 2, residuals)


FAMILIES = ["normal", "student_t", "normal_mixture", "quantile"]
