"""Bad input: each with its own sentence, and no state changed, neither of a fresh model nor of a fitted one."""

import datetime

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import NotFittedError

from usnrt import USNRTRegressor
from usnrt.metrics import crps
from usnrt.tables.reading import as_table

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(60, 3))
Y = RNG.normal(size=60)


def quick(**changes):
    return USNRTRegressor.paper(**{"max_epochs": 2, "random_state": 0, **changes})


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, Y)


def with_value(array, place, value):
    changed = np.array(array, dtype=np.float64)
    changed[place] = value
    return changed


HIDDEN = "must hold ints >= 1 or multiples like '8d', got"


@pytest.mark.parametrize(
    ("parameter", "value", "sentence"),
    [
        ("alpha", 1.5, "alpha must be in (0, 1), got 1.5"),
        ("alpha", "small", "alpha must be in (0, 1), got 'small'"),
        ("alpha", True, "alpha must be in (0, 1), got True"),
        ("max_leaves", 0, "max_leaves must be an int >= 1, got 0"),
        ("max_leaves", 2.5, "max_leaves must be an int >= 1, got 2.5"),
        ("min_samples_leaf", 0, "min_samples_leaf must be an int >= 1 or None, got 0"),
        ("max_depth", -1, "max_depth must be an int >= 0 or None, got -1"),
        (
            "criterion",
            "gini",
            "criterion must be one of 'levene', 'levene-p', 'support', 'cart', got 'gini'",
        ),
        ("center", "mode", "center must be one of 'mean', 'median', got 'mode'"),
        ("step", 0, "step must be an int >= 1, got 0"),
        ("split_hidden", ("8x",), f"split_hidden {HIDDEN} ('8x',)"),
        ("mean_hidden", (0,), f"mean_hidden {HIDDEN} (0,)"),
        ("variance_hidden", None, f"variance_hidden {HIDDEN} None"),
        ("n_alternations", 0, "n_alternations must be an int >= 1, got 0"),
        ("learning_rate", -0.1, "learning_rate must be in (0, inf), got -0.1"),
        ("learning_rate", np.nan, "learning_rate must be in (0, inf), got nan"),
        ("batch_size", 0, "batch_size must be an int in [1, 4096], got 0"),
        ("batch_size", 5000, "batch_size must be an int in [1, 4096], got 5000"),
        ("max_epochs", 0, "max_epochs must be an int >= 1, got 0"),
        ("validation_fraction", 1.0, "validation_fraction must be in (0, 1), got 1.0"),
        (
            "categorical_features",
            [7],
            "categorical_features must be a position below 3, got 7",
        ),
        ("n_jobs", 0, "n_jobs must be an int other than 0 or None, got 0"),
        ("n_jobs", "two", "n_jobs must be an int other than 0 or None, got 'two'"),
        ("verbose", "much", "verbose must be an int >= 0, got 'much'"),
        ("callbacks", 3, "callbacks must be a list of callables or None, got 3"),
        ("callbacks", [3], "callbacks must be a list of callables or None, got [3]"),
        ("random_state", "a", "'a' cannot be used to seed a numpy.random.RandomState instance"),
    ],
)
def test_bad_parameter_values(parameter, value, sentence):
    model = quick().set_params(**{parameter: value})
    before = dict(vars(model))
    with pytest.raises(ValueError) as caught:
        model.fit(X, Y)
    assert str(caught.value) == sentence
    assert vars(model) == before


def test_more_leaves_than_rows(fitted):
    before = dict(vars(fitted))
    fitted.set_params(max_leaves=61)
    with pytest.raises(ValueError) as caught:
        fitted.fit(X, Y)
    assert str(caught.value) == "max_leaves must be at most the number of rows, 60, got 61"
    fitted.set_params(max_leaves=10)
    assert vars(fitted) == before
    # the default is never too much, and every number of rows from 2 on is allowed
    assert quick().fit(X[:2], Y[:2]).n_leaves_ == 1
    assert quick(max_leaves=60).fit(X, Y).n_leaves_ == 1


@pytest.mark.parametrize(
    ("parameter", "value", "sentence"),
    [
        ("hidden", (0,), f"hidden {HIDDEN} (0,)"),
        ("validation", 1.0, "validation must be a float in (0, 1), an int >= 1 or 'auto', got 1.0"),
        ("memory", 1, "memory must be True or False or 'examples', got 1"),
        ("n_bins", -1, "n_bins must be an int >= 0, got -1"),
        ("calibration", "leaf", "calibration must be one of 'region', 'global' or None, got 'leaf'"),
        ("calibration_fraction", 1, "calibration_fraction must be in [0, 1), got 1"),
    ],
)
def test_bad_parameter_values_of_our_estimator(parameter, value, sentence):
    model = USNRTRegressor(max_epochs=2).set_params(**{parameter: value})
    with pytest.raises(ValueError) as caught:
        model.fit(None, None)  # parameters are checked before any data is read
    assert str(caught.value) == sentence


def test_parameters_that_do_not_go_together():
    with pytest.raises(ValueError) as caught:
        quick(criterion="cart", center="median").fit(X, Y)
    needed = "criterion='levene' or criterion='levene-p'"
    assert str(caught.value) == f"center applies to {needed} only, got 'median' with criterion='cart'"


TABLES = {
    "NaN in y": (X, with_value(Y, 4, np.nan), None, "y must be finite, got y[4]=nan (Input y contains NaN"),
    "infinity in y": (X, with_value(Y, 0, -np.inf), None, "y must be finite, got y[0]=-inf (Input y contains NaN"),
    "text in y": (X, ["a"] * 60, None, "y must hold numbers, got y[0]='a'"),
    "dates in y": (
        X,
        pd.Series(pd.to_datetime(["2015-12-31"] * 60), name="sold"),
        None,
        "y must hold numbers, got dates in 'sold'; ",
    ),
    "date objects in y": (X, [datetime.date(2015, 12, 31)] * 60, None, "y must hold numbers, got dates; convert them"),
    "durations in y": (
        X,
        np.ones(60, dtype="timedelta64[s]"),
        None,
        "y must hold numbers, got durations; convert them",
    ),
    "no y": (X, None, None, "This PaperUSNRTRegressor estimator requires y to be passed, but the target y is None."),
    "two targets": (
        X,
        np.ones((60, 2)),
        None,
        "y should be a 1d array, got an array of shape (60, 2): for several targets",
    ),
    "no rows": (X[:0], Y[:0], None, "Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required by"),
    "no columns": (X[:, :0], Y, None, "Found array with 0 feature(s) (shape=(60, 0)) while a minimum of 1 is required"),
    "one row": (X[:1], Y[:1], None, "PaperUSNRTRegressor needs at least 2 rows, got n_samples=1"),
    "lengths differ": (X, Y[:5], None, "Found input variables with inconsistent numbers of samples: [60, 5]"),
    "one dimension": (X[:, 0], Y, None, "Expected 2D array, got 1D array instead:"),
    "three dimensions": (
        X[None],
        Y,
        None,
        "Found array with dim 3",  # the rest depends on the version of scikit-learn
    ),
    "infinity in X": (with_value(X, (3, 1), np.inf), Y, None, "X must be finite, but column 'x1' holds infinity"),
    "a list in X": (
        np.array([[[1], 2.0], [[3], 4.0]], dtype=object),
        Y[:2],
        None,
        "argument must be a string or a number, but column 'x0' holds a list",
    ),
    "sparse X": (csr_matrix(X), Y, None, "Sparse data was passed for X, but dense data is required."),
    "negative weight": (X, Y, -np.ones(60), "Negative values in data passed to `sample_weight`."),
    "no weight at all": (
        X,
        Y,
        np.zeros(60),
        # of scikit-learn from 1.7 on, of the library before
        ("Sample weights must contain at least one non-zero number.", "sample_weight must be positive for at least"),
    ),
    "NaN as weight": (X, Y, with_value(np.ones(60), 0, np.nan), "Input sample_weight contains NaN."),
    "too few weights": (X, Y, np.ones(5), "sample_weight.shape == (5,), expected (60,)!"),
    "too large a weight": (
        X,
        Y,
        with_value(np.ones(60), 3, 1e308),
        "sample_weight must add up to at most 2**53, got a weight of 1e+308; divide the weights by a constant",
    ),
    "weights that overflow": (X, Y, np.full(60, 1e308), "sample_weight must add up to at most 2**53, got a weight of"),
    "masked target": (X, np.ma.array(Y, mask=np.arange(60) == 4), None, "y must be finite, got y[4]=nan (Input y"),
    "masked weight": (X, Y, np.ma.array(np.ones(60), mask=np.arange(60) == 4), "Input sample_weight contains NaN."),
    "tiny target": (X, Y * 1e-310, None, "y must differ by at least 1e-150, got 3.2e-310; multiply it by a constant"),
    "huge target": (X, Y * 1e200, None, "y must be at most 1e+150 in size, got "),
    "surrogate": (
        pd.DataFrame({"a": ["b", "\ud800c"] * 30}, dtype=object),
        Y,
        None,
        r"X must hold valid text in column 'a', got a lone surrogate in '\ud800c'",
    ),
    "surrogate in a name": (
        pd.DataFrame(X, columns=["a", "b", "\udfff"]),
        Y,
        None,
        r"X must have column names that are valid text, got a lone surrogate in '\udfff'",
    ),
    "complex X": (X + 1j, Y, None, "Complex data not supported, but X holds complex numbers"),
    "complex y": (X, Y + 1j, None, "Complex data not supported, but y holds complex numbers"),
    "complex weight": (X, Y, Y + 1j, "Complex data not supported, but sample_weight holds complex numbers"),
    "ragged X": ([[1, 2], [3]], Y[:2], None, "X must have rows of equal length, got 2 values in row 0 and 1 in row 1"),
    "ragged y": (X[:2], [1.0, [2, 3]], None, "y must have rows of equal length, got one value in row 0 and 2 in row 1"),
    "one row has weight": (X, Y, np.eye(60)[0], "PaperUSNRTRegressor needs at least 2 rows with a positive weight"),
}


@pytest.mark.parametrize("kind", [float, int, object])
def test_masked_values_of_x_are_missing(kind):
    table = np.round(X * 9).astype(kind)
    masked = np.ma.array(table, mask=np.zeros(X.shape, dtype=bool))
    masked[:20, 1] = np.ma.masked
    masked.data[:20, 1] = 1_000_000  # what is under a mask does not count
    table = table.astype(float)
    table[:20, 1] = np.nan
    one, other = quick().fit(masked, Y), quick().fit(table, Y)
    assert [column.has_missing for column in one.columns_] == [False, True, False]
    np.testing.assert_array_equal(one.predict(masked), other.predict(table))


def test_masks_of_other_types_are_missing():
    mask = [[False], [True], [False]]
    for values in ([["a"], ["b"], ["c"]], [[True], [False], [True]], np.array([["2020-01-01"]] * 3, dtype="M8[D]")):
        column = as_table(np.ma.array(values, mask=mask)).column(0)
        assert pd.isna(column.values).tolist() == [False, True, False]


def test_masked_truth_is_refused():
    with pytest.raises(ValueError, match=r"^y_true must be finite, got NaN or infinity$"):
        crps(np.ma.array([1.0, 2.0], mask=[False, True]), mean=[1.0, 2.0], std=[1.0, 1.0])


@pytest.mark.parametrize(("table", "y", "weight", "sentence"), TABLES.values(), ids=TABLES)
def test_bad_tables_leave_every_model_as_it_was(table, y, weight, sentence, fitted):
    fresh = quick()
    before, answers = dict(vars(fitted)), fitted.predict(X, return_std=True)
    for model in (fresh, fitted):
        with pytest.raises((ValueError, TypeError)) as caught:
            model.fit(table, y, sample_weight=weight)
        assert str(caught.value).startswith(sentence)
    assert vars(fresh) == vars(quick())
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert vars(fitted) == before
    np.testing.assert_array_equal(fitted.predict(X, return_std=True), answers)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (X[:, :2], "X has 2 features, but PaperUSNRTRegressor is expecting 3 features as input."),
        (X[:0], "Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required by PaperUSNRTRegressor."),
        (X[0], "Expected 2D array, got 1D array instead:"),
        ([["a", "b", "c"]], "column 'x0' must hold numbers as in fit, but it holds text"),
        (with_value(X, (0, 2), np.inf), "X must be finite, but column 'x2' holds infinity"),
    ],
)
@pytest.mark.parametrize("method", ["predict", "predict_dist", "predict_interval", "predict_variance", "apply"])
def test_bad_questions(fitted, method, asked, sentence):
    before = dict(vars(fitted))
    with pytest.raises(ValueError) as caught:
        getattr(fitted, method)(asked)
    assert str(caught.value).startswith(sentence)
    assert vars(fitted) == before


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            "abd",
            "The feature names should match those that were passed during fit.\nFeature names unseen at fit time:\n- d",
        ),
        (
            "acb",
            "The feature names should match those that were passed during fit.\nFeature names must be in the same or",
        ),
    ],
)
def test_other_names_at_predict(names, sentence):
    model = quick().fit(pd.DataFrame(X, columns=list("abc")), Y)
    with pytest.raises(ValueError) as caught:
        model.predict(pd.DataFrame(X, columns=list(names)))
    assert str(caught.value).startswith(sentence)


def test_arrays_for_a_model_that_knows_names_are_warned_of():
    model = quick().fit(pd.DataFrame(X, columns=list("abc")), Y)
    with pytest.warns(UserWarning, match="^X does not have valid feature names, but PaperUSNRTRegressor was fitted"):
        model.predict(X)


@pytest.mark.parametrize(
    "method",
    ["predict", "predict_dist", "predict_interval", "predict_variance", "predict_support", "apply", "decision_path"],
)
def test_asking_before_fit(method):
    with pytest.raises(NotFittedError, match="^This PaperUSNRTRegressor instance is not fitted yet"):
        getattr(quick(), method)(X)


@pytest.mark.parametrize("method", ["rules", "get_depth", "get_n_leaves"])
def test_reading_before_fit(method):
    with pytest.raises(NotFittedError, match="^This PaperUSNRTRegressor instance is not fitted yet"):
        getattr(quick(), method)()


def test_unknown_parameters():
    with pytest.raises(TypeError, match="unexpected keyword argument 'leaves'"):
        USNRTRegressor.paper(leaves=3)
    with pytest.raises(ValueError, match="^Invalid parameter 'leaves' for estimator USNRTRegressor"):
        USNRTRegressor().set_params(leaves=3)
