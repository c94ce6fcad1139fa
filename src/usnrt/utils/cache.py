"""The folder for what can be made or downloaded again."""

import os
from pathlib import Path

OFF = "off"


def cache_folder() -> Path:
    """``USNRT_CACHE``, or the system's cache folder if that is not set, or ``off`` (see `is_cache_off`)."""
    setting = os.environ.get("USNRT_CACHE", "")
    if setting and setting != OFF:
        return Path(setting)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "usnrt"


def is_cache_off() -> bool:
    """Whether ``USNRT_CACHE=off``: no compiled programs are kept."""
    return os.environ.get("USNRT_CACHE") == OFF
