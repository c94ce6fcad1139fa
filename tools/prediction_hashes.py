"""Hashes of the predictions of every kind of fit, on small generated tables: whether a change moved any bit.

    python tools/prediction_hashes.py > before.json        # before a change
    python tools/prediction_hashes.py --compare before.json  # after it: names what moved

Bits depend on the processor and on the versions of libraries, so hashes are compared on one machine only.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.paper import baselines

QUICK: dict[str, Any] = {"random_state": 0, "n_jobs": 1}
SMALL: dict[str, Any] = {"hidden": (32, 16), "max_epochs": 10}


def table(n: int = 1200) -> tuple[pd.DataFrame, pd.Series]:
    """Numbers, missing values, categories and dates; noise that differs."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "c": rng.choice(["x", "y", "z"], n),
            "d": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D"),
        }
    )
    noise = np.where(X["c"] == "x", 2.0, 0.2)
    return X, pd.Series(np.exp(0.5 * X["a"]) + noise * rng.normal(size=n), name="y").clip(lower=0.0)


def cases(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every kind of fit by name; each is made when it is called."""
    X, y = table()
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)

    def tree(**changes: Any) -> USNRTRegressor:
        return USNRTRegressor(**{**SMALL, **QUICK, **changes})

    def of_store() -> Any:
        X.assign(y=y).to_parquet(folder / "rows.parquet")
        from usnrt.tables import streaming
        from usnrt.tree import streamed

        limits = streaming.BLOCK_ROWS, streamed.SAMPLE_ROWS
        streaming.BLOCK_ROWS, streamed.SAMPLE_ROWS = 500, 800
        try:
            return tree().fit(folder / "rows.parquet", y="y")
        finally:
            streaming.BLOCK_ROWS, streamed.SAMPLE_ROWS = limits

    def of_dask() -> Any:
        import dask.dataframe as dd

        return tree().fit(dd.from_pandas(X.assign(y=y), npartitions=3), y="y")

    member = USNRTRegressor(**SMALL)
    yield "tree", lambda: tree().fit(X, y)
    yield "fast", lambda: USNRTRegressor.fast(**QUICK).fit(X, y)
    yield "ensemble", lambda: USNRTEnsemble(member, n_estimators=3, **QUICK).fit(X, y)
    yield "paper", lambda: USNRTRegressor.paper(max_epochs=5, min_samples_leaf=300, **QUICK).fit(X, y)
    paper = USNRTRegressor.paper(max_epochs=3, min_samples_leaf=300)
    yield "paper ensemble", lambda: USNRTEnsemble.paper(estimator=paper, n_estimators=2, **QUICK).fit(X, y)
    for name in ("HNN", "DeepEnsemble", "Evidential", "MCDropout", "ConcreteDropout"):
        yield name, lambda name=name: getattr(baselines, f"{name}Regressor")(**SMALL, **QUICK).fit(X, y)  # type: ignore[misc]
    for name in ("RandomForestVariance", "ExtraTreesVariance"):
        yield name, lambda name=name: getattr(baselines, f"{name}Regressor")(**QUICK).fit(X, y)  # type: ignore[misc]
    yield "bounds", lambda: tree(target_bounds=(0, None)).fit(X, y)
    yield "logarithm", lambda: tree(target_bounds=(0, None), target_transform="log").fit(X, y)
    yield "time", lambda: tree(time_column="d").fit(X, y)
    yield "weights", lambda: tree().fit(X, y, sample_weight=weights)
    yield "groups", lambda: tree().fit(X, y, groups=np.arange(len(y)) // 6)
    yield "calibration rows", lambda: tree(calibration_fraction=0.2).fit(X, y)
    yield "store", of_store
    yield "dask", of_dask


def hashed(model: Any) -> dict[str, str]:
    """Hashes of what a model predicts."""
    X = table(60)[0]
    dist = model.predict_dist(X)
    values = {
        "mean": dist.mean(),
        "quantiles": dist.ppf([0.05, 0.5, 0.95]),
        "interval": model.predict_interval(X),
        **({"region": model.apply(X)} if hasattr(model, "apply") else {}),
        **({"support": model.predict_support(X)["widening"]} if hasattr(model, "predict_support") else {}),
    }
    return {
        name: hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16] for name, value in values.items()
    }


def main() -> None:
    """Print the hashes as JSON, or the differences to earlier ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fit in cases(Path(folder)):
            found[name] = hashed(fit())
            print(name, file=sys.stderr, flush=True)
    if options.compare is None:
        print(json.dumps({"usnrt": usnrt.__version__, "hashes": found}, indent=1))
        return
    before = json.loads(options.compare.read_text())["hashes"]
    moved = [
        f"{case}: {what}"
        for case in before
        for what in before[case]
        if found.get(case, {}).get(what) != before[case][what]
    ]
    print("\n".join(moved) or "no bit moved")
    sys.exit(bool(moved))


if __name__ == "__main__":
    main()
