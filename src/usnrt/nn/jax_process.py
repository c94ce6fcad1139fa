"""jax in this process: the cache of compiled programs during fits, and forked children, in which jax cannot run."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

from usnrt.utils.folders import cache_folder, is_cache_off


class _DiskCache:
    """Reentrant context manager, for the time of a fit: programs compiled in it are cached on disk for later processes.

    jax has one setting for the whole process, so active contexts are counted; the last exit restores the user's
    settings. jax is not imported before `use`, since not every fit needs it. A cache that the user configured in jax is
    left unchanged. ``USNRT_CACHE=off`` disables ours, another value is its folder.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_active = 0
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        with self._lock:
            self._n_active += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_active -= 1
            if self._n_active == 0 and self._before:
                _configure(self._before)
                self._before = {}

    def use(self) -> None:
        """Configure jax, until the context ends."""
        import jax

        with self._lock:
            if self._n_active == 0 or self._before or jax.config.values.get("jax_compilation_cache_dir"):
                return
            options = _options()
            self._before = {name: jax.config.values[name] for name in options}
            _configure(options)


DISK_CACHE = _DiskCache()


def _options() -> dict[str, Any]:
    """The settings of our cache; empty if there is none."""
    root = programs_folder()
    if root is None:
        return {}
    try:
        (root / "jax").mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}  # without a writable folder programs are compiled again, nothing else
    return {
        "jax_compilation_cache_dir": str(root / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.2,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }


def _configure(options: dict[str, Any]) -> None:
    if not options:
        return
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    for name, value in options.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    reset_cache()  # jax looks at the folder once, when it compiles its first program


def programs_folder() -> Path | None:
    """The folder for compiled programs; None if ``USNRT_CACHE=off``."""
    return None if is_cache_off() else cache_folder()


# -- forked children ------------------------------------------------------------------------------------------------

_parent_used_jax = False


def check_not_forked() -> None:
    """Refuse jax in a child that was forked from a process that had used it: its threads are not in the child."""
    if _parent_used_jax:
        raise RuntimeError(
            "fit cannot run in a process that was forked after its parent had used jax, it would wait forever; start "
            'processes by multiprocessing.get_context("spawn"), or use threads'
        )


def _note_fork() -> None:
    global _parent_used_jax
    bridge = sys.modules.get("jax._src.xla_bridge")
    # The dictionary, since jax's function for it takes a lock that another thread of the parent may have held.
    _parent_used_jax = _parent_used_jax or bool(bridge is not None and getattr(bridge, "_backends", True))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_note_fork)
