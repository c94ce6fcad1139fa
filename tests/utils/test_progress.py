"""Progress of a fit: events for callbacks, a bar on a terminal, lines in a log, and interruption."""

import io
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.utils import progress as progress_module
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
    progress.node_done("L", 2000, "a region", is_leaf=True)
    progress.epoch(EVENT, n_epochs=30)
    assert stream.getvalue().startswith("\r\ra part of 2,000 rows: a region\n")
    shown = stream.getvalue().splitlines()[-1].strip()
    assert re.fullmatch(
        r"\[#{10}\.{10}\] 50%, about 0 s left, [\d,]+ MB, 1 region with 2,000 of 4,000 rows; "
        r"a part of 1,200 rows, mean 1: epoch 10 of 30, validation loss 0\.25",
        shown,
    )
    progress.node_done("R", 2000, "a region", is_leaf=True)
    progress.finish()
    # the bar is overwritten with blanks before the next line is written
    assert f"\r{' ' * len(shown)}\ra part of 2,000 rows: a region\n" in stream.getvalue()
    assert re.search(r"\rfitted 2 regions in \d+\.\d s\n$", stream.getvalue())


def test_a_terminal_is_not_flooded():
    stream = Terminal()
    progress = Progress(1, n_rows=4000, stream=stream)
    for _ in range(100):
        progress.epoch(EVENT)
    assert stream.getvalue().count("validation loss") < 100


def test_a_log_has_nodes_and_with_verbose_2_every_tenth_epoch():
    printed = ((0, ""), (1, "all 10 rows: a region\n"), (2, "a part of 1,200 rows, mean 1: epoch 11, loss 0.25\n"))
    for verbose, expected in printed:
        stream = io.StringIO()
        progress = Progress(verbose, n_rows=10, stream=stream)
        for epoch in (9, 10, 11):
            progress.epoch(FitEvent("LR", 1200, "mean 1", epoch, 0.5, 0.25))
        progress.node_done("root", 10, "a region", is_leaf=True)
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
    assert re.fullmatch(r"all 600 rows: two parts differ in spread, T = -\d+\.\d", lines[0])
    assert re.fullmatch(r"fitted 2 regions in \d+\.\d s", lines[-1])
    assert len(lines) == 4


def test_fit_is_silent_by_default(data, capsys):
    quick().fit(*data)
    assert capsys.readouterr() == ("", "")


# -- what is shown ----------------------------------------------------------------------------------------------


def last_shown(stream):
    return re.split(r"[\r\n]", stream.getvalue().rstrip())[-1].strip()


def test_a_bar_follows_the_plan_of_a_fit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(progress_module, "SHOW_INTERVAL", -1.0)
    stream = Terminal()
    progress = Progress(1, n_rows=4000, stream=stream)
    progress.plan({"memory": 0.3, "network": 0.5, "regions": 0.2})
    shown = []

    def report(network, epoch, n_epochs, unit="epoch"):
        progress.reporter("root", 4000, network, n_epochs, unit)(epoch, 0.5, 0.25)
        shown.append(last_shown(stream).split()[1].rstrip(","))

    report("memory", 99, 200, "step")
    assert "all 4,000 rows, memory: step 100 of 200, validation loss 0.25" in last_shown(stream)
    progress.begin("network")  # the memory has stopped early
    report("network", 0, 10)
    report("network", 4, 10)
    report("network 2", 0, 20)  # a second round; the bar does not go back
    progress.begin("regions")
    progress.node_done("L", 1000, "a region", is_leaf=True)
    report("probe", 0, 5)
    assert shown == ["15%", "35%", "55%", "55%", "85%"]


def test_the_time_left_does_not_count_earlier_calls(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "200")

    def left(restored):
        clock[0] = 0.0
        stream = Terminal()
        progress = Progress(1, n_rows=4000, stream=stream)
        progress.plan({"network": 0.5, "regions": 0.5})
        if restored:
            progress.begin("regions")  # without an epoch: the network was in the checkpoint
            progress.node_done("L", 1000, "a region", True, is_restored=True)
            assert "a part of 1,000 rows: a region, from the checkpoint\n" in stream.getvalue()
        clock[0] = 60.0
        if restored:
            progress.node_done("R", 1000, "a region", True)
        else:
            for epoch in range(4):
                progress.reporter("root", 4000, "network", 4)(epoch, 0.5, 0.25)
            progress.begin("regions")
            progress.node_done("L", 2000, "a region", True)
        progress.epoch(EVENT)
        return re.search(r" (\d+%), about (.*?) left", last_shown(stream)).groups()

    assert left(restored=False) == ("75%", "20 s")
    assert left(restored=True) == ("75%", "2 min")  # an eighth in a minute, a quarter to go


def test_a_resumed_training_counts_from_where_it_goes_on(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    progress = Progress(1, n_rows=4000, stream=stream)
    progress.plan({"network": 1.0, "regions": 0.0})
    clock[0] = 10.0
    progress.reporter("root", 4000, "network", 10)(8, 0.5, 0.25)  # epoch 9 is the first of this call
    assert "90%, about 10 s left" in last_shown(stream)


def test_a_log_gets_a_line_per_minute(monkeypatch):
    stream = io.StringIO()
    progress = Progress(1, n_rows=4000, stream=stream)
    progress.epoch(EVENT)
    assert stream.getvalue() == ""
    monkeypatch.setattr(progress_module, "LOG_INTERVAL", 0.0)
    progress.epoch(EVENT, 30)
    assert re.fullmatch(
        r"0%, [\d,]+ MB; a part of 1,200 rows, mean 1: epoch 10 of 30, validation loss 0\.25\n", stream.getvalue()
    )


def test_a_bar_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    Progress(1, n_rows=4000, stream=stream).epoch(EVENT)
    assert 38 <= len(last_shown(stream)) <= 39  # a blank at the cut is not shown


@pytest.mark.parametrize("error", [OSError("disk full"), ValueError("I/O operation on closed file")])
def test_a_stream_that_cannot_be_written_does_not_end_a_fit(data, monkeypatch, error):
    class Broken(io.StringIO):
        def write(self, text):
            raise error

    monkeypatch.setattr(sys, "stderr", Broken())
    assert quick(verbose=2).fit(*data).n_leaves_ == 2


def test_members_are_shown_together():
    stream = io.StringIO()
    progress = Progress(1, n_rows=100, stream=stream)
    first, second = progress.members(2)
    first.node_done("L", 50, "a region", is_leaf=True)
    second.node_done("root", 100, "a region", is_leaf=True)
    progress.finish()
    assert re.fullmatch(
        r"member 1, a part of 50 rows: a region\nmember 2, all 100 rows: a region\nfitted 2 regions in \d+\.\d s\n",
        stream.getvalue(),
    )
    first.stop.set()
    with pytest.raises(FitStopped):
        second.check()


def test_an_ensemble_reports_its_members(data, capsys):
    one = USNRTRegressor(hidden=(8,), max_epochs=2, min_samples_leaf=200, memory=False)
    USNRTEnsemble(one, n_estimators=2, random_state=0, verbose=1).fit(*data)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert [line for line in lines if line.startswith("all 600 rows: ")]
    assert re.fullmatch(r"fitted \d regions in \d+\.\d s", lines[-1])


@pytest.mark.usefixtures("no_threads_left")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_exception_in_a_callback_of_a_member_ends_all_members(data, n_jobs):
    def stop(event):
        if event.epoch == 1:
            raise KeyboardInterrupt

    one = USNRTRegressor(hidden=(8,), max_epochs=10**9, learning_rate=1e-30, memory=False, callbacks=[stop])
    with pytest.raises(KeyboardInterrupt):
        USNRTEnsemble(one, n_estimators=3, random_state=0, n_jobs=n_jobs).fit(*data)


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


@pytest.mark.usefixtures("no_threads_left")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [RuntimeError("enough"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
@pytest.mark.parametrize("node", ["root", "R"])
def test_an_exception_in_a_callback_ends_the_fit_and_its_threads(data, n_jobs, error, node):
    def stop(event):
        if event.node == node and event.epoch == 1:
            raise error

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
from usnrt import USNRTEnsemble, USNRTRegressor

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


# -- the first fit on a machine ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tree", "ensemble"])
def test_the_first_fit_says_once_why_it_takes_longer(data, tmp_path, monkeypatch, capsys, kind):
    monkeypatch.setenv("USNRT_CACHE", str(tmp_path))
    sentence = "the first fit on this machine compiles its kernels and takes some seconds longer; they are kept\n"

    def fit(verbose):
        tree = USNRTRegressor(hidden=(4,), memory=False, max_epochs=1)
        model = tree if kind == "tree" else USNRTEnsemble(tree, n_estimators=2)
        model.set_params(verbose=verbose, random_state=0, n_jobs=1).fit(data[0][:600], data[1][:600])
        return capsys.readouterr().err

    assert sentence not in fit(0)
    assert fit(1).count(sentence) == 1
    assert sentence not in fit(1)
    monkeypatch.setenv("USNRT_CACHE", "off")
    assert sentence not in fit(1)
