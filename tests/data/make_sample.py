"""How the sample model file is made: ``python tests/data/make_sample.py``.

Until the first release it is made anew whenever a class in it changes; from then on files of released formats stay.
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
    """Fit a tree of five regions whose experts all have weight, save it, and record its predictions."""
    from unittest.mock import patch

    from usnrt import USNRTRegressor

    weights = [[0.2, 0.3, 0.2, 0.2, 0.1], [0.4, 0.0, 0.4, 0.0, 0.2]]
    model = USNRTRegressor(
        min_samples_leaf=150, alpha=0.5, hidden=(16, 8), max_epochs=60, n_bins=4, validation=1, random_state=0
    )
    few_trees = patch("usnrt.experts.forest.N_TREES", 6)  # the file is in the repository
    with_forest = patch("usnrt.tree.further.is_promising", lambda *arguments: True)
    with (
        few_trees,
        with_forest,
        patch("usnrt.tree.model.fit_weights", lambda *arguments: np.resize(weights, (arguments[4], 5))),
    ):
        model.fit(*houses(2000, 0))
    model.target_name_ = "price"
    model.save(FOLDER / "model-v4.usnrt")
    X, _ = houses(20, 1)
    mean, std = model.predict(X, return_std=True)
    predicted = {"mean": mean.tolist(), "std": std.tolist(), "leaf": model.apply(X).tolist()}
    predicted["interval"] = model.predict_interval(X, 0.8).tolist()
    (FOLDER / "model-v4.json").write_text(json.dumps(predicted) + "\n")


if __name__ == "__main__":
    main()
