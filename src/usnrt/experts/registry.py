"""All experts, in the order of their weights."""

from usnrt.experts.base import FURTHER_EXPERTS
from usnrt.experts.builtin import TOGETHER
from usnrt.experts.forest import ForestExpert

# Those that hold targets of training rows: a model with `memory=False` has none of them.
REMEMBERING = ("memory", ForestExpert.name)


def expert_names() -> list[str]:
    """The names of all experts, in the order of their weights.

    Examples
    --------
    >>> from usnrt.experts.registry import expert_names
    >>> expert_names()[:5]
    ['network', 'guided network', 'memory', 'forest', 'linear']
    """
    return [kind.name for kind in (*TOGETHER, *FURTHER_EXPERTS)]


def selectable_names() -> list[str]:
    """The names by which experts are chosen; the guided network belongs to the memory.

    Examples
    --------
    >>> from usnrt.experts.registry import selectable_names
    >>> selectable_names()[:4]
    ['network', 'memory', 'forest', 'linear']
    """
    return [name for name in expert_names() if name != "guided network"]
