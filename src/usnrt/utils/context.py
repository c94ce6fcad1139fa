"""What a fit needs besides its recipe and its rows."""

from dataclasses import dataclass, field, replace
from typing import Any

from usnrt.utils.checkpoint import NO_CHECKPOINT, Checkpoint
from usnrt.utils.progress import Progress


@dataclass(frozen=True)
class FitContext:
    """Seed, threads, progress and checkpoint of a fit."""

    seed: Any  # all random numbers follow from it; several numbers seed an ensemble
    n_threads: int = 1  # has no effect on the result
    progress: Progress = field(default_factory=Progress)
    checkpoint: Checkpoint = NO_CHECKPOINT

    def within(self, name: str) -> "FitContext":
        """The same context with entries of its own in the checkpoint."""
        return replace(self, checkpoint=self.checkpoint.within(name))
