"""Fitted models that the tests of explanations share."""

import numpy as np
import pandas as pd
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor

SMALL = {"hidden": (16, 8), "n_bins": 4}


def planted(n, seed):
    """The mean depends on x1 and a date, the noise on x0, and nothing on x2."""
    rng = np.random.default_rng(seed)
    x0, x1, x2 = rng.uniform(-1, 1, (3, n))
    day = rng.integers(0, 700, n)
    y = 4 * x1 + 0.003 * day + np.where(x0 > 0, 2.0, 0.2) * rng.normal(size=n)
    dates = pd.Timestamp("2023-01-01") + pd.to_timedelta(day, unit="D")
    kind = np.where(rng.random(n) < 0.3, "b", "a")
    return pd.DataFrame({"x0": x0, "x1": x1, "x2": x2, "day": dates, "kind": kind}), 1000 + 50 * y


@pytest.fixture(scope="session")
def make_planted():
    return planted


@pytest.fixture(scope="session")
def tree():
    """A tree with a memory that keeps its rows."""
    X, y = planted(1200, 0)
    return USNRTRegressor(
        **SMALL, max_epochs=40, min_samples_leaf=300, memory="examples", random_state=0, n_jobs=1
    ).fit(X, pd.Series(y, name="price"))


@pytest.fixture(scope="session")
def remembering():
    """A tree whose memory is used: a step function that a network of one epoch does not learn."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 3))
    y = 10 * np.floor(4 * X[:, 0]) + 100 + 0.1 * rng.normal(size=900)
    return USNRTRegressor(hidden=(16, 8), max_epochs=5, memory="examples", random_state=0, n_jobs=1).fit(X, y), X, y


@pytest.fixture(scope="session")
def ensemble():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 3))
    y = 10 * np.floor(4 * X[:, 0]) + 100 + 0.1 * rng.normal(size=900)
    member = USNRTRegressor(hidden=(16, 8), max_epochs=5, memory=False)
    return USNRTEnsemble(member, n_estimators=2, random_state=0, n_jobs=1).fit(X, y), X, y


@pytest.fixture(scope="session")
def paper_model():
    """A tree of the paper, which keeps no background, and rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    y = X[:, 0] + np.where(X[:, 1] > 0, 1.0, 0.1) * rng.normal(size=400)
    model = USNRTRegressor.paper(min_samples_leaf=100, max_epochs=2, random_state=0, n_jobs=1)
    return model.fit(X, y), X
