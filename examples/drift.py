"""Intervals under drift: a static model, calibration on a window of recent rows, and the online calibrator.

    python examples/drift.py                         # generated drift
    python examples/drift.py power folder/power.zip  # a real table in time order; also: appliances

The first 60 % of the rows, by time, are fitted; the others arrive one by one. Printed per method: the coverage of 90 %
intervals in the long run, its smallest and largest value in windows of 500 rows after the first 500, and the width.
"""

import sys
import zipfile

import numpy as np
import pandas as pd

from usnrt import OnlineCalibrator, USNRTRegressor

REAL = {
    "power": ("Zone 1 Power Consumption", "DateTime", ["Zone 2  Power Consumption", "Zone 3  Power Consumption"]),
    "appliances": ("Appliances", "date", []),
}
COVERAGE, WINDOW, FITTED = 0.9, 500, 0.6


def generated(n: int = 4000, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Level and noise drift slowly after the fitted rows, and jump once."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    X = pd.DataFrame({"t": t, "a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n)})
    late = np.maximum(t / n - FITTED, 0.0) / (1 - FITTED)
    noise = 0.3 * (1 + late + (late > 0.5))
    return X, pd.Series(X["a"] + 1.5 * late + noise * rng.normal(size=n), name="y")


def real(name: str, path: str) -> tuple[pd.DataFrame, pd.Series]:
    """A table of UCI as it is published, sorted by time."""
    target, time, left_out = REAL[name]
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        table = pd.read_csv(file)
    table[time] = pd.to_datetime(table[time])
    table = table.sort_values(time, kind="stable", ignore_index=True)
    return table.drop(columns=[target, *left_out]), table[target].astype(float)


def report(name: str, bounds: np.ndarray, y: np.ndarray) -> None:
    """Print the coverage in the long run and by windows."""
    covered = (y >= bounds[:, 0]) & (y <= bounds[:, 1])
    by_window = np.convolve(covered, np.full(WINDOW, 1 / WINDOW), mode="valid")[WINDOW:]
    width = np.mean(bounds[:, 1] - bounds[:, 0])
    print(
        f"{name:<20}{covered.mean():>9.1%}{covered[WINDOW:].mean():>13.1%}"
        f"{by_window.min():>9.1%}{by_window.max():>9.1%}{np.mean(abs(by_window - COVERAGE) <= 0.03):>9.1%}{width:>9.4g}"
    )


def main(arguments: list[str]) -> None:
    """Compare the three on one table."""
    X, y = real(*arguments) if arguments else generated()
    time = "t" if not arguments else REAL[arguments[0]][1]
    n_fitted = int(FITTED * len(y))
    model = USNRTRegressor.fast(time_column=time, random_state=0).fit(X[:n_fitted], y[:n_fitted])
    later, observed = X[n_fitted:], y[n_fitted:].to_numpy()
    print(f"{n_fitted:,} rows fitted, {len(observed):,} rows later, {model.n_leaves_} regions")
    print(f"{'':<20}{'all rows':>9}{'without 500':>13}{'smallest':>9}{'largest':>9}{'+-3 %':>9}{'width':>9}")
    report("static", model.predict_interval(later, COVERAGE), observed)
    online = OnlineCalibrator(model, COVERAGE)
    report("online", online.predict_then_update(later, observed), observed)
    bounds = []
    for start in range(0, len(observed), WINDOW):  # calibrated every 500 rows on the last 1,000
        bounds.append(model.predict_interval(later[start : start + WINDOW], COVERAGE))
        seen = n_fitted + start + WINDOW
        model.calibrate(X[:seen], y[:seen], by="global", window=2 * WINDOW)
    report("window of 1,000", np.concatenate(bounds), observed)


if __name__ == "__main__":
    main(sys.argv[1:])
