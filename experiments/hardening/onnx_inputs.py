"""Damaged inputs of exported graphs and of the function that makes them: a clear error or a sensible prediction.

    python experiments/hardening/onnx_inputs.py --count 10000

Inputs of a wrong type, shape or name must be refused by onnxruntime, and tables of wrong types or columns by
`usnrt.onnx.feeds` in one sentence. Inputs that a graph takes, with missing, infinite, extreme and unseen values, must
give finite means, quantiles that rise, and what the model itself predicts. Every case is made of one number, which is
printed if it fails; ``--first N --count 1`` repeats it.
"""

import warnings
from functools import partial

import numpy as np
from cases import run_cases
from invariants import Broken, check, check_sentence

ODD_NUMBERS = [np.nan, 0.0, -0.0, 1e30, -1e30, 5e-324, 1e308, -1e308]
ODD_TEXTS = ["", "unseen", "a ", "A", "\x00", "ß" * 1000, "nan", "None", "\ud7ff"]
ODD_DATES = [np.iinfo(np.int64).min, 0, -(10**16), 4 * 10**15, 10**15]


def make_models():
    """A model of numbers, and one of numbers, text and dates, with their sessions and tables."""
    import onnxruntime as ort
    import pandas as pd

    import usnrt

    rng, n = np.random.default_rng(0), 300
    numbers = rng.normal(size=(n, 3))
    mixed = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "kind": rng.choice(["a", "b", "c"], n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    quick = {"hidden": (8,), "max_epochs": 2, "n_jobs": 1, "random_state": 0}
    found = []
    for X, more in ((numbers, {}), (mixed, {"target_bounds": (0, None)})):
        y = np.abs((numbers[:, 0] if X is numbers else mixed["size"].to_numpy()) + rng.normal(size=n))
        model = usnrt.USNRTRegressor(**quick, **more).fit(X, y)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        proto = model.to_onnx().SerializeToString()
        found.append((model, ort.InferenceSession(proto, options, providers=["CPUExecutionProvider"]), X))
    return found


def odd_table(X, rng, n):
    """Rows with odd values that a graph takes."""
    if isinstance(X, np.ndarray):
        rows = X[rng.integers(0, len(X), n)].copy()
        odd = rng.random(rows.shape) < 0.3
        rows[odd] = rng.choice(ODD_NUMBERS, int(odd.sum()))
        return rows
    rows = X.iloc[rng.integers(0, len(X), n)].reset_index(drop=True)
    odd = rng.random((3, n)) < 0.3
    rows.loc[odd[0], "size"] = rng.choice(ODD_NUMBERS, int(odd[0].sum()))
    rows["kind"] = rows["kind"].astype(object)
    rows.loc[odd[1], "kind"] = rng.choice(np.array([*ODD_TEXTS, None], dtype=object), int(odd[1].sum()))
    rows.loc[odd[2], "day"] = np.datetime64("NaT") if rng.random() < 0.5 else np.datetime64("1850-03-01")
    return rows


def odd_values(model, session, X, rng):
    """Odd values: the graph predicts what the model does."""
    from usnrt.onnx import feeds

    rows = odd_table(X, rng, int(rng.integers(1, 6)))
    mean, std, region, quantiles, supported = session.run(None, feeds(model, rows))
    expected, spread = model.predict(rows, return_std=True)
    size = np.abs(expected) + spread
    check(np.isfinite(mean) & (std >= 0), "the moments of the graph are numbers")
    check(np.diff(quantiles, axis=1) >= 0, "quantiles of the graph rise")
    check(region == model.apply(rows), "the graph has the region of the model")
    check(supported == model.predict_support(rows)["supported"], "the graph has the support of the model")
    check(np.abs(mean - expected) <= 1e-3 * size, "the graph has the mean of the model")
    return "predicted as by the model"


def infinite_values(model, session, X, rng):
    """Infinite numbers and dates beyond any calendar, which only a graph takes."""
    from usnrt.onnx import feeds

    inputs = feeds(model, X[:4])
    for name, values in inputs.items():
        values = values.copy()
        if values.dtype == np.float64:
            values.ravel()[rng.integers(values.size)] = rng.choice([np.inf, -np.inf, np.nan])
        elif values.dtype == np.int64:
            values[rng.integers(len(values))] = rng.choice(ODD_DATES)
        inputs[name] = values
    mean, std, region, quantiles, _ = session.run(None, inputs)
    check(np.isfinite(mean) & (std >= 0), "the moments of the graph are numbers")
    check(np.diff(quantiles, axis=1) >= 0, "quantiles of the graph rise")
    check(np.isin(region, model.tree_.leaves), "the graph has regions of the model")
    return "predicted, infinite values"


def wrong_inputs(model, session, X, rng):
    """Wrong types, shapes and names are refused."""
    from usnrt.onnx import feeds

    inputs = feeds(model, X[:3])
    name, how = str(rng.choice(list(inputs))), int(rng.integers(7))
    values = inputs[name]
    if how == 0:
        inputs[name] = (
            values.astype(np.float32 if values.dtype != object else "S3") if values.dtype != object else np.arange(3.0)
        )
    elif how == 1:
        inputs[name] = values.reshape(*values.shape, 1)
    elif how == 2:
        del inputs[name]
    elif how == 3:
        inputs["other"] = values
    elif how == 4:
        inputs[name] = np.array(7.0)
    elif how == 5:
        inputs[name] = values.astype(bool) if values.dtype != object else np.array([b"a", b"b", 3], dtype=object)
    else:
        inputs[name] = values[:, :-1] if values.ndim == 2 else values[:, None]
    try:
        session.run(None, inputs)
    except Exception as error:
        check(0 < len(str(error)) < 5000, "an error has a sentence")
        return f"refused by onnxruntime: {type(error).__name__}"
    return f"accepted a wrong input ({how})"


def wrong_tables(model, session, X, rng):
    """Tables of other columns or types are refused by `feeds` in one sentence."""
    import pandas as pd

    from usnrt.onnx import feeds

    as_frame = pd.DataFrame(X)
    tables = [
        lambda: np.ones((2, 7)), lambda: [["x", "y", "z"]], lambda: np.full((2, 3), np.inf), lambda: "rows.csv",
        lambda: as_frame.iloc[:, :2], lambda: as_frame.assign(more=1), lambda: np.ones((0, 3)), lambda: None,
        lambda: np.array([[1 + 2j, 0, 0]]), lambda: as_frame.astype(str), lambda: [[1, [2], 3]], lambda: np.ones(3),
    ]  # fmt: skip
    which = int(rng.integers(len(tables)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = feeds(model, tables[which]())
    except Exception as error:
        check_sentence(error)
        return f"refused by feeds: {type(error).__name__}"
    check(all(len(values) for values in found.values()), "inputs have rows")
    return f"feeds accepts table {which}"


KINDS = (odd_values, infinite_values, wrong_inputs, wrong_tables)


def run_case(number, models):
    """What became of a case, and a sentence if it should not be so."""
    rng = np.random.default_rng([13, number])
    kind = KINDS[rng.integers(len(KINDS))]
    try:
        return f"{kind.__name__}: {kind(*models[rng.integers(2)], rng)}", None
    except Exception as error:
        name = "" if isinstance(error, Broken) else f"{type(error).__name__}: "
        return f"{kind.__name__}: FAILED", f"{kind.__name__}: {name}{str(error)[:200]}"


if __name__ == "__main__":
    run_cases(__doc__, 10_000, partial(run_case, models=make_models()))
