"""A service of a small model, and a client that needs no socket."""

import asyncio
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

SAMPLES = Path(__file__).parents[1] / "data"


class Client:
    """Requests to an application in this process; each has an event loop of its own."""

    def __init__(self, app, host="localhost"):
        self.app, self.host = app, host

    def request(self, method, path, **options):
        return asyncio.run(self.requests([(method, path, options)]))[0]

    async def requests(self, wanted):
        """Several requests at the same time."""
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{self.host}") as client:
            return await asyncio.gather(*(client.request(method, path, **options) for method, path, options in wanted))

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)


@pytest.fixture(scope="session")
def client_of():
    return Client


@pytest.fixture(scope="session")
def houses():
    """The maker of tables: numbers, categories, truth values, dates, missing values."""
    sys.path.insert(0, str(SAMPLES))
    from make_sample import houses

    sys.path.pop(0)
    return houses


def fit(X, y):
    from usnrt import USNRTRegressor

    fitted = USNRTRegressor(
        min_samples_leaf=150, hidden=(16, 8), max_epochs=15, n_bins=4, memory=False, random_state=0
    ).fit(X, y)
    fitted.target_name_ = "price"
    return fitted


@pytest.fixture(scope="session")
def model(houses):
    return fit(*houses(800, 0))


@pytest.fixture(scope="session")
def dearer_model(houses):
    """Another model, of prices that are higher by 1,000."""
    X, y = houses(800, 0)
    return fit(X, y + 1000.0)


@pytest.fixture(scope="session")
def model_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "flats.usnrt"
    model.save(path)
    return path


@pytest.fixture(scope="session")
def app(model_file):
    from usnrt.serve import create_app

    return create_app([model_file])


@pytest.fixture(scope="session")
def client(app):
    return Client(app)


@pytest.fixture
def rows():
    """Two rows of a request: one like the training rows, one unlike them."""
    usual = {"area": 80.0, "age": 30, "district": "north", "garden": True, "sold": "2023-06-01"}
    return [usual, {**usual, "area": 5000.0, "district": "moon"}]


@contextmanager
def serve(*arguments, env=None):
    """The command in a process, and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "usnrt.cli", "serve", *map(str, arguments), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "USNRT_TOKEN": "", **(env or {})},
    )
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"serving (.+) at (http://127\.0\.0\.1:\d+)/ \(Ctrl-C stops\)\n", line)
        assert found, line + process.stderr.read()
        yield process, found[2]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def serving():
    """A function that runs ``usnrt serve``: a context with the process and its address."""
    return serve
