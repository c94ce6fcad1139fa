"""Predictive distributions, batched over rows: the return type of ``predict_dist``."""

from usnrt.distributions.base import Distribution
from usnrt.distributions.mixture import Mixture
from usnrt.distributions.normal import Normal
from usnrt.distributions.quantile_distribution import QuantileDistribution
from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.distributions.student_t import StudentT
from usnrt.distributions.target_map import TargetMap
from usnrt.distributions.transformed import TransformedDistribution

__all__ = [
    "Distribution",
    "Mixture",
    "Normal",
    "QuantileDistribution",
    "ResidualDistribution",
    "StudentT",
    "TargetMap",
    "TransformedDistribution",
]
