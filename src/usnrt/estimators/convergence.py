"""One warning per fit about trainings whose loss became NaN or infinite."""

import warnings
from collections.abc import Mapping

from sklearn.exceptions import ConvergenceWarning

from usnrt.nn.train import History
from usnrt.utils.notices import users_level


def warn_if_diverged(model: object, history: Mapping[str, Mapping[str, History]], learning_rate: float) -> None:
    """One warning per fit if some of its trainings ended in NaN or infinity.

    Histories are by the name of the part of the model (a node, a member) and by the name of the training.

    Examples
    --------
    >>> from usnrt import USNRTRegressor
    >>> history = {"node 0": {"mean": History(diverged=True), "quantiles": History()}}
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_diverged(USNRTRegressor(), history, learning_rate=9.0)
    >>> str(caught[0].message)[:86]
    'USNRTRegressor: the loss became NaN or infinite in 1 of 2 trainings (node 0 mean); the'
    """
    trainings = [
        (name if name == part else f"{part} {name}", training)
        for part, histories in history.items()
        for name, training in histories.items()
    ]
    diverged = [name for name, training in trainings if training.diverged]
    if not diverged:
        return
    more = f" and {len(diverged) - 3} more" if len(diverged) > 3 else ""
    warnings.warn(
        f"{type(model).__name__}: the loss became NaN or infinite in {len(diverged)} of {len(trainings)} trainings "
        f"({', '.join(diverged[:3])}{more}); the last good weights were kept. "
        f"Use a lower learning_rate, got {learning_rate}",
        ConvergenceWarning,
        stacklevel=users_level(),
    )
