"""How long networks are trained, at the root and below."""

from dataclasses import dataclass, replace

import numpy as np

from usnrt.nn.train import Training


@dataclass(frozen=True)
class Schedule:
    """Steps of training at the root and below; the number of epochs follows from the number of rows.

    Attributes
    ----------
    mean, variance : Training
        Of the mean networks and of the others, at the root.
    mean_steps, quantile_steps, variance_steps : int
        Steps at the root of the mean network, and of the one or the other kind of second network.
    max_rounds : int
        How often a training at the root may be repeated from where it came to.
    min_relative_gain : float
        Share of the loss of held-out rows that a round must gain for another.
    child_rate : float
        Share of the root's step size that fine-tuning takes.
    child_steps : int
        Steps of fine-tuning a child's network.
    tune_steps, leaf_tune_steps : int
        Steps of tuning a variance network on held-out rows, at the root and in a leaf.
    min_epochs, max_epochs : int
        Bounds on the number of epochs.
    """

    mean: Training
    variance: Training
    mean_steps: int = 5000
    quantile_steps: int = 5000
    variance_steps: int = 1500
    max_rounds: int = 4
    min_relative_gain: float = 0.03
    child_rate: float = 0.5
    child_steps: int = 1000
    tune_steps: int = 1000
    leaf_tune_steps: int = 200
    min_epochs: int = 10
    max_epochs: int = 300

    def fitted(self, how: Training, n_steps: int, n_rows: int, **changes: float) -> Training:
        """The training with as many epochs as make so many steps, within the bounds."""
        batch_size = int(changes.get("batch_size", how.batch_size))
        epochs = round(n_steps * batch_size / max(n_rows, 1))
        bounded = int(np.clip(epochs, min(self.min_epochs, self.max_epochs), self.max_epochs))
        return replace(how, max_epochs=bounded, patience=bounded, **changes)  # type: ignore[arg-type]
