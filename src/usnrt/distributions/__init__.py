"""Predictive distributions, batched over rows: the return type of ``predict_dist``."""

from usnrt.distributions.base import Distribution
from usnrt.distributions.mixture import Mixture
from usnrt.distributions.parametric import Normal, StudentT
from usnrt.distributions.quantile_distribution import QuantileDistribution
from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.distributions.transformed import TargetMap, TransformedDistribution

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
