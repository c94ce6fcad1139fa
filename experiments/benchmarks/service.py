"""Answers over HTTP on loopback: `usnrt serve` beside the same model in ONNX Runtime, and beside a LightGBM service.

All are asked for one row at a time by the same clients. The peers are written as their users would write them: FastAPI
and uvicorn around one call, which answers with the mean only; `usnrt serve` checks the row and answers with mean,
interval, quantiles, region and support. Prints throughput, p50 and p99, and last the processor time of an
answer of each peer divided by ours.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import lightgbm
import numpy as np

from history import record
from usnrt import USNRTRegressor

sys.path.insert(0, str(Path(__file__).parents[1] / "hardening"))
from service import ONNX_SERVICE, Clients, free_port, make_rows, wait_for

LIGHTGBM_SERVICE = """
import json, sys
import lightgbm, numpy as np, uvicorn
from fastapi import FastAPI, Request
from starlette.responses import Response

model, districts = lightgbm.Booster(model_file=sys.argv[1]), ["harbour", "north", "old town"]
app = FastAPI()

@app.post("/predict")
async def predict(request: Request):
    rows = json.loads(await request.body())["rows"]
    table = np.array([[row["area"], row["age"], districts.index(row["district"])] for row in rows])
    means = model.predict(table, num_threads=1).tolist()
    return Response(json.dumps({"predictions": [{"mean": mean} for mean in means]}))

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)
"""


def processor_seconds(process):
    """User and system time of a process and its threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(name, command, rows, means, options):
    """Processor time of an answer; prints the figures of clients."""
    port = free_port()
    command = [sys.executable, *map(str, command), str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "USNRT_TOKEN": ""}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        Clients(port, rows, means, 1e-3).run(1, 1.0)
        before, clients = processor_seconds(process), Clients(port, rows, means, 1e-3)
        rate = clients.run(options.clients, options.seconds)
        each = (processor_seconds(process) - before) / len(clients.seconds)
    finally:
        process.terminate()
        process.wait(30)
    print(f"{clients.line(name, rate)}, {1e3 * each:.2f} ms of processor", flush=True)
    assert not clients.wrong, clients.wrong[:3]
    return each


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    X, y = make_rows(2000, 0)
    table, _ = make_rows(500, 1)
    rows = json.loads(table.to_json(orient="records"))
    model = USNRTRegressor.fast(memory=False, random_state=0).fit(X, y)
    codes = [
        frame.assign(district=frame["district"].astype("category").cat.codes).to_numpy(float) for frame in (X, table)
    ]
    settings = {"objective": "regression", "num_threads": 1, "verbose": -1}
    booster = lightgbm.train(settings, lightgbm.Dataset(codes[0], np.asarray(y)), 100)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        model.save(place / "flats.usnrt")
        model.to_onnx(place / "flats.onnx")
        booster.save_model(place / "flats.txt")
        means, other = model.predict(table), booster.predict(codes[1])
        serve = ["-m", "usnrt.cli", "serve", place / "flats.usnrt", "--port"]
        ours = measured("usnrt serve", serve, rows, means, options)
        onnx = measured(
            "ONNX Runtime, the mean alone", ["-c", ONNX_SERVICE, place / "flats.onnx"], rows, means, options
        )
        boosted = measured(
            "LightGBM, the mean alone", ["-c", LIGHTGBM_SERVICE, place / "flats.txt"], rows, other, options
        )
    ratios = {"a row over HTTP, ONNX Runtime": onnx / ours, "a row over HTTP, LightGBM": boosted / ours}
    print(", ".join(f"{name}: {ratio:.2f}" for name, ratio in ratios.items()))
    record("service", ratios)


if __name__ == "__main__":
    main()
