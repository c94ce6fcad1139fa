"""Settings of the workers of a test cluster, which do not see what tests set in their own process."""

import functools
import importlib
import os
import signal
from dataclasses import replace
from pathlib import Path

from distributed import WorkerPlugin
from tree_recipes import change_recipe

from usnrt.tree.recipe import Streaming

SAMPLE_ROWS = 300
SMALL = Streaming(piece_rows=32, window_pieces=4, batch_size=32, least_rows=2560, most_rows=2560)


def set_sizes(set_attribute=setattr):
    """Small samples and windows; ``set_attribute`` may be that of monkeypatch."""
    streamed = importlib.import_module("usnrt.tree.streamed")
    set_attribute(streamed, "SAMPLE_ROWS", SAMPLE_ROWS)
    change_recipe(lambda recipe: replace(recipe, streaming=SMALL), set_attribute)


class SmallWorkers(WorkerPlugin):
    """Sets the sizes on every worker, also on those that are started later."""

    name = "small"

    def setup(self, worker):
        set_sizes()


class KillOnce(WorkerPlugin):
    """Kills the first worker that calls a function of the library, once per file that it leaves.

    Parameters
    ----------
    place : str
        ``module:function`` or ``module:Class.method``.
    n_calls : int
        The worker is killed at its call of this number.
    marker : str
        A file that is made when a worker is killed.
    """

    name = "kill"

    def __init__(self, place, marker, n_calls=1):
        self.place, self.marker, self.n_calls = place, marker, n_calls

    def setup(self, worker):
        module, _, path = self.place.partition(":")
        owner = importlib.import_module(module)
        *classes, name = path.split(".")
        for part in classes:
            owner = getattr(owner, part)
        self._owner, self._attribute, self._original = owner, name, getattr(owner, name)
        setattr(owner, name, self._deadly(self._original))

    def teardown(self, worker):
        setattr(self._owner, self._attribute, self._original)

    def _deadly(self, function):
        calls = []

        @functools.wraps(function)
        def call(*arguments, **options):
            calls.append(None)
            if len(calls) >= self.n_calls and not Path(self.marker).exists():
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call
