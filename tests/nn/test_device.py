"""jax in this process: settings that a fit restores, and forked children."""

import os
import subprocess
import sys

import pytest

START = """
import os, sys
import jax
import jax.numpy as jnp
import numpy as np
from usnrt import USNRTRegressor

X = np.random.default_rng(0).uniform(size=(60, 2))

def fit(**parameters):
    model = USNRTRegressor.paper(mean_hidden=(4,), max_epochs=2, random_state=0, n_jobs=1, **parameters)
    return model.fit(X, X[:, 0])
"""

FORK = """
model = fit()
child = os.fork()
if child == 0:
    model.predict(X)
    try:
        model.fit(X, X[:, 1])
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

KERNELS = """
default = USNRTRegressor(hidden=(4,), max_epochs=2, random_state=0, n_jobs=2)
fit()
expected = default.fit(X, X[:, 1]).predict(X)
child = os.fork()
if child == 0:
    found = default.fit(X, X[:, 1]).predict(X)
    print(found.shape, np.array_equal(found, expected), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

FORK_BEFORE_JAX = """
child = os.fork()
if child == 0:
    print(fit().predict(X).shape, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

SETTINGS = """
names = ["jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs",
         "jax_persistent_cache_min_entry_size_bytes"]
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: x + 1)(jnp.ones(3))  # jax has decided about its cache: there is none
before = {name: jax.config.values[name] for name in names}
seen = []
fit(callbacks=[lambda *_: seen.append(jax.config.values[names[0]])])
assert seen and all(seen), seen
assert before == {name: jax.config.values[name] for name in names}, before
folder = os.path.join(os.environ["USNRT_CACHE"], "jax")
programs = set(os.listdir(folder))
assert programs
jax.jit(lambda x: jnp.sort(x) * 3)(jnp.ones(50))
assert set(os.listdir(folder)) == programs, "a program of the user is in our cache"
"""


def run(code, tmp_path):
    # a child that waits for threads that it does not have would wait forever; a busy machine takes minutes
    environment = {**os.environ, "USNRT_CACHE": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", START + code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=400).stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fit_restores_jax_and_is_refused_in_forked_children(tmp_path):
    assert run(SETTINGS + FORK, tmp_path) == (
        "fit cannot run in a process that was forked after its parent had used jax, it would wait forever; start "
        'processes by multiprocessing.get_context("spawn"), or use threads\n'
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fit_by_kernels_runs_in_a_forked_child(tmp_path):
    assert run(KERNELS, tmp_path) == "(60,) True\n"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fit_runs_in_a_child_forked_before_jax_was_used(tmp_path):
    assert run(FORK_BEFORE_JAX, tmp_path) == "(60,)\n"
