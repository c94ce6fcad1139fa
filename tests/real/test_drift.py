"""90 % intervals on two real tables in time order: the static model, and the online calibrator of `examples/drift.py`.

``USNRT_DATA=folder make test-real``; the folder holds the zip files as UCI publishes them. One or two minutes each.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from usnrt import OnlineCalibrator, USNRTRegressor

pytestmark = pytest.mark.real

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


@pytest.mark.parametrize("name", ["appliances", "power"])
def test_coverage_in_time_order(name):
    import drift

    path = Path(os.environ.get("USNRT_DATA", "")) / f"{name}.zip"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    X, y = drift.real(name, str(path))
    n_fitted = int(drift.FITTED * len(y))
    model = USNRTRegressor.fast(time_column=drift.REAL[name][1], random_state=0).fit(X[:n_fitted], y[:n_fitted])
    later, observed = X[n_fitted:], y[n_fitted:].to_numpy()

    def by_window(bounds):
        covered = (observed >= bounds[:, 0]) & (observed <= bounds[:, 1])
        return covered.mean(), np.convolve(covered, np.full(500, 1 / 500), mode="valid")[500:]

    mean, windows = by_window(OnlineCalibrator(model, 0.9).predict_then_update(later, observed))
    assert abs(mean - 0.9) < 0.01
    assert np.abs(windows - 0.9).max() <= 0.03
    _, static = by_window(model.predict_interval(later, 0.9))
    assert np.mean(np.abs(static - 0.9) <= 0.03) < 0.5
