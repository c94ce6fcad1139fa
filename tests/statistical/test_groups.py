"""Coverage of 90 % intervals for rows of new subjects, and of new design points."""

import numpy as np
import pytest

from usnrt import USNRTEnsemble, USNRTRegressor

SMALL = {"hidden": (64, 32), "max_epochs": 30}
N_TABLES, N_NEW = 24, 300


def mean_of(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] - 0.5 * X[:, 2] * X[:, 3]


def equal_features(rng, n_groups=200):
    """Ten rows of each subject, all with its features; subjects differ by more than the columns explain."""
    group = np.repeat(np.arange(n_groups), 10)
    X = rng.normal(size=(n_groups, 4))[group]
    return X, mean_of(X) + rng.normal(size=n_groups)[group] + 0.1 * rng.normal(size=len(group)), group


def replicates(rng, n_groups=150):
    """Eight measurements of each design point, without an effect of the point itself."""
    group = np.repeat(np.arange(n_groups), 8)
    X = rng.normal(size=(n_groups, 4))[group]
    return X, mean_of(X) + 0.3 * rng.normal(size=len(group)), group


def visits(rng, n_groups=100):
    """Twenty rows of each subject, with four features of the subject and two of the row."""
    group = np.repeat(np.arange(n_groups), 20)
    X = np.column_stack([rng.normal(size=(n_groups, 4))[group], rng.normal(size=(len(group), 2))])
    level = rng.normal(size=n_groups)[group]
    return X, mean_of(X) + X[:, 4] - 0.5 * X[:, 5] + level + 0.1 * rng.normal(size=len(group)), group


def independent(rng, n_groups=200):
    """Ten rows under each label, which means nothing."""
    group = np.repeat(np.arange(n_groups), 10)
    X = rng.normal(size=(len(group), 4))
    return X, mean_of(X) + 0.3 * rng.normal(size=len(group)), group


def fitted(kind, X, y, group, seed):
    if kind == "ensemble":
        return USNRTEnsemble(USNRTRegressor(**SMALL), random_state=seed, n_jobs=1).fit(X, y, groups=group)
    fraction = 0.2 if kind == "calibration rows" else 0.0
    model = USNRTRegressor(**SMALL, calibration_fraction=fraction, random_state=seed, n_jobs=1)
    return model.fit(X, y, groups=None if kind == "no groups" else group)


def coverages(make, kind):
    """Coverage on rows of new subjects, one number per table."""
    shares = []
    for seed in range(N_TABLES):
        rng = np.random.default_rng([seed, 17])
        model = fitted(kind, *make(rng), seed)
        X, y, _ = make(rng, N_NEW)
        low, high = model.predict_interval(X, 0.9).T
        shares.append(np.mean((low <= y) & (y <= high)))
    print(f"{make.__name__}, {kind}: {np.mean(shares):.4f} ± {np.std(shares, ddof=1) / np.sqrt(N_TABLES):.4f}")
    return np.array(shares)


def error(n_scores):
    """Standard error of the mean coverage over tables: of order statistics of that many scores, and of new subjects."""
    return np.sqrt(0.09 * (1 / (n_scores + 2) + 1 / N_NEW) / N_TABLES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.UnguaranteedIntervalWarning")
@pytest.mark.parametrize("kind", ["groups", "calibration rows", "ensemble"])
@pytest.mark.parametrize("make", [equal_features, replicates, visits])
def test_intervals_cover_rows_of_new_subjects(make, kind):
    n_scores = len(np.unique(make(np.random.default_rng(0))[2])) * (1.0 if kind == "ensemble" else 0.2)
    shares = coverages(make, kind)
    approximate = 0.0 if kind == "calibration rows" else 0.01
    assert np.mean(shares) >= 0.9 - approximate - 3 * error(n_scores)
    assert np.mean(shares) <= 0.9 + 2 / n_scores + 3 * error(n_scores)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.UnguaranteedIntervalWarning")
@pytest.mark.parametrize("make", [equal_features, replicates])
def test_rows_with_equal_features_need_no_groups(make):
    n_scores = 0.2 * len(np.unique(make(np.random.default_rng(0))[2]))
    assert np.mean(coverages(make, "no groups")) >= 0.89 - 3 * error(n_scores)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.GroupedRowsWarning")
def test_without_groups_visits_are_not_covered():
    """The planted case: rows of seen subjects calibrate intervals that are too narrow for new ones."""
    assert np.mean(coverages(visits, "no groups")) < 0.8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::usnrt.utils.notices.UnguaranteedIntervalWarning")
@pytest.mark.parametrize("kind", ["no groups", "groups", "ensemble"])
def test_labels_without_meaning_do_not_change_coverage(kind):
    """The null case; when each group counted as one score, 90 % intervals covered 95 %."""
    assert abs(np.mean(coverages(independent, kind)) - 0.9) < 0.01 + 3 * error(400)


@pytest.mark.slow
def test_calibration_rows_pay_for_their_guarantee():
    """It holds whatever rows of a group have in common, and costs up to 2 / (groups + 1) where that is nothing."""
    share = np.mean(coverages(independent, "calibration rows"))
    assert 0.9 <= share <= 0.9 + 2 / 41 + 3 * error(400)
