"""MAPIE's split-conformal intervals around our mean, beside our own intervals.

Both hold the truth as often as they say. MAPIE's are equally wide everywhere; ours are narrow where the noise is small.

Needs ``pip install mapie``.
"""

import numpy as np
from mapie.regression import SplitConformalRegressor

from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic


def main() -> None:
    """Compare coverage and width, region by region."""
    train, fresh, test = (make_heteroscedastic("piecewise", n, random_state=n) for n in (2000, 1000, 4000))
    model = USNRTRegressor(min_samples_leaf=300, max_epochs=40, random_state=0).fit(train.data, train.target)
    around = SplitConformalRegressor(model, confidence_level=0.9, prefit=True)
    around.conformalize(fresh.data, fresh.target)
    theirs = around.predict_interval(test.data)[1][:, :, 0]
    ours = model.calibrate(fresh.data, fresh.target).predict_interval(test.data, 0.9)
    region = test.truth.region(test.data)
    for number, name in enumerate(test.truth.regions):
        rows = region == number
        for who, interval in (("MAPIE", theirs), ("usnrt", ours)):
            lower, upper = interval[rows].T
            inside = np.mean((lower <= test.target[rows]) & (test.target[rows] <= upper))
            print(f"{name:24} {who}: {inside:6.1%} inside, mean width {np.mean(upper - lower):.2f}")


if __name__ == "__main__":
    main()
