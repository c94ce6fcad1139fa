"""Progress of a fit: events for callbacks, a bar on a terminal, lines in a log, and interruption."""

import io
import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from usnrt import USNRTRegressor
from usnrt.utils.progress import FitEvent, FitStopped, Progress

EVENT = FitEvent("LR", 1200, "mean 1", 9, 0.5, 0.25)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    return X, X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=600)


def quick(**changes):
    return USNRTRegressor.paper(**{"min_samples_leaf": 200, "max_epochs": 4, "random_state": 0, **changes})


# -- the display ------------------------------------------------------------------------------------------------


def test_a_terminal_shows_a_bar_and_clears_it_for_lines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    progress = Progress(1, n_rows=4000, stream=stream)
    progress.node_done("L", 2000, "region", is_leaf=True)
    progress.epoch(EVENT, n_epochs=30)
    assert stream.getvalue().startswith("\r\rL (2,000 rows): region\n")
    shown = stream.getvalue().splitlines()[-1].strip()
    assert re.fullmatch(
        r"\[#{10}\.{10}\] 50%, about 0 s left, [\d,]+ MB, 1 region with 2,000 of 4,000 rows; "
        r"LR \(1,200 rows\) mean 1: epoch 10 of 30, validation loss 0\.25",
        shown,
    )
    progress.node_done("R", 2000, "region", is_leaf=True)
    progress.finish()
    # the bar is overwritten with blanks before the next line is written
    assert f"\r{' ' * len(shown)}\rR (2,000 rows): region\n" in stream.getvalue()
    assert re.search(r"\rfitted 2 regions in \d+\.\d s\n$", stream.getvalue())


def test_a_terminal_is_not_flooded():
    stream = Terminal()
    progress = Progress(1, n_rows=4000, stream=stream)
    for _ in range(100):
        progress.epoch(EVENT)
    assert stream.getvalue().count("validation loss") < 100


def test_a_log_gets_a_line_per_node_and_with_verbose_2_every_tenth_epoch():
    for verbose, expected in ((0, ""), (1, "root (10 rows): region\n"), (2, "LR mean 1: epoch 11, loss 0.25\n")):
        stream = io.StringIO()
        progress = Progress(verbose, n_rows=10, stream=stream)
        for epoch in (9, 10, 11):
            progress.epoch(FitEvent("LR", 1200, "mean 1", epoch, 0.5, 0.25))
        progress.node_done("root", 10, "region", is_leaf=True)
        progress.finish()
        lines = stream.getvalue()
        assert lines.startswith(expected)
        assert bool(lines) == bool(verbose)
        if verbose:
            assert re.search(r"fitted 1 region in \d+\.\d s\n$", lines)


def test_a_stopped_progress_ends_the_next_epoch():
    progress = Progress()
    progress.epoch(EVENT)
    progress.stop.set()
    with pytest.raises(FitStopped):
        progress.epoch(EVENT)


def test_fit_writes_to_stderr(data, capsys):
    quick(verbose=1, n_jobs=1).fit(*data)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert re.fullmatch(r"root \(600 rows\): split, T = -\d+\.\d", lines[0])
    assert re.fullmatch(r"fitted 2 regions in \d+\.\d s", lines[-1])
    assert len(lines) == 4


def test_fit_is_silent_by_default(data, capsys):
    quick().fit(*data)
    assert capsys.readouterr() == ("", "")


# -- callbacks --------------------------------------------------------------------------------------------------


def test_callbacks_receive_every_epoch(data):
    events = []
    model = quick(callbacks=[events.append]).fit(*data)
    assert all(isinstance(event, FitEvent) for event in events)
    received = {}
    for event in events:
        received.setdefault((event.node, event.network), []).append(event)
    # the root is node 0, its children 1 and 2
    expected = {("root", "split"): 0} | {
        (node, f"{network} {turn}"): number
        for node, number in (("L", 1), ("R", 2))
        for network in ("mean", "variance")
        for turn in (1, 2)
    }
    assert set(received) == set(expected)
    for (node, network), number in expected.items():
        history = model.history_[number][network]
        assert [event.epoch for event in received[node, network]] == list(range(len(history.valid_loss)))
        assert [event.valid_loss for event in received[node, network]] == history.valid_loss
        assert [event.train_loss for event in received[node, network]] == history.train_loss
        assert {event.n_rows for event in received[node, network]} == {int(model.tree_.n_rows[number])}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [RuntimeError("enough"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
@pytest.mark.parametrize("node", ["root", "R"])
def test_an_exception_in_a_callback_ends_the_fit_and_its_threads(data, n_jobs, error, node):
    def stop(event):
        if event.node == node and event.epoch == 1:
            raise error

    threads_before = threading.active_count()
    model = quick(callbacks=[stop], n_jobs=n_jobs)
    if node == "root":  # would take days: that it returns at all shows that the thread was told to stop
        model.set_params(max_epochs=10**9, learning_rate=1e-30)
    before = dict(vars(model))
    with pytest.raises(type(error)) as caught:
        model.fit(*data)
    assert caught.value is error
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(data[0])
    assert threading.active_count() == threads_before


def test_an_interrupted_refit_leaves_the_first_fit(data):
    model = quick().fit(*data)
    before, answers = dict(vars(model)), model.predict(data[0], return_std=True)

    def stop(event):
        raise KeyboardInterrupt

    model.set_params(callbacks=[stop])
    with pytest.raises(KeyboardInterrupt):
        model.fit(data[0], -data[1])
    assert vars(model) == {**before, "callbacks": [stop]}
    np.testing.assert_array_equal(model.predict(data[0], return_std=True), answers)


INTERRUPTED = """
import numpy as np
from usnrt import USNRTRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (600, 2))
y = X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=600)
heard = lambda event: event.epoch == 3 and print("training", flush=True)
# losses that do not move never stop early: it would take days if it were not interrupted
model = USNRTRegressor.paper(max_epochs=10**9, learning_rate=1e-30, random_state=0, callbacks=[heard], n_jobs=2)
try:
    model.fit(X, y)
except KeyboardInterrupt:
    print("interrupted,", "half fitted" if any(name.endswith("_") for name in vars(model)) else "unfitted")
else:
    print("was not interrupted")
"""


def test_ctrl_c_leaves_the_model_unfitted_and_the_process_ends():
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "training\n"
        os.kill(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert rest.splitlines()[-1] == "interrupted, unfitted"
    assert process.returncode == 0
