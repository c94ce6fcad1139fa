"""Predictive distributions, batched over rows: what a model here answers with."""

from usnrt.distributions.base import Distribution
from usnrt.distributions.grouped_residuals import GroupedResiduals
from usnrt.distributions.mixture import Mixture
from usnrt.distributions.normal import Normal
from usnrt.distributions.quantile_distribution import QuantileDistribution
from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.distributions.student_t import StudentT

__all__ = [
    "Distribution",
    "GroupedResiduals",
    "Mixture",
    "Normal",
    "QuantileDistribution",
    "ResidualDistribution",
    "StudentT",
]
