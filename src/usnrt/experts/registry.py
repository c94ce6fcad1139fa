"""All experts, in the order of their weights."""

from usnrt.experts.base import FittedExpert
from usnrt.experts.builtin import TOGETHER

# Experts that are fitted by themselves, beside those that are trained together. One line each.
FURTHER_EXPERTS: list[type[FittedExpert]] = []


def expert_names() -> list[str]:
    """The names of all experts, in the order of their weights.

    Examples
    --------
    >>> from usnrt.experts.registry import expert_names
    >>> expert_names()[:3]
    ['network', 'guided network', 'memory']
    """
    return [kind.name for kind in (*TOGETHER, *FURTHER_EXPERTS)]
