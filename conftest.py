"""What all tests share."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

# Before anything imports matplotlib: pictures are drawn into memory, never on a screen.
os.environ["MPLBACKEND"] = "Agg"

# A shell starts commands in the background with Ctrl-C ignored; processes that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_folder():
    """The folder of the real data sets; tests that ask for it skip without."""
    folder = os.environ.get("USNRT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set USNRT_DATA to the folder of the data sets")
    return Path(folder)


@pytest.fixture
def no_threads_left():
    """Fails if threads that a test began go on after it; those of joblib take a moment to end."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 20.0
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left
