"""Tables that pages need."""


def write_flats(path):
    """Write generated prices of flats, which are noisy in one district and in old buildings."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 4000
    flats = pd.DataFrame(
        {
            "area": rng.uniform(20, 140, n).round(1),
            "built": rng.integers(1890, 2024, n),
            "district": rng.choice(["Centre", "Harbour", "North", "West"], n, p=[0.2, 0.15, 0.35, 0.3]),
            "floor": rng.integers(0, 8, n).astype(float),
        }
    )
    flats.loc[rng.uniform(size=n) < 0.05, "floor"] = np.nan
    per_m2 = flats["district"].map({"Centre": 6.5, "Harbour": 5.5, "North": 3.5, "West": 4.2})
    per_m2 += 0.8 * (flats["built"] > 1995)
    spread = np.where(flats["district"] == "Harbour", 0.3, np.where(flats["built"] < 1950, 0.15, 0.05))
    flats["price"] = (1000 * per_m2 * flats["area"] * np.exp(spread * rng.normal(size=n))).round(-2)
    flats.to_csv(path, index=False)
