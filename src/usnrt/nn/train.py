"""Training: epochs with validation and early stopping, whatever runs them.

The loop over epochs is in Python, where progress, callbacks, early stopping and Ctrl-C are simple; an epoch is a
compiled program (`usnrt.nn.jax_epochs`) or kernel (`usnrt.nn.quantile_training`).
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from usnrt.nn.mlp import Params
from usnrt.nn.stored import CODEC
from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.resumable import Resumable


@dataclass(frozen=True)
class Training:
    """How a network is trained.

    Parameters
    ----------
    learning_rate : float
        Step size of Adam; the initial one if a schedule lowers it.
    batch_size : int
    max_epochs : int
    schedule : {"constant", "cosine"}
        ``cosine`` lowers the step size to 0 over ``max_epochs``.
    patience : int or None
        Stop when the validation loss has had no new minimum for this many epochs. None: the rule of the paper's code,
        which stops once the mean of the last 5 validation losses is above that of the 20 before.
    validations : int or None
        Number of validations per epoch, after each of which the weights are kept if they are the best so far; the
        validation loss of an epoch is the mean. None: after every batch.
    stop_margin : float
        With ``patience=None``: stop once the mean of the last 5 losses is less than this below that of the 20 before.
    weight_decay : float
        Decoupled (AdamW).
    average : float
        Decay per step of an exponential moving average of the weights; 0 for no averaging.
    along_components : bool
        Whether Adam scales the gradient of the first layer along the principal components of the inputs instead of the
        inputs: differences of nearly equal columns are then learnt as quickly as the columns. For up to 512 inputs.
    """

    learning_rate: float = 0.01
    batch_size: int = 64
    max_epochs: int = 1000
    schedule: str = "constant"
    patience: int | None = None
    validations: int | None = 1
    stop_margin: float = 0.0
    weight_decay: float = 0.0
    average: float = 0.0
    along_components: bool = False


@dataclass
class History:
    """History of one training: losses per epoch, and the epoch whose weights were kept.

    Attributes
    ----------
    train_loss, valid_loss : list of float
    best_epoch : int
        Counted from 0; -1 if the initial weights were the best.
    initial_loss : float
        Validation loss of the initial weights if these may be kept; otherwise infinite.
    diverged : bool
        Whether the loss became infinite or NaN; the last good weights were kept.
    """

    train_loss: list[float] = field(default_factory=list)
    valid_loss: list[float] = field(default_factory=list)
    best_epoch: int = -1
    diverged: bool = False
    initial_loss: float = np.inf


class Outcome(NamedTuple):
    """What an epoch returns.

    Attributes
    ----------
    state : object
        With which the next epoch begins.
    candidate : object
        The weights of the best validation, in a form that `Epochs.params` understands.
    train_loss, valid_loss, candidate_loss : float
        ``valid_loss`` is the mean over the validations of the epoch, ``candidate_loss`` that of the best one.
    """

    state: Any
    candidate: Any
    train_loss: float
    valid_loss: float
    candidate_loss: float


class Epochs(Protocol):
    """Runs the epochs of a training."""

    training: Training

    def start(self, params: Params) -> Any:
        """The state before the first epoch."""

    def run(self, state: Any, epoch: int, key: int, rng: np.random.Generator) -> Outcome:
        """One epoch and its validations; epoch -1 has no steps: it validates the initial weights."""

    def params(self, candidate: Any) -> Params:
        """Weights as arrays of numpy."""

    def saved(self, state: Any) -> list[Any]:
        """The arrays of a state, for a checkpoint; nothing changes them afterwards."""

    def restored(self, state: Any, saved: list[Any]) -> Any:
        """A state like another one, with the arrays that were saved."""


def train(
    epochs: Epochs,
    params: Params,
    rng: np.random.Generator,
    on_epoch: Callable[[int, float, float], None] | None = None,
    *,
    keep_initial: bool = False,
    checkpoint: Checkpoint = NO_CHECKPOINT,
    stop: Callable[[Params, int], bool] | None = None,
) -> tuple[Params, History]:
    """Train a network and keep the weights with the smallest validation loss.

    Parameters
    ----------
    epochs : Epochs
    params : Params
        Initial weights.
    rng : numpy.random.Generator
        Shuffles the training rows and seeds the network's random numbers.
    on_epoch : callable, default=None
        Called with epoch, training loss and validation loss; may raise to stop.
    keep_initial : bool, default=False
        Whether to keep the initial weights unless training improves on them.
    checkpoint : Checkpoint, default=NO_CHECKPOINT
        Where the state of the training and its result are stored, under the key "training".
    stop : callable, default=None
        ``stop(params, epoch)`` ends the training with the weights after an epoch if it returns True.

    Returns
    -------
    params : Params
    history : History
    """
    with Resumable(checkpoint, "training", rng, CODEC) as entry:
        if entry.result is None:
            entry.finish(_train_epochs(epochs, params, entry, on_epoch, keep_initial, stop))
        result: tuple[Params, History] = entry.result
    return result


def _train_epochs(
    epochs: Epochs,
    params: Params,
    entry: Resumable,
    on_epoch: Callable[[int, float, float], None] | None,
    keep_initial: bool,
    stop: Callable[[Params, int], bool] | None,
) -> tuple[Params, History]:
    """The training itself, from its beginning or from the state of the entry."""
    rng, state = entry.rng, epochs.start(params)
    best, best_loss = params, np.inf
    if entry.state is None:
        key, first, history = int(rng.integers(2**31)), -1 if keep_initial else 0, History()
    else:
        state = epochs.restored(state, entry.state["state"])
        best, best_loss = entry.state["best"], entry.state["best_loss"]
        key, first, history = entry.state["key"], entry.state["epoch"], entry.state["history"]
    for epoch in range(first, epochs.training.max_epochs):
        if history.valid_loss and _should_stop(history, epochs.training):
            break
        state, candidate, train_loss, valid_loss, candidate_loss = epochs.run(state, epoch, key, rng)
        if not (np.isfinite(train_loss) and np.isfinite(valid_loss)):
            history.diverged = True
            break
        if epoch < 0:
            best_loss = history.initial_loss = valid_loss
            continue
        history.train_loss.append(train_loss)
        history.valid_loss.append(valid_loss)
        if candidate_loss < best_loss:
            best, best_loss, history.best_epoch = epochs.params(candidate), candidate_loss, epoch
        if stop is not None and stop(epochs.params(candidate), epoch):
            best, history.best_epoch = epochs.params(candidate), epoch
            break
        if entry.is_active:
            kept = {"state": epochs.saved(state), "best": best, "best_loss": best_loss, "key": key}
            entry.keep({**kept, "epoch": epoch + 1, "history": deepcopy(history)})
        if on_epoch is not None:
            on_epoch(epoch, train_loss, valid_loss)
    return best, history


def _should_stop(history: History, training: Training) -> bool:
    losses = history.valid_loss
    if training.patience is not None:
        return len(losses) - 1 - history.best_epoch >= training.patience
    return len(losses) >= 25 and float(np.mean(losses[-5:])) > float(np.mean(losses[-25:-5])) - training.stop_margin
