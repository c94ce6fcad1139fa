import numpy as np
import pytest

from usnrt import USNRTRegressor, load
from usnrt.calibration.landmarks import MIN_SUBJECTS, Subjects
from usnrt.explain.rows import support_reasons

N_SUBJECTS, N_ROWS = 120, 4


def subjects_and_rows(seed: int, n_subjects: int = N_SUBJECTS) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers of the subject, correlated, and one of the row."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_subjects), N_ROWS)
    size = rng.normal(size=n_subjects)
    weight = size + 0.1 * rng.normal(size=n_subjects)
    return np.column_stack([size[group], weight[group], 3.0 * rng.normal(size=len(group))]), group


@pytest.fixture(scope="module")
def model() -> USNRTRegressor:
    X, group = subjects_and_rows(0)
    y = X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=len(X))
    return USNRTRegressor(hidden=(32,), max_epochs=10, random_state=0, n_jobs=1).fit(X, y, groups=group)


def test_new_subjects_of_the_same_kind_are_like_the_others(model):
    X, _ = subjects_and_rows(2)
    assert model.predict_support(X)["unlike_subjects"].mean() < 0.05


def test_a_subject_unlike_all_others_is_named_and_wider(model, tmp_path):
    ordinary, strange = np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, -0.5, 0.0]])  # each number alone is ordinary
    found = model.predict_support(np.vstack([ordinary, strange]))
    assert found["unlike_subjects"].tolist() == [False, True]
    assert found["supported"].tolist() == [True, False]
    assert found["widening"][1] > 1.0
    assert support_reasons(model, strange)[0][-1] == "its subject is unlike all training subjects in x0, x1"
    model.save(tmp_path / "model.usnrt")
    again = load(tmp_path / "model.usnrt")
    np.testing.assert_array_equal(again.predict_interval(strange), model.predict_interval(strange))


def test_onnx_has_the_support_of_subjects(model):
    onnxruntime = pytest.importorskip("onnxruntime")
    from usnrt.onnx import feeds, to_onnx

    X = np.vstack([subjects_and_rows(3)[0], [[0.5, -0.5, 0.0]]])
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    supported = session.run(["supported"], feeds(model, X))[0]
    np.testing.assert_array_equal(supported.ravel(), model.predict_support(X)["supported"])
    assert not supported.ravel()[-1]


def test_few_subjects_or_no_shared_columns_are_not_compared():
    numbers = np.zeros(3, dtype=bool)
    X, group = subjects_and_rows(0, MIN_SUBJECTS - 1)
    assert Subjects.fit(X, numbers, group) is None
    X, group = subjects_and_rows(0)
    assert Subjects.fit(X, ~numbers, group) is None
    assert Subjects.fit(X[:, 2:], numbers[2:], group) is None
