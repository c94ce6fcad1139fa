"""The templates of extensions work as they stand: an expert and a calibration are one file and one line each."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "extension_templates"

EXPERT = """
import sys
sys.path.insert(0, {folder!r})
import expert

import numpy as np
import usnrt
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 8))
y = X @ np.arange(1.0, 9.0) + rng.normal(size=400)
quick = usnrt.USNRTRegressor(hidden=(16,), max_epochs=15, experts=["network", "ridge"], random_state=0)
for model in (quick, usnrt.USNRTEnsemble(quick, n_estimators=2, random_state=0)):
    model.fit(X, y)
    assert model.rules()["ridge"][0] > 0.5, model.rules()
    assert "ridge" in model.rules()["experts"][0]
    model.save({path!r})
    again = usnrt.load({path!r})
    new = rng.normal(size=(50, 8))
    np.testing.assert_array_equal(again.predict_interval(new), model.predict_interval(new))
    error = model.predict(new) - new @ np.arange(1.0, 9.0)
    assert np.sqrt((error**2).mean()) < 0.6
    import onnxruntime
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    np.testing.assert_allclose(session.run(["mean"], {{"X": new}})[0], model.predict(new), rtol=1e-4, atol=1e-4)
noise = quick.fit(X, np.sin(9 * X[:, 0]) + y * 0)
assert not any(member.further for member in noise.model_.members), "an expert without weight is dropped"
print("done")
"""

CALIBRATION = """
import sys
sys.path.insert(0, {folder!r})
import calibration
import numpy as np
import usnrt
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(600, 2))
y = X[:, 0] + rng.exponential(size=600)
model = usnrt.USNRTRegressor(hidden=(16,), max_epochs=5, calibration="symmetric", random_state=0).fit(X, y)
scores = model.calibration_.scores[0]
np.testing.assert_allclose(scores, -scores[::-1])
model.save({path!r})
loaded = usnrt.load({path!r})
np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))
model.calibrate(X[:100] + 0.01, y[:100], by="symmetric")
try:
    model.calibrate(X[:100] + 0.01, y[:100], by="other")
except ValueError as error:
    assert "symmetric" in str(error)
print("done")
"""


@pytest.mark.parametrize("program", [EXPERT, CALIBRATION], ids=["expert", "calibration"])
def test_a_template_is_all_that_an_extension_needs(program, tmp_path):
    text = program.format(folder=str(FOLDER), path=str(tmp_path / "m.usnrt"))
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=600)
    assert run.stdout.strip().endswith("done"), run.stderr
