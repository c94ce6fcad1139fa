"""Explanations in words: why a row lacks support, and what would narrow its interval, as far as it is measured."""

from typing import NamedTuple

import numpy as np

from usnrt.estimators.tree_regressor import TreeRegressor
from usnrt.tree.rules import number_text
from usnrt.utils.types import Floats

# Share of the variance from which the uncertainty of the mean is called a reason.
MUCH_DISAGREEMENT = 0.25
# Standard deviations below the average log density of training rows from which similar rows are called few.
SPARSE = -1.5
# Factor on the standard deviation from which the widening for lack of support is mentioned.
WIDENED = 1.01


class Evidence(NamedTuple):
    """What is measured about the uncertainty of a row.

    Attributes
    ----------
    epistemic : float
        Share of the variance that is uncertainty of the mean or lack of support; NaN for a single tree.
    widening : float
        Factor on the standard deviation for lack of support.
    density : float
        Log density of similar training rows, standardised by that of training rows; NaN without a memory.
    spread : float
        Standard deviation of the targets of similar training rows; NaN without a memory.
    """

    epistemic: float
    widening: float
    density: float
    spread: float


def support_reasons(model: TreeRegressor, raw: Floats) -> list[list[str]]:
    """Why rows do not resemble the training rows, empty for those that do.

    Parameters
    ----------
    model : TreeRegressor
    raw : ndarray of shape (n, d)

    Returns
    -------
    list of list of str
    """
    support, found = model.model_.support, model.model_.measured_support(raw)
    low, high = support.low[found.region], support.high[found.region]
    reasons: list[list[str]] = []
    for i in range(len(raw)):
        own = []
        for j in np.flatnonzero((raw[i] < low[i]) | (raw[i] > high[i])):
            name, value = model.columns_[j].name, raw[i, j]
            side, bound = ("below", low[i, j]) if value < low[i, j] else ("above", high[i, j])
            own.append(f"{name} = {number_text(value, 3)} is {side} {number_text(bound, 3)}, the limit of its region")
        if found.unseen[i]:
            unseen = np.flatnonzero(support.categorical & (raw[i] == -1))
            own += [f"{model.columns_[j].name} is a category that training did not have" for j in unseen]
        if found.missing[i]:
            missing = np.flatnonzero(support.never_missing & np.isnan(raw[i]))
            own += [f"{model.columns_[j].name} is missing, which it never was in training" for j in missing]
        if found.far[i]:
            own.append("the combination of its numbers is far from all training rows")
        if found.unlike[i]:
            assert support.subjects is not None
            names = ", ".join(model.columns_[j].name for j in support.subjects.columns[:5])
            own.append(f"its subject is unlike all training subjects in {names}")
        reasons.append(own)
    return reasons


def advice(evidence: Evidence, unsupported: list[str]) -> list[str]:
    """What would narrow the interval of a row, in sentences.

    Parameters
    ----------
    evidence : Evidence
    unsupported : list of str
        From `support_reasons`.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from usnrt.explain.words import Evidence, advice
    >>> nan = float("nan")
    >>> advice(Evidence(0.4, 1.0, 0.2, 2.0), [])
    ['More rows like this one: members disagree; uncertainty of the mean is 40 % of the variance.']
    >>> advice(Evidence(nan, 1.0, nan, nan), [])
    ['Not measured: a single tree without memory does not separate noise from lack of data. An ensemble would.']
    """
    sentences = []
    if unsupported:
        factor = f", which makes the standard deviation {evidence.widening:.3g} times larger"
        sentences.append(
            f"More rows like this one: it does not resemble the training rows ({'; '.join(unsupported)})"
            f"{factor if evidence.widening > WIDENED else ''}."
        )
    # The epistemic part includes the widening, which is mentioned above.
    if evidence.epistemic >= MUCH_DISAGREEMENT and not unsupported:
        sentences.append(
            "More rows like this one: members disagree; uncertainty of the mean is "
            f"{100 * evidence.epistemic:.0f} % of the variance."
        )
    if evidence.density <= SPARSE:
        sentences.append(
            "More rows like this one: similar training rows are fewer or less similar than usual (log density "
            f"{-evidence.density:.1f} standard deviations below that of training rows)."
        )
    return sentences or [_noise_sentence(evidence)]


def _noise_sentence(evidence: Evidence) -> str:
    known = []
    if not np.isnan(evidence.epistemic):
        known.append(f"uncertainty of the mean is only {100 * evidence.epistemic:.0f} % of the variance")
    if not np.isnan(evidence.density):
        known.append("similar training rows are as many and as close as usual")
    if not known:
        return (
            "Not measured: a single tree without memory does not separate noise from lack of data. An ensemble would."
        )
    spread = ""
    if not np.isnan(evidence.spread):
        spread = f" The targets of similar training rows have a standard deviation of {evidence.spread:.3g}."
    return (
        f"Probably noise that stays with these columns: {' and '.join(known)}.{spread} More rows would help little; "
        "further columns may."
    )
