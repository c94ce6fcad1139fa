"""Random small models of all estimators."""

import usnrt
from usnrt.paper import baselines

NETWORKS = ("HNNRegressor", "DeepEnsembleRegressor", "MCDropoutRegressor", "ConcreteDropoutRegressor",
            "EvidentialRegressor")  # fmt: skip
FORESTS = ("RandomForestVarianceRegressor", "ExtraTreesVarianceRegressor")


def random_model(rng, target, kind, time_column):
    """An unfitted model, and the bounds of the target that it was given.

    Trees are drawn most often: they have the most parameters.
    """
    seed = int(rng.integers(1000))
    drawn = rng.random()
    if drawn < 0.25:
        name = str(rng.choice(NETWORKS + FORESTS))
        return _baseline(rng, name, seed), (None, None)
    if drawn < 0.4:
        tree = usnrt.PaperUSNRTRegressor(**_paper(rng, seed))
        return (usnrt.PaperUSNRTEnsemble(tree, n_estimators=2, random_state=seed) if drawn < 0.3 else tree), (
            None,
            None,
        )
    bounds, transform = _target_settings(rng, target, kind)
    about = {"target_bounds": bounds, "target_transform": transform, "time_column": time_column}
    if drawn < 0.5:
        tree = usnrt.USNRTRegressor(**_tree(rng, None), n_jobs=-1)
        model = usnrt.USNRTEnsemble(tree, n_estimators=int(rng.integers(2, 4)), random_state=seed, **about)
    else:
        fraction = float(rng.choice([0.0, 0.0, 0.3]))
        model = usnrt.USNRTRegressor(**_tree(rng, fraction), **about, random_state=seed)
    return model, bounds or (None, None)


def _tree(rng, calibration_fraction):
    parameters = {
        "max_epochs": int(rng.choice([1, 3, 8])),
        "hidden": [(8,), (16, 8)][rng.integers(2)],
        "n_bins": int(rng.choice([0, 4, 16])),
        "memory": [True, False, "examples"][rng.integers(3)],
        "alpha": float(rng.choice([0.01, 0.5])),
        "max_depth": [None, None, 0, 1][rng.integers(4)],
    }
    if rng.random() < 0.5:
        parameters["min_samples_leaf"] = int(rng.choice([5, 20, 100]))
    if calibration_fraction is not None:
        parameters["calibration"] = [None, "global", "region", "region"][rng.integers(4)]
        if parameters["calibration"]:
            parameters["calibration_fraction"] = calibration_fraction
    return parameters


def _paper(rng, seed):
    criterion = str(rng.choice(["levene", "support", "cart"]))
    return {
        "max_epochs": int(rng.choice([1, 4])),
        "criterion": criterion,
        "center": str(rng.choice(["mean", "median"])) if criterion == "levene" else "mean",
        "mean_hidden": ("2d",), "variance_hidden": ("2d",), "split_hidden": ("2d",),
        "max_leaves": int(rng.choice([1, 2, 5])), "random_state": seed,
    }  # fmt: skip


def _baseline(rng, name, seed):
    make = getattr(baselines, name)
    calibrate = bool(rng.integers(2))
    if name in FORESTS:
        return make(n_estimators=5, calibrate=calibrate, random_state=seed)
    more = {"n_passes": 10} if "Dropout" in name else {"n_members": 2} if "Ensemble" in name else {}
    if name != "MCDropoutRegressor":  # there it applies to another recipe only
        more["calibrate"] = calibrate
    return make(hidden=(8,), max_epochs=3, random_state=seed, **more)


def _target_settings(rng, target, kind):
    """Bounds and transform that the targets allow, for half of the models none."""
    if rng.random() < 0.4:
        return None, None
    low, high = float(target.min()), float(target.max())
    transform = [None, "log", "auto"][rng.integers(3)]
    if kind in ("share", "binary"):
        return (0.0, 1.0), transform
    if low >= 0:
        return [(0, None), (0, None), (0, high * 2 + 1), None][rng.integers(4)], transform
    return [(low, None), (None, high), (low, high), None][rng.integers(4)] if low < high else None, None
