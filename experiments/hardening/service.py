"""Load on `usnrt serve`: clients that check every answer, bad bodies, killed connections, reloads.

``python experiments/hardening/service.py --seconds 30`` measures the service in peace, then with all of these, and the
same model in ONNX Runtime behind the same kind of application. It ends with an error if an answer is lost or wrong.
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

BAD_BODIES = (
    b"{",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"rows": [{"area": "large"}]}',
    b'{"rows": []}',
    b'{"rows": [{"area": NaN}]}',
    b'{"rows": ' + b"[1," * 1000,
    b" " * 11_000_000,
)
ONNX_SERVICE = """
import json, sys
import numpy as np, onnxruntime, uvicorn
from fastapi import FastAPI, Request
from starlette.responses import Response

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
names = [output.name for output in session.get_outputs()]
app = FastAPI()

@app.post("/predict")
async def predict(request: Request):
    rows = json.loads(await request.body())["rows"]
    feeds = {}
    for put in session.get_inputs():
        values = [row[put.name] for row in rows]
        dtype = {"tensor(string)": object, "tensor(double)": np.float64}[put.type]
        feeds[put.name] = np.array(values, dtype=dtype).reshape(-1, 1)[: , 0].reshape([-1] + [1] * (len(put.shape) - 1))
    outputs = dict(zip(names, session.run(None, feeds)))
    return Response(json.dumps({"predictions": [{"mean": m} for m in np.ravel(outputs["mean"]).tolist()]}))

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)
"""


def make_rows(n, seed):
    """A table and its noisy target."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "area": rng.uniform(20, 200, n).round(1),
            "age": rng.uniform(0, 100, n).round(),
            "district": rng.choice(["harbour", "north", "old town"], n),
        }
    )
    noise = np.where(table["district"] == "old town", 60.0, 6.0) * rng.normal(size=n)
    return table, 3 * table["area"] - 0.5 * table["age"] + noise


class Clients:
    """Threads that ask for predictions, one row after the other, and check the answers."""

    def __init__(self, port, rows, means, tolerance):
        self.port, self.rows, self.means, self.tolerance = port, rows, means, tolerance
        self.seconds, self.wrong = [], []

    def run(self, n_threads, seconds):
        """Ask for so long; the number of answers per second."""
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._ask, args=(end, number)) for number in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(self.seconds) / seconds

    def _ask(self, end, number):
        connection, draw = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60), random.Random(number)
        while time.monotonic() < end:
            i, start = draw.randrange(len(self.rows)), time.perf_counter()
            try:
                connection.request(
                    "POST", "/predict", json.dumps({"rows": [self.rows[i]]}), {"Content-Type": "application/json"}
                )
                answer = connection.getresponse()
                found = json.loads(answer.read())
                self.seconds.append(time.perf_counter() - start)
                if answer.status != 200 or abs(found["predictions"][0]["mean"] - self.means[i]) > self.tolerance:
                    self.wrong.append((answer.status, found))
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.wrong.append((0, repr(error)))
                connection.close()

    def line(self, name, rate):
        """Throughput and latencies in words."""
        p50, p99 = 1e3 * np.quantile(self.seconds, [0.5, 0.99])
        return (
            f"{name:36} {rate:7.0f} requests/s, p50 {p50:6.1f} ms, p99 {p99:6.1f} ms, {len(self.wrong)} lost or wrong"
        )


def trouble(port, process, path, content, stop):
    """Bad bodies, connections that are killed, and reloads, until told to stop; counts of each."""
    draw, counts = random.Random(0), {"bad": 0, "killed": 0, "reloads": 0}
    last = time.monotonic()
    while not stop.is_set():
        body = draw.choice(BAD_BODIES)
        fields = ("Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}")
        head = "\r\n".join(["POST /predict HTTP/1.1", *fields, "\r\n"])
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                whole = head.encode() + body
                if draw.random() < 0.5:
                    client.sendall(whole[: draw.randrange(1, min(len(whole), 100_000))])
                    counts["killed"] += 1
                else:
                    client.sendall(whole)
                    status = client.recv(64).split()[1]
                    assert status[:1] == b"4", status
                    counts["bad"] += 1
        except (ConnectionError, IndexError):  # a body that is too large is refused before it has been read
            counts["bad"] += 1
        if time.monotonic() - last > 2.0:
            part = path.with_suffix(".part")
            part.write_bytes(content[counts["reloads"] % 2])
            os.replace(part, path)
            process.send_signal(signal.SIGHUP)
            last, counts["reloads"] = time.monotonic(), counts["reloads"] + 1
        time.sleep(0.02)
    return counts


def memory(process):
    """Resident memory of a process in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def wait_for(port, process):
    for _ in range(600):
        assert process.poll() is None, "the service did not start"
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
    raise TimeoutError


def main():
    """Run all parts and print the figures."""
    from usnrt import USNRTRegressor

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    path, onnx, content = folder / "flats.usnrt", folder / "flats.onnx", []
    model = USNRTRegressor.fast(memory=False, random_state=0).fit(*make_rows(2000, 0))
    for verbose in (0, 1):  # two files of one model: other digests, the same predictions
        model.set_params(verbose=verbose).save(path)
        content.append(path.read_bytes())
    model.to_onnx(onnx)
    table, _ = make_rows(500, 1)
    rows, means = json.loads(table.to_json(orient="records")), model.predict(table)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "USNRT_TOKEN": ""}
    failed = False

    def measured(command, name, tolerance, with_trouble):
        nonlocal failed
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, *map(str, command), str(port)],
            env=environment,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_for(port, process)
            Clients(port, rows, means, tolerance).run(1, 1.0)
            before, clients, stop = memory(process), Clients(port, rows, means, tolerance), threading.Event()
            counts = {}
            helper = threading.Thread(target=lambda: counts.update(trouble(port, process, path, content, stop)))
            if with_trouble:
                helper.start()
            rate = clients.run(options.clients, options.seconds)
            stop.set()
            if with_trouble:
                helper.join()
            print(clients.line(name, rate), counts or "", f"{before:.0f} -> {memory(process):.0f} MB", flush=True)
            if clients.wrong:
                failed = True
                print(clients.wrong[:3])
        finally:
            process.terminate()
            process.wait(30)

    serve = ["-m", "usnrt.cli", "serve", path, "--port"]
    measured(serve, "usnrt serve", 1e-9, False)
    measured(["-c", ONNX_SERVICE, onnx], "ONNX Runtime, the mean alone", 1e-3, False)
    measured(serve, "usnrt serve, kills and bad bodies", 1e-9, True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
