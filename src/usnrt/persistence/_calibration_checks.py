"""Validation of the calibration and of the support that were read from a file; see `usnrt.persistence._checks`."""

from typing import Any

import numpy as np

from usnrt.calibration.calibration import Calibration
from usnrt.calibration.landmarks import Landmarks
from usnrt.calibration.subjects import Subjects
from usnrt.calibration.support import Support
from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.persistence._errors import ModelFileError


def is_array(value: Any, kind: str, *shape: int) -> bool:
    """Whether a value is an array of a kind and shape."""
    return isinstance(value, np.ndarray) and value.dtype.kind == kind and value.shape == shape


def check_landmarks(landmarks: Any) -> None:
    """Check that all arrays of the landmarks have the same columns."""
    n_columns, n_points = np.size(landmarks.centre), len(landmarks.points)
    n_directions = np.shape(landmarks.points)[-1]
    is_valid = (
        all(is_array(array, "f", n_columns) for array in (landmarks.centre, landmarks.scale, landmarks.offset))
        and is_array(landmarks.whitening, "f", n_columns, n_directions)
        and is_array(landmarks.points, "f", n_points, n_directions)
        and n_points >= 1
        and n_columns >= 1
        and isinstance(landmarks.threshold, float)
    )
    if not is_valid:
        raise ModelFileError("the landmarks of the support are invalid")


def check_subjects(subjects: Any) -> None:
    """Check that the landmarks of the subjects have the subjects' columns, in ascending order."""
    columns, landmarks = subjects.columns, subjects.landmarks
    is_valid = (
        is_array(columns, "i", np.size(columns))
        and isinstance(landmarks, Landmarks)
        and len(landmarks.centre) == len(columns)
        and bool((columns >= 0).all() and (np.diff(columns) > 0).all())
    )
    if not is_valid:
        raise ModelFileError("the subjects of the support are invalid")


def check_support(support: Any) -> None:
    """Check that all arrays of the support have the same regions and columns."""
    n_columns, n_regions = np.size(support.categorical), len(support.low)
    ranges = (support.low, support.high, support.below, support.above)
    landmarks = support.landmarks
    is_valid = (
        all(is_array(array, "b", n_columns) for array in (support.categorical, support.never_missing))
        and all(is_array(array, "f", n_regions, n_columns) for array in ranges)
        and is_array(support.blank_variance, "f", n_columns)
        and is_array(support.typical_variance, "f", n_regions)
        and type(support.widens) is bool
        and isinstance(support.target_variance, float)
        and support.target_variance > 0
        and isinstance(landmarks, Landmarks | None)
        and (landmarks is None or len(landmarks.centre) == np.count_nonzero(~support.categorical))
        and isinstance(support.subjects, Subjects | None)
        and (support.subjects is None or not support.categorical.take(support.subjects.columns, mode="clip").any())
        and (support.subjects is None or support.subjects.columns[-1] < n_columns)
    )
    if not is_valid:
        raise ModelFileError("the support is invalid")


def check_calibration(calibration: Any) -> None:
    """Check that every region has a group, and every group its scores and residual distribution."""
    groups, residuals, scores = calibration.group_of_leaf, calibration.residuals, calibration.scores
    weights = calibration.weights
    is_valid = (
        isinstance(groups, np.ndarray)
        and is_array(groups, "i", np.size(groups))
        and type(residuals) is type(scores) is list
        and len(residuals) == len(scores) >= 1
        and ((groups >= 0) & (groups < len(scores))).all()
        and all(isinstance(residual, ResidualDistribution) for residual in residuals)
        and all(is_array(values, "f", np.size(values)) for values in scores)
        and (weights is None or (type(weights) is list and len(weights) == len(scores)))
        and all(is_array(weight, "f", np.size(values)) for weight, values in zip(weights or [], scores))
        and type(calibration.has_familiar) is bool
    )
    if not is_valid:
        raise ModelFileError("the calibration is invalid")


def check_fits_tree(attributes: dict[str, Any], n_leaves: int, n_columns: int) -> None:
    """Check that support and calibration of a model have the regions and the columns of its tree."""
    support, calibration = attributes.get("support_"), attributes.get("calibration_")
    is_valid = (
        isinstance(support, Support | None)
        and isinstance(calibration, Calibration | None)
        and (support is None or support.low.shape == (n_leaves + 1, n_columns))
        and (calibration is None or len(calibration.group_of_leaf) == n_leaves * (1 + calibration.has_familiar))
    )
    if not is_valid:
        raise ModelFileError("the support or the calibration does not fit to the tree")
