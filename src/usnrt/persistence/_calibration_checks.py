"""Validation of the calibration and of the support that were read from a file; see `usnrt.persistence._checks`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from usnrt.distributions.residual_distribution import ResidualDistribution
from usnrt.persistence._errors import ModelFileError


def check_landmarks(landmarks: Any) -> None:
    """Check that there are landmarks, and columns that they have."""
    if not landmarks.points.size:
        raise ModelFileError("the landmarks of the support are invalid")


def check_subjects(subjects: Any) -> None:
    """Check that the landmarks of the subjects have the subjects' columns, in ascending order."""
    columns = subjects.columns
    if len(subjects.landmarks.centre) != len(columns) or not (np.diff(columns) > 0).all():
        raise ModelFileError("the subjects of the support are invalid")


def check_support(support: Any) -> None:
    """Check that ranges are in order, and that landmarks have the numeric columns."""
    numeric, landmarks, subjects = ~support.categorical, support.landmarks, support.subjects
    is_valid = (
        (support.low <= support.high).all()
        and (landmarks is None or len(landmarks.centre) == np.count_nonzero(numeric))
        and (subjects is None or set(subjects.columns.tolist()) <= set(np.flatnonzero(numeric).tolist()))
    )
    if not is_valid:
        raise ModelFileError("the support is invalid")


def check_residual(residual: Any) -> None:
    """Check that the tables of a residual distribution are those that its density and its tails have."""
    given = residual.knots, residual.density, residual.tail_mass, residual.tail_index
    try:
        again = vars(ResidualDistribution(*given))
    except ValueError:
        raise ModelFileError("a residual distribution is invalid") from None
    # computed again from rounded ones; squares of tiny tails are far below the others
    if not all(np.allclose(again[name], value, rtol=1e-6, atol=1e-9) for name, value in vars(residual).items()):
        raise ModelFileError("a residual distribution is invalid")


def check_calibration(calibration: Any) -> None:
    """Check that every region has a group, and that scores are sorted and have their weights."""
    scores, weights = calibration.scores, calibration.weights
    is_valid = (
        len(scores) >= 1
        and (calibration.group_of_leaf < len(scores)).all()
        and all((np.diff(values) >= 0).all() for values in scores)
        and (weights is None or [len(weight) for weight in weights] == [len(values) for values in scores])
    )
    if not is_valid:
        raise ModelFileError("the calibration is invalid")


def check_fits_tree(attributes: Mapping[str, Any], n_leaves: int, n_columns: int) -> None:
    """Check that support and calibration of a model have the regions and the columns of its tree."""
    support, calibration = attributes.get("support_"), attributes.get("calibration_")
    is_valid = (support is None or support.low.shape == (n_leaves + 1, n_columns)) and (
        calibration is None or len(calibration.group_of_leaf) == n_leaves * (1 + calibration.has_familiar)
    )
    if not is_valid:
        raise ModelFileError("the support or the calibration does not fit to the tree")
