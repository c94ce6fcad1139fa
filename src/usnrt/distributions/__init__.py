"""Predictive distributions, batched over rows: what a model here answers with."""

from usnrt.distributions.base import Distribution
from usnrt.distributions.normal import Normal

__all__ = ["Distribution", "Normal"]
