"""Computations that go on where they were interrupted."""

from types import TracebackType
from typing import Any, Self

import numpy as np

from usnrt.utils.checkpoint import Checkpoint
from usnrt.utils.codec import PLAIN, Codec


class Resumable:
    """A computation in rounds, such as a training, whose state and result are entries of a checkpoint.

    The position of the random generator, from which all its random numbers come, is stored with them, and restored when
    the object is made. ``state`` is None at the beginning, ``result`` before `finish`. As a context manager it saves
    the last state if the computation is interrupted.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from usnrt.utils.checkpoint import FolderCheckpoint
    >>> checkpoint = FolderCheckpoint(Path(tempfile.mkdtemp()))
    >>> def throws(interrupted_at=None):
    ...     with Resumable(checkpoint, "throws", np.random.default_rng(0)) as entry:
    ...         numbers = [] if entry.state is None else entry.state["numbers"]
    ...         while len(numbers) < 4:
    ...             if len(numbers) == interrupted_at:
    ...                 raise KeyboardInterrupt
    ...             numbers = [*numbers, int(entry.rng.integers(6)) + 1]
    ...             entry.keep({"numbers": numbers})
    ...         entry.finish(numbers)
    ...     return numbers
    >>> try:
    ...     throws(interrupted_at=2)
    ... except KeyboardInterrupt:
    ...     checkpoint.load("throws")["value"], throws()
    ({'numbers': [6, 4]}, [6, 4, 4, 2])
    """

    def __init__(self, checkpoint: Checkpoint, key: str, rng: np.random.Generator, codec: Codec = PLAIN) -> None:
        self.rng = rng
        self.state: dict[str, Any] | None = None
        self.result: Any = None
        self._checkpoint, self._key, self._codec = checkpoint, key, codec
        self._unsaved: tuple[Any, Any] | None = None
        saved = checkpoint.load(key, codec)
        if saved is not None:
            self.rng.bit_generator.state = saved["rng"]
            setattr(self, "result" if saved["is_result"] else "state", saved["value"])

    @property
    def is_active(self) -> bool:
        """Whether anything is stored."""
        return self._checkpoint.is_active

    def keep(self, state: dict[str, Any]) -> None:
        """Set the state after a round, from which the computation can go on; it is saved every few minutes.

        Nothing in it may be changed afterwards.
        """
        if not self.is_active:
            return
        self._unsaved = state, self.rng.bit_generator.state
        if self._checkpoint.is_due(self._key):
            self._save_state()

    def finish(self, result: Any) -> None:
        """Set the result, and save it in place of the state."""
        self.result, self._unsaved = result, None
        if self.is_active:
            self._save(result, self.rng.bit_generator.state, is_result=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._save_state()

    def _save_state(self) -> None:
        if self._unsaved is not None:
            (state, position), self._unsaved = self._unsaved, None
            self._save(state, position, is_result=False)

    def _save(self, value: Any, position: Any, is_result: bool) -> None:
        self._checkpoint.save(self._key, {"value": value, "rng": position, "is_result": is_result}, self._codec)
