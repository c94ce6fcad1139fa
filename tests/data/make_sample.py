"""How the newest sample model file was made: ``python tests/data/make_sample.py``.

There is a file of every format version, and they stay as they are: they prove that old files keep loading. Only a new
format version gets a new file, beside the others.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent


def houses(n, seed):
    """Made-up house prices: uncertain in the old town, more so for old houses."""
    rng = np.random.default_rng(seed)
    district = rng.choice(["harbour", "north", "old town"], n)
    area, age = rng.uniform(20, 200, n).round(1), rng.integers(0, 100, n)
    spread = np.where(district == "old town", 60.0, 6.0) * np.where(age > 60, 2.0, 1.0)
    price = 3 * area - 0.5 * age + rng.normal(size=n) * spread
    X = pd.DataFrame(
        {
            "area": np.where(np.arange(n) % 40 == 0, np.nan, area),
            "age": age,
            "district": district,
            "garden": rng.random(n) < 0.3,
            "sold": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    return X, price.round(2)


def main():
    """Fit, save, and record the predictions of the day."""
    from usnrt import USNRTRegressor

    model = USNRTRegressor(min_samples_leaf=150, hidden=(16, 8), max_epochs=60, n_bins=4, random_state=0).fit(
        *houses(1000, 0)
    )
    model.target_name_ = "price"
    model.save(FOLDER / "model-v3.usnrt")
    X, _ = houses(20, 1)
    mean, std = model.predict(X, return_std=True)
    predicted = {"mean": mean.tolist(), "std": std.tolist(), "leaf": model.apply(X).tolist()}
    predicted["interval"] = model.predict_interval(X, 0.8).tolist()
    (FOLDER / "model-v3.json").write_text(json.dumps(predicted) + "\n")


if __name__ == "__main__":
    main()
