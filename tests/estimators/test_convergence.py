"""Training that diverges warns once per fit."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from usnrt import USNRTEnsemble, USNRTRegressor

SMALL = {"hidden": (4,), "memory": False, "max_epochs": 3}
PAPER = {"mean_hidden": (4,), "variance_hidden": (4,), "split_hidden": (4,), "max_epochs": 3}
MODELS = {
    "tree": lambda rate: USNRTRegressor(**SMALL, learning_rate=rate, random_state=0),
    "paper": lambda rate: USNRTRegressor.paper(**PAPER, learning_rate=rate, random_state=0),
    "ensemble": lambda rate: USNRTEnsemble(
        USNRTRegressor(**SMALL, learning_rate=rate), n_estimators=2, random_state=0, n_jobs=1
    ),
    "ensemble, paper": lambda rate: USNRTEnsemble.paper(
        estimator=USNRTRegressor.paper(**PAPER, learning_rate=rate), n_estimators=2, random_state=0, n_jobs=1
    ),
}


def warned(model):
    """The sentences of a fit's warnings, and where each points to."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, X[:, 0] + 0.1 * rng.normal(size=200))
    assert np.isfinite(model.predict(X)).all()
    return [(w.category, str(w.message), w.filename) for w in caught]


@pytest.mark.parametrize("name", MODELS)
def test_training_that_diverges_warns_once(name):
    model = MODELS[name](1e20)
    ((category, sentence, place),) = warned(model)
    histories = getattr(model, "history_", None)
    assert category is ConvergenceWarning
    assert place == __file__
    start, _, rest = sentence.partition(" trainings (")
    assert start.startswith(f"{type(model).__name__}: the loss became NaN or infinite in ")
    assert rest.endswith("; the last good weights were kept. Use a lower learning_rate, got 1e+20")
    part = {"ensemble": "node 0 member 1 network, ", "ensemble, paper": "member 1 node 0 mean 1, "}.get(name, "node 0 ")
    assert rest.startswith(part)
    if histories is not None:
        courses = [course for node in histories for course in node.values()]
        assert start.endswith(f" {sum(course.diverged for course in courses)} of {len(courses)}")


@pytest.mark.parametrize("name", MODELS)
def test_an_ordinary_fit_does_not_warn(name):
    assert warned(MODELS[name](0.003)) == []
