"""RealMLP and TabM (the package pytabkit) with this library's interface, each trained on many pinball losses at once.

pytabkit needs PyTorch, which is no dependency of usnrt. Their records are made in an environment of its own::

    python -m venv torchenv
    torchenv/bin/pip install torch==2.13.0 'pytabkit==1.7.3' -e '.[cli,data]'
    torchenv/bin/pip install --no-deps -e experiments
    torchenv/bin/python -m usnrt_experiments run -r realmlp -d electrical --seed 42
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from usnrt.comparison.peers.base import LEVELS, TINY, import_optional
from usnrt.comparison.quantiles import InterpolatedQuantiles, check_levels, separated
from usnrt.distributions import Distribution, Normal
from usnrt.estimators.base import DistributionalRegressor
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import DistinctRows
from usnrt.utils.constraints import check_number, check_running, check_whole
from usnrt.utils.shared_docs import EVERY_MODEL, SharedDocs
from usnrt_experiments.peers.conformal import repeated


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralPeer(SharedDocs, DistributionalRegressor):
    """Base of the adapters to pytabkit."""

    n_epochs: int | None = None
    levels: Sequence[float] = LEVELS
    validation_fraction: float = 0.2
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1

    _MODEL: ClassVar[str] = ""
    _SHARED: ClassVar[str] = (
        """\
levels : sequence of float, default=(0.01, 0.05, 0.1, ..., 0.95, 0.99)
        Levels of the quantiles; 21 by default.
    validation_fraction : float, default=0.2
        Fraction of the rows for the choice of the best epoch. The model is not refitted with them."""
        + EVERY_MODEL
    )

    def _fit(self, rows: DistinctRows) -> None:
        table = self._scaled_table(rows)
        if self.n_epochs is not None:
            check_whole("n_epochs", self.n_epochs, 1)
        check_levels(self.levels)
        check_number("validation_fraction", self.validation_fraction, 0, 1)
        check_running(self.n_jobs, 0, None)
        pytabkit = import_optional("pytabkit", self, "torch pytabkit")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        train, valid = draw_validation(np.arange(table.n_rows), self.validation_fraction, np.random.default_rng(seed))
        self.constant_ = float(table.y[train][0]) if np.ptp(table.y[train]) == 0 else None
        if self.constant_ is not None:
            return
        loss = f"multi_pinball({','.join(str(float(level)) for level in self.levels)})"
        given = {} if self.n_epochs is None else {"n_epochs": self.n_epochs}
        self.model_ = getattr(pytabkit, self._MODEL)(
            random_state=seed,
            device="cpu",
            n_threads=effective_n_jobs(self.n_jobs),
            train_metric_name=loss,
            val_metric_name=loss,
            **given,
        )
        is_category = self.encoder_.n_categories_ > 0
        self.fill_ = np.nan_to_num(np.nanmedian(np.where(is_category, 0.0, table.raw), axis=0))
        train, valid = repeated(train, table), repeated(valid if len(valid) else train, table)
        self.model_.fit(
            self._frame(table.raw[train]), table.y[train], self._frame(table.raw[valid]), table.y[valid],
            cat_indicator=is_category.tolist(),
        )  # fmt: skip

    def _frame(self, raw: NDArray[np.float64]) -> Any:
        """A frame of numbers, without missing values, and of categories."""
        import pandas as pd

        is_category = self.encoder_.n_categories_ > 0
        columns = {}
        for i in range(raw.shape[1]):
            missing = np.isnan(raw[:, i])
            if is_category[i]:
                columns[f"x{i}"] = pd.Series(np.where(missing, -2, raw[:, i]).astype(int).astype(str))
            else:
                columns[f"x{i}"] = pd.Series(np.where(missing, self.fill_[i], raw[:, i]))
        return pd.DataFrame(columns)

    def _distribution(self, raw: NDArray[np.float64]) -> Distribution:
        if self.constant_ is not None:
            return Normal(np.full(len(raw), self.constant_), TINY)
        values = np.asarray(self.model_.predict(self._frame(raw)), dtype=np.float64)
        return InterpolatedQuantiles(self.levels, separated(values, TINY))


@dataclass(kw_only=True, eq=False, repr=False)
class RealMLPRegressor(NeuralPeer):
    """RealMLP-TD (Holzmüller, Grinsztajn and Steinwart, 2024) on the mean of 21 pinball losses.

    Settings: all of ``RealMLP_TD_REG`` in pytabkit, the authors' package: 256 epochs, hidden layers (256, 256, 256),
    learning rate 0.2 along ``coslog4``, dropout 0.15, periodic embeddings; the best epoch by the same loss on the
    validation rows. The authors describe ``multi_pinball`` for quantile regression in the documentation of pytabkit.

    Parameters
    ----------
    n_epochs : int or None, default=None
        None for the library's default.
    {shared}

    Attributes
    ----------
    model_ : pytabkit.RealMLP_TD_Regressor

    Examples
    --------
    >>> from usnrt_experiments.peers import RealMLPRegressor
    >>> RealMLPRegressor(n_epochs=10).n_epochs
    10
    """

    _MODEL = "RealMLP_TD_Regressor"


@dataclass(kw_only=True, eq=False, repr=False)
class TabMRegressor(NeuralPeer):
    """TabM (Gorishniy, Kotelnikov and Babenko, 2025) on the mean of 21 pinball losses.

    Settings: all of ``TABM_D_REG`` in pytabkit, which are those of the example in the authors' repository: 32 members,
    3 blocks of 512 units, batches of 256 rows, learning rate 0.002, patience of 16 epochs.

    Parameters
    ----------
    n_epochs : int or None, default=None
        Maximum number of epochs; None for no limit.
    {shared}

    Attributes
    ----------
    model_ : pytabkit.TabM_D_Regressor

    Examples
    --------
    >>> from usnrt_experiments.peers import TabMRegressor
    >>> TabMRegressor(n_epochs=10).n_epochs
    10
    """

    _MODEL = "TabM_D_Regressor"
