"""Parameters, splits and training that the baselines share, and the spread of models without one.

The models are dataclasses: scikit-learn reads parameters from the signature of ``__init__``, which a dataclass
generates from its fields, so that a parameter that all models share is declared only once.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.utils import check_random_state

from usnrt.distributions import Distribution
from usnrt.estimators.base import DistributionalRegressor
from usnrt.estimators.convergence import warn_if_diverged
from usnrt.nn.device import MARGIN, DeviceTable
from usnrt.nn.encoding import PiecewiseLinear
from usnrt.nn.forward import predict
from usnrt.nn.jax_epochs import JaxEpochs
from usnrt.nn.mlp import MLP, Params, hidden_sizes
from usnrt.nn.train import History, Training, train
from usnrt.tables.groups import draw_groups
from usnrt.tables.rows import draw_validation
from usnrt.tables.training import DistinctRows, TrainingTable
from usnrt.tree.recipe import PAPER_VALIDATIONS, batch_size_for
from usnrt.utils.constraints import (
    CALLABLES,
    CATEGORICAL_FEATURES,
    FLAG,
    HIDDEN_LAYERS,
    JOBS,
    RANDOM_STATE,
    VERBOSITY,
    Choice,
    Constraint,
    Either,
    Number,
    Optional,
    Whole,
    check_applies,
)
from usnrt.utils.progress import Progress
from usnrt.utils.shared_docs import EVERY_MODEL, SharedDocs
from usnrt.utils.threads import run_in_threads
from usnrt.utils.types import Floats, Rows

# Fewer validation rows than this estimate the factor too poorly to use it.
MIN_ROWS_TO_CALIBRATE = 30


def max_likelihood_spread(dist: Distribution, y: Floats, weight: Floats) -> float:
    """The maximum-likelihood factor to scale all distributions about their means by, in [1/20, 20].

    It is 1 if the likelihood is not finite.
    """
    # Scaled by c about the mean m, the density at y is the original one at m + (y - m) / c, divided by c.
    mean = dist.mean()
    residual = y - mean

    def nll(log_factor: float) -> float:
        values = dist.logpdf(mean + residual / np.exp(log_factor)) - log_factor
        return -float(np.average(values, weights=weight))

    best = minimize_scalar(nll, bounds=(-np.log(20.0), np.log(20.0)), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x)) if np.isfinite(best.fun) else 1.0


def stretched(dist: Distribution, factor: float) -> Distribution:
    """Distributions scaled by a factor about their means."""
    return dist if factor == 1.0 else dist.scaled(dist.mean() * (1.0 - factor), factor)


# Training parameters of the paper, the same for all networks.
PAPER_TRAINING: dict[str, Any] = {
    "learning_rate": 0.01,
    "batch_size": 64,
    "max_epochs": 1000,
    "patience": None,
    "schedule": "constant",
    "weight_decay": 0.0,
    "encoding": None,
    "validation_fraction": 0.2,
    "calibrate": False,
}

_SHARED_PARAMETERS = (
    """\
learning_rate : float, default={model.learning_rate}
        Step size of Adam; the initial one if the schedule lowers it.
    batch_size : int or "auto", default="auto"
        ``"auto"`` is 32 to 256, increasing with the number of rows.
    max_epochs : int, default={model.max_epochs}
    patience : int, default={model.patience}
        Number of epochs without a lower validation loss after which training stops; None for the rule of the paper's
        code, which validates several times per epoch.
    schedule : {{"constant", "cosine"}}, default="{model.schedule}"
        Whether the step size is constant or falls to 0 over ``max_epochs``.
    weight_decay : float, default={model.weight_decay}
        Decoupled weight decay (AdamW): every step subtracts this share of each weight, times the step size.
    encoding : {{"piecewise", None}}, default="piecewise"
        Whether networks also receive every number as its position in quantile bins, or the scaled number only.
    n_bins : int, default={model.n_bins}
        Number of bins of the encoding.
    validation_fraction : float, default={model.validation_fraction}
        Share of the rows for validation: for early stopping and for ``calibrate``.
    calibrate : bool, default=True
        Whether to scale all distributions about their means by one factor, which maximises the likelihood of the
        validation rows."""
    + EVERY_MODEL
    + """
    verbose : int, default=0
        1 shows a progress bar, 2 adds details to a log.
    callbacks : list of callables, default=None
        Each is called with a `usnrt.utils.progress.FitEvent` after every epoch."""
)

# Constraints of the parameters that all network models share.
NETWORK_CONSTRAINTS: Mapping[str, Constraint] = {
    "hidden": HIDDEN_LAYERS,
    "learning_rate": Number(0, np.inf),
    "batch_size": Either(Whole(1, MARGIN), "auto"),
    "max_epochs": Whole(1),
    "patience": Optional(Whole(1)),
    "schedule": Choice(("constant", "cosine")),
    "weight_decay": Number(0, np.inf, include_low=True),
    "encoding": Optional(Choice(("piecewise",))),
    "n_bins": Whole(1),
    "validation_fraction": Number(0, 1),
    "calibrate": FLAG,
    "categorical_features": CATEGORICAL_FEATURES,
    "random_state": RANDOM_STATE,
    "n_jobs": JOBS,
    "verbose": VERBOSITY,
    "callbacks": CALLABLES,
}


def validation_split(
    table: TrainingTable, fraction: float, rng: np.random.Generator, calibrates: bool
) -> tuple[Rows, Rows]:
    """Training rows and validation rows; rows with equal features are on one side if validation rows calibrate.

    Otherwise rows are drawn one by one, as the paper's protocol has it.
    """
    if table.group is None or not calibrates:
        return draw_validation(np.arange(table.n_rows), fraction, rng)
    is_drawn = draw_groups(table.group, round(fraction * table.n_rows), table.n_rows, rng)
    return np.flatnonzero(~is_drawn), np.flatnonzero(is_drawn)


class MemberProgress(Progress):
    """Progress of a model of one or several networks, without a tree."""

    def finish(self) -> None:
        if self.verbose:
            self._line(f"fitted in {self.seconds:.1f} s")


@dataclass
class TrainingJob:
    """The training of one member: its rows and everything else that training needs."""

    table: TrainingTable
    inputs: DeviceTable  # the network inputs on the device
    train_rows: Rows
    valid_rows: Rows
    training: Training
    rng: np.random.Generator
    # ``report(name)`` returns the ``on_epoch`` callback of the training of that name
    report: Callable[[str], Callable[[int, float, float], None]]
    history: dict[str, History] = field(default_factory=dict)  # by the name of the training

    def train(self, network: Any, loss: Any, penalty: Any = None, name: str = "network") -> Params:
        """Train a network from newly initialised weights."""
        parts = self.train_rows, self.valid_rows
        epochs = JaxEpochs(network, loss, self.inputs, self.table.y, self.table.weight, parts, self.training, penalty)
        params, self.history[name] = train(epochs, network.init(self.rng), self.rng, self.report(name))
        return params


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkRegressor(SharedDocs, DistributionalRegressor):
    """Base of the network models: a subclass defines ``_train(job)`` and ``_distribution_of_inputs(inputs)``.

    Parameters
    ----------
    {shared}
    """

    hidden: Sequence[int | str] = (128, 64)
    learning_rate: float = 0.003
    batch_size: int | str = "auto"
    max_epochs: int = 100
    patience: int | None = 20
    schedule: str = "cosine"
    weight_decay: float = 0.1
    encoding: str | None = "piecewise"
    n_bins: int = 16
    validation_fraction: float = 0.2
    calibrate: bool = True
    categorical_features: Any = None
    random_state: Any = None
    n_jobs: int | None = -1
    verbose: int = 0
    callbacks: Any = None

    _SHARED: ClassVar[str] = _SHARED_PARAMETERS
    _CONSTRAINTS: ClassVar[Mapping[str, Constraint]] = NETWORK_CONSTRAINTS
    # Parameters of the paper's recipe in addition to PAPER_TRAINING.
    _PAPER: ClassVar[dict[str, Any]] = {}

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The recipe of the USNRT paper; ``changes`` override its parameters."""
        return cls(**{**PAPER_TRAINING, **cls._PAPER, **changes})

    # -- hooks --------------------------------------------------------------------------------------------------

    def _train(self, job: TrainingJob) -> Any:
        """Train one member and return its weights; members may be trained in several threads."""
        raise NotImplementedError(f"{type(self).__name__} must define _train")

    def _distribution_of_inputs(self, inputs: NDArray[np.float32]) -> Distribution:
        """Distributions of the scaled target for network inputs, before calibration."""
        raise NotImplementedError(f"{type(self).__name__} must define _distribution_of_inputs")

    def _set_networks(self, table: TrainingTable) -> None:
        """Set the architectures of the networks."""

    # -- fitting ------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_applies(self, "n_bins", encoding="piecewise")

    def _fit(self, rows: DistinctRows) -> None:
        table = self._scaled_table(rows)
        training = self._training(float(table.weight.sum()))
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        names = self._members()
        # Members share their validation rows if these calibrate the model; otherwise each draws its own.
        splits = [
            validation_split(table, self.validation_fraction, self._rng(0, 0 if self.calibrate else i), self.calibrate)
            for i in range(len(names))
        ]
        self.encoding_ = None
        if self.encoding is not None:
            self.encoding_ = PiecewiseLinear.fit(table.inputs[splits[0][0]], self.inputs_.numeric_, self.n_bins)
        self._set_networks(table)
        progress = MemberProgress(self.verbose, self.callbacks, table.n_rows * len(names))
        inputs = DeviceTable(table.inputs, self.encoding_)
        jobs = [
            TrainingJob(
                table,
                inputs,
                *parts,
                training,
                self._rng(1, i),
                functools.partial(progress.reporter, name, table.n_rows),
            )
            for i, (name, parts) in enumerate(zip(names, splits))
        ]

        def train_member(index: int) -> tuple[int, Any]:
            params = self._train(jobs[index])
            progress.node_done(names[index], table.n_rows, "trained", is_leaf=True)
            return index, params

        n_threads = min(effective_n_jobs(self.n_jobs), len(names))
        params = dict(run_in_threads(train_member, range(len(names)), n_threads, progress))
        self._store_params([params[index] for index in range(len(names))])
        progress.finish()
        self.history_ = {name: job.history for name, job in zip(names, jobs)}
        self._finish(table, splits[0][1])
        warn_if_diverged(self, self.history_, self.learning_rate)

    def _members(self) -> list[str]:
        """Names of the members, which are trained independently."""
        return ["network"]

    def _store_params(self, params: list[Any]) -> None:
        """Set ``params_`` from the weights of all members."""
        self.params_ = params[0]

    def _finish(self, table: TrainingTable, validation_rows: Rows) -> None:
        """Calibrate on the validation rows."""
        self.spread_ = 1.0
        if self.calibrate and len(validation_rows) >= MIN_ROWS_TO_CALIBRATE:
            dist = self._distribution_of_inputs(table.inputs[validation_rows])
            self.spread_ = max_likelihood_spread(dist, table.y[validation_rows], table.weight[validation_rows])

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed_, spawn_key=purpose))

    def _training(self, n_rows: float) -> Training:
        auto = batch_size_for((1.0 - self.validation_fraction) * n_rows)
        return Training(
            learning_rate=self.learning_rate,
            batch_size=auto if isinstance(self.batch_size, str) else self.batch_size,
            max_epochs=self.max_epochs,
            schedule=self.schedule,
            patience=self.patience,
            validations=PAPER_VALIDATIONS if self.patience is None else 1,
            weight_decay=self.weight_decay,
        )

    def _sizes(self, table: TrainingTable, n_outputs: int) -> tuple[int, ...]:
        """Sizes of all layers of a network, with ``"8d"`` as eight times the number of features."""
        n_inputs = table.inputs.shape[1] if self.encoding_ is None else self.encoding_.n_outputs
        return (n_inputs, *hidden_sizes(self.hidden, table.raw.shape[1]), n_outputs)

    # -- predictions ------------------------------------------------------------------------------------------------

    def _outputs(self, network: MLP, params: Params, inputs: NDArray[np.float32]) -> Floats:
        """Outputs of one of the networks."""
        n_threads = effective_n_jobs(self.n_jobs)
        return predict(network, params, inputs, n_threads=n_threads, encoding=self.encoding_)

    def _distribution(self, raw: Floats) -> Distribution:
        return stretched(self._distribution_of_inputs(self.inputs_.transform(raw)), self.spread_)
