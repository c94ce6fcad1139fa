"""Predictive distributions, batched over rows: what a model here answers with."""

from usnrt.distributions.base import Distribution
from usnrt.distributions.grouped_curve import GroupedCurve
from usnrt.distributions.grouped_shape import GroupedShape
from usnrt.distributions.mixture import Mixture
from usnrt.distributions.normal import Normal
from usnrt.distributions.shape import Shape
from usnrt.distributions.student_t import StudentT

__all__ = ["Distribution", "GroupedCurve", "GroupedShape", "Mixture", "Normal", "Shape", "StudentT"]
