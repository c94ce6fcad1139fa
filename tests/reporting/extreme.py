"""Tables that pages are hard to lay out for."""

import numpy as np
import pandas as pd

LONG = "the_average_monthly_consumption_of_electricity_per_square_metre_of_heated_floor_space_in_kilowatt_hours"
HEBREW, ARABIC = "שטח הדירה במטרים רבועים", "سعر البيع بالدينار"


def many_levels(n=9000, seed=0, levels=72):
    """A category with as many levels of noise, and columns with long and right-to-left names."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, levels, n)
    X = pd.DataFrame(
        {
            LONG: level.astype(float),
            HEBREW: rng.uniform(20, 200, n).round(1),
            "שכונה": np.where(rng.random(n) < 0.5, "העיר העתיקה", "نهر البارد الجديد جدا"),
            "built": rng.integers(1900, 2024, n),
        }
    )
    y = 3 * X[HEBREW].to_numpy() + rng.normal(size=n) * 1.35 ** rng.permutation(levels)[level] * 0.01
    return X, y


def many_regions():
    """A model with about sixty regions, in seconds: its networks are hardly trained."""
    from usnrt import USNRTRegressor

    X, y = many_levels()
    model = USNRTRegressor(
        alpha=0.999, min_samples_leaf=80, hidden=(4,), n_bins=0, max_epochs=2, memory=False, random_state=0, n_jobs=1
    )
    model.fit(X, y)
    model.target_name_ = ARABIC
    return model
