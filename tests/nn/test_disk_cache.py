"""Programs from the compilation cache on disk: another process gets the same bits from them.

With jax 0.5.3 and 0.6.0 it does not: programs of several trainings that were read from the cache returned zeros.
"""

import os
import subprocess
import sys

FITS = """
import hashlib
import numpy as np
from usnrt import USNRTRegressor

for n_rows, hidden in ((300, (8,)), (150, (16, 8))):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, 2))
    y = X[:, 0] + rng.normal(size=n_rows)
    model = USNRTRegressor.paper(mean_hidden=hidden, max_epochs=2, random_state=0, n_jobs=1).fit(X, y)
    print(hashlib.sha256(model.predict_quantiles(X, [0.1, 0.5, 0.9]).tobytes()).hexdigest())
"""


def test_another_process_has_the_same_bits_from_the_cache(tmp_path):
    def run():
        environment = {**os.environ, "USNRT_CACHE": str(tmp_path)}
        return subprocess.run([sys.executable, "-c", FITS], env=environment, capture_output=True, text=True, check=True)

    def trainings():
        # On a busy machine the compilation of a tiny program may take long enough for it to be stored, too.
        return {file.name for file in (tmp_path / "jax").glob("*-cache") if file.stat().st_size > 20_000}

    compiled = run().stdout
    programs = trainings()
    assert programs
    assert run().stdout == compiled
    assert trainings() == programs  # all were found


def test_a_fit_sets_the_level_of_logs_before_jax():
    """XLA logs a compilation of two minutes, as on a busy machine, as an error; only the environment mutes it."""
    script = (
        "import os, sys\nfrom usnrt.nn.device import DISK_CACHE\n"
        "before = os.environ.get('TF_CPP_MIN_LOG_LEVEL')\nwith DISK_CACHE:\n"
        "    print(before, os.environ['TF_CPP_MIN_LOG_LEVEL'], 'jax' in sys.modules)"
    )
    for chosen, expected in (({}, "None 3 False"), ({"TF_CPP_MIN_LOG_LEVEL": "0"}, "0 0 False")):
        inherited = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
        run = subprocess.run(
            [sys.executable, "-c", script], env=inherited | chosen, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == expected
