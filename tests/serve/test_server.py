"""``usnrt serve`` as a process: a socket on the loopback, signals, bad clients."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from usnrt.cli._output import UserError
from usnrt.cli._run import run
from usnrt.cli._serve import _token
from usnrt.serve._columns import InputColumns


@pytest.fixture(scope="module")
def served(serving, model_file, tmp_path_factory):
    path = shutil.copy(model_file, tmp_path_factory.mktemp("served") / "flats.usnrt")
    with serving(path, "--timeout", "2") as (process, address):
        yield process, address, path


def port_of(address):
    return int(address.rpartition(":")[2])


def test_the_process_answers_on_the_loopback_only(served, rows):
    _, address, _ = served
    answer = httpx.post(f"{address}/predict", json={"rows": rows})
    assert len(answer.json()["predictions"]) == 2
    assert "server" not in answer.headers
    listening = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
    if listening:  # on Linux: 0100007F is 127.0.0.1
        assert f"0100007F:{port_of(address):04X}" in listening
        assert f"00000000:{port_of(address):04X}" not in listening


def test_bad_clients_do_not_stop_it(served, rows):
    process, address, _ = served
    bodies = (
        b"GET / HTTP/1.1\r\n",  # never ends
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",  # killed within the body
        b"\x16\x03\x01\x00\x01garbage\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    )
    for body in bodies:
        with socket.create_connection(("127.0.0.1", port_of(address)), timeout=5) as client:
            client.sendall(body)
    assert httpx.post(f"{address}/predict", json={"rows": rows}).status_code == 200
    assert process.poll() is None


def test_a_body_that_stalls_is_refused_in_time(served):
    _, address, _ = served
    with socket.create_connection(("127.0.0.1", port_of(address)), timeout=20) as client:
        client.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        assert b"408 Request Timeout" in client.recv(4096)


def test_a_hangup_reloads_without_dropping_requests(served, model, dearer_model, rows):
    process, address, path = served
    columns = InputColumns(model)
    before, after = (fitted.predict(columns.table(rows[:1]))[0] for fitted in (model, dearer_model))
    statuses, means, done = [], set(), threading.Event()

    def load():
        with httpx.Client() as client:
            while not done.is_set():
                answer = client.post(f"{address}/predict", json={"rows": rows[:1]})
                statuses.append(answer.status_code)
                means.add(answer.json()["predictions"][0]["mean"])

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    dearer_model.save(path)
    process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while after not in means and time.monotonic() < deadline:
        time.sleep(0.05)
    done.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}
    assert means <= {before, after}
    assert after in means


def test_it_finishes_requests_and_ends(serving, model_file, rows):
    with serving(model_file) as (process, address):
        answers = []
        body = {"rows": rows[:1] * 100, "explain": True}
        thread = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{address}/predict", json=body, timeout=60).status_code)
        )
        thread.start()
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        thread.join()
        output, errors = process.communicate(timeout=30)
        assert answers == [200]
        assert "Traceback" not in errors + output


def test_a_process_with_a_token_asks_for_it(serving, model_file, rows):
    with serving(model_file, env={"USNRT_TOKEN": "abc"}) as (_, address):
        assert httpx.post(f"{address}/predict", json={"rows": rows}).status_code == 401
        headers = {"authorization": "Bearer abc"}
        assert httpx.post(f"{address}/predict", json={"rows": rows}, headers=headers).status_code == 200


def test_tokens_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("USNRT_TOKEN", "of-the-environment")
    (tmp_path / "token").write_text("of-a-file\n")
    assert _token(None) == "of-the-environment"
    assert _token(tmp_path / "token") == "of-a-file"
    (tmp_path / "token").write_text("two words")
    with pytest.raises(UserError, match=r"^the token must be ASCII without spaces$"):
        _token(tmp_path / "token")
    monkeypatch.setenv("USNRT_TOKEN", "")
    assert _token(None) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.usnrt"], "usnrt: nothing.usnrt does not exist\n"),
        (["{model}", "{model}"], "usnrt: model files must have different names, got 'flats' twice\n"),
        (["{model}", "--timeout", "0"], "usnrt: --timeout must be positive, got 0\n"),
        (["{model}", "--port", "70000"], None),
        (["{model}", "--host", "127.0.0.1", "--port", "{taken}"], "usnrt: address already in use\n"),
        (["{model}", "--token-file", "{empty}"], "usnrt: {empty} must hold a token, but it is empty\n"),
    ],
)
def test_what_cannot_be_served_is_said(model_file, tmp_path, capsys, arguments, message):
    (tmp_path / "empty").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {"model": model_file, "taken": taken.getsockname()[1], "empty": tmp_path / "empty"}
        code = run(["serve", *(text.format(**names) for text in arguments)])
    assert code == (2 if message is None else 1)
    assert message is None or capsys.readouterr().err == message.format(**names)


def test_services_without_the_extra_say_what_is_missing(model_file, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("usnrt.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert run(["serve", str(model_file)]) == 1
    assert capsys.readouterr().err == "usnrt: usnrt.serve needs fastapi: pip install 'usnrt[serve]'\n"


def test_predictions_of_the_process_are_those_of_the_model(served, model, houses):
    _, address, path = served
    from usnrt import load

    X, _ = houses(30, 4)
    rows = json.loads(X.to_json(orient="records", date_format="iso"))
    answer = httpx.post(f"{address}/predict", json={"rows": rows}).json()
    assert [row["mean"] for row in answer["predictions"]] == load(path).predict(X).tolist()


def test_answers_are_sent_without_waiting_for_acknowledgements():
    from usnrt.serve._server import listen

    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # by which asyncio decides to set TCP_NODELAY
