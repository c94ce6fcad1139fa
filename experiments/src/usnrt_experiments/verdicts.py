"""A claim of the paper and its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from usnrt.paper.datasets import get_spec

CONFIRMED, IN_PART, NOT_CONFIRMED, UNKNOWN = "confirmed", "confirmed in part", "not confirmed", "cannot be judged"

# A claim about all data sets is not judged by fewer.
MIN_SETS = 4


@dataclass(frozen=True)
class Claim:
    """What the paper claims, what the records say, and whether that confirms it."""

    title: str
    paper: str
    here: str
    verdict: str


def of_sets(n_some: int, n_all: int) -> str:
    """How many of some data sets.

    Examples
    --------
    >>> from usnrt_experiments.verdicts import of_sets
    >>> of_sets(3, 10), of_sets(0, 1)
    ('3 of 10 data sets', '0 of 1 data set')
    """
    return f"{n_some} of {counted(n_all)}"


def counted(n_sets: int) -> str:
    """A number of data sets.

    Examples
    --------
    >>> from usnrt_experiments.verdicts import counted
    >>> counted(3), counted(1)
    ('3 data sets', '1 data set')
    """
    return f"{n_sets} data set{'' if n_sets == 1 else 's'}"


def listed(datasets: Sequence[str]) -> str:
    """Titles of data sets.

    Examples
    --------
    >>> from usnrt_experiments.verdicts import listed
    >>> listed(["realtime", "gpu"]), listed([])
    ('Real-time, GPU', 'none')
    """
    return ", ".join(get_spec(name).title for name in datasets) or "none"


def by_exceptions(n_exceptions: int, n_sets: int) -> str:
    """The verdict on a claim about all data sets: in part if most of them agree.

    Examples
    --------
    >>> from usnrt_experiments.verdicts import by_exceptions
    >>> by_exceptions(0, 10), by_exceptions(4, 10), by_exceptions(5, 10), by_exceptions(0, 1)
    ('confirmed', 'confirmed in part', 'not confirmed', 'cannot be judged')
    """
    if n_sets < MIN_SETS:
        return UNKNOWN
    return CONFIRMED if not n_exceptions else IN_PART if n_exceptions < n_sets / 2 else NOT_CONFIRMED
