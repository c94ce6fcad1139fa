"""Base of the adapters: parameters, validation rows, and the error for a missing library."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from usnrt.distributions import Distribution, Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import DistinctRows, TrainingTable
from usnrt.utils.constraints import check_number, check_running, check_whole
from usnrt.utils.shared_docs import EVERY_MODEL, SharedDocs

# In units of the scaled target: minimum distance of quantiles and minimum standard deviation.
TINY = 1e-6
# Levels at which quantiles are predicted.
LEVELS = (0.01, *(i / 20 for i in range(1, 20)), 0.99)

_SHARED_PARAMETERS = (
    """\
validation_fraction : float, default=0.2
        Fraction of the rows for early stopping. The model is not refitted with them.
    early_stopping_rounds : int or None, default={model.early_stopping_rounds}
        Rounds without a better validation loss after which boosting stops. None: all rounds, trained on all rows."""
    + EVERY_MODEL
    + """
    verbose : int, default=0
        1 shows the library's own progress."""
)


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingPeer(SharedDocs, DistributionalRegressor):
    """Base of the adapters to boosting libraries."""

    n_estimators: int = 2000
    learning_rate: float = 0.05
    validation_fraction: float = 0.2
    early_stopping_rounds: int | None = 50
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1
    verbose: int = 0

    _SHARED: ClassVar[str] = _SHARED_PARAMETERS

    # -- hooks --------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Check the adapter's own parameters."""

    def _boost(self, table: TrainingTable, train: NDArray[np.intp], valid: NDArray[np.intp], seed: int) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _boost")

    def _predict_scaled(self, raw: NDArray[np.float64]) -> Distribution:
        raise NotImplementedError(f"{type(self).__name__} must define _predict_scaled")

    # -- shared ----------------------------------------------------------------------------------------------------

    def _fit(self, rows: DistinctRows) -> None:
        table = self._scaled_table(rows)
        check_whole("n_estimators", self.n_estimators, 1)
        check_number("learning_rate", self.learning_rate, 0, np.inf)
        check_number("validation_fraction", self.validation_fraction, 0, 1)
        if self.early_stopping_rounds is not None:
            check_whole("early_stopping_rounds", self.early_stopping_rounds, 1)
        check_running(self.n_jobs, self.verbose, None)
        self._check()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        train, valid = np.arange(table.n_rows), np.arange(0)
        if self.early_stopping_rounds is not None:
            train, valid = draw_validation(train, self.validation_fraction, np.random.default_rng(seed))
        # The libraries fail on a constant target, whose spread has no logarithm.
        self.constant_ = float(table.y[train][0]) if np.ptp(table.y[train]) == 0 else None
        if self.constant_ is None:
            self._boost(table, train, valid if len(valid) else train, seed)

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        if self.constant_ is not None:
            return Normal(np.full(len(raw), self.constant_), TINY)
        return self._predict_scaled(raw)


def import_optional(module: str, model: object, install: str = "'usnrt[compare]'") -> Any:
    """Import an optional library; the error of a missing one names what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.replace("_", "-")
        raise ImportError(f"{type(model).__name__} needs {package}: pip install {install}") from error
