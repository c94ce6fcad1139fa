"""``import usnrt`` is light, and the public names are there."""

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import usnrt

HEAVY = (
    "jax",
    "numba",
    "matplotlib",
    "pandas",
    "polars",
    "typer",
    "rich",
    "pooch",
    "onnx",
    "jinja2",
    "torch",
    "optax",
    "fastapi",
)


def loaded_after(code):
    """Which heavy packages a new process has loaded after some code."""
    script = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return answer.stdout.split()


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_after("import usnrt") == []


def test_importing_the_model_loads_neither_jax_nor_plotting():
    # scikit-learn itself loads pandas if it is installed
    assert set(loaded_after("from usnrt import USNRTRegressor; USNRTRegressor()")) <= {"numba", "pandas"}


def test_a_stored_model_predicts_without_jax(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 2))
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(usnrt.USNRTRegressor(max_epochs=1, random_state=0).fit(X, X[:, 0])))
    code = (
        f"import pickle; model = pickle.load(open({str(path)!r}, 'rb')); model.predict([[0.5, 0.5]], return_std=True)"
    )
    assert set(loaded_after(code)) <= {"numba", "pandas"}


@pytest.mark.parametrize("name", sorted(set(usnrt.__all__)))
def test_public_names_are_there(name):
    assert getattr(usnrt, name) is not None
    assert name in dir(usnrt)


def test_names_loaded_when_used_are_those_of_type_checkers():
    assert set(usnrt.__all__) == {"__version__", *usnrt._HOME}
    source = Path(usnrt.__file__).read_text()
    typed = source[source.index("if TYPE_CHECKING") : source.index("_HOME = ")]
    for name, home in usnrt._HOME.items():
        module, _, other_name = home.partition(":")
        imported = f"{other_name} as {name}" if other_name else name
        assert re.search(rf"from {re.escape(module)} import .*\b{imported}\b", typed), name


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match=r"^module 'usnrt' has no attribute 'nothing'$"):
        usnrt.nothing  # noqa: B018
