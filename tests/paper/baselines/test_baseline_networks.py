"""What the network models promise: accuracy where the truth is known, seeds, threads, warnings, recipes."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from usnrt.datasets import make_heteroscedastic
from usnrt.distributions import Mixture, Normal, StudentT
from usnrt.paper import baselines
from usnrt.paper.baselines._shared import PAPER_TRAINING, max_likelihood_spread, stretched, validation_split
from usnrt.paper.baselines.dropout import max_likelihood_noise
from usnrt.tables.training import TrainingTable

NETWORKS = {
    "hnn": baselines.HNNRegressor,
    "ensemble": baselines.DeepEnsembleRegressor,
    "mc dropout": baselines.MCDropoutRegressor,
    "concrete dropout": baselines.ConcreteDropoutRegressor,
    "evidential": baselines.EvidentialRegressor,
}
SMALL = {"hidden": (32, 16), "max_epochs": 60, "learning_rate": 0.01, "random_state": 0}
FEWER = {"ensemble": {"n_members": 3}, "mc dropout": {"n_passes": 100}, "concrete dropout": {"n_passes": 100}}


def small(name, **changes):
    return NETWORKS[name](**{**SMALL, **FEWER.get(name, {}), **changes})


@pytest.fixture(scope="module")
def smooth():
    return make_heteroscedastic("smooth", 3000, 3, random_state=0)


@pytest.fixture(scope="module")
def fitted(smooth):
    models = {}

    def fit(name):
        if name not in models:
            models[name] = small(name).fit(smooth.data, smooth.target)
        return models[name]

    return fit


# Error of the mean in units of the noise; error of the logarithm of the std. MC dropout knows one noise for all rows.
@pytest.mark.parametrize(
    ("name", "mean_error", "log_std_error"),
    [
        ("hnn", 0.35, 0.25),
        ("ensemble", 0.25, 0.25),
        ("mc dropout", 0.7, 1.0),
        ("concrete dropout", 0.35, 0.25),
        ("evidential", 0.35, 0.3),
    ],
)
def test_mean_and_std_of_a_known_truth_are_learnt(name, mean_error, log_std_error, fitted):
    fresh = make_heteroscedastic("smooth", 2000, 3, random_state=1)
    mean, std = fitted(name).predict(fresh.data, return_std=True)
    true_mean, true_std = fresh.truth.mean(fresh.data), fresh.truth.std(fresh.data)
    assert np.sqrt(np.mean(((mean - true_mean) / true_std) ** 2)) < mean_error
    assert np.sqrt(np.mean(np.log(std / true_std) ** 2)) < log_std_error
    covered = fitted(name).predict_interval(fresh.data, 0.9)
    inside = (covered[:, 0] <= fresh.target) & (fresh.target <= covered[:, 1])
    assert inside.mean() == pytest.approx(0.9, abs=0.03)


def test_epistemic_variance_grows_away_from_the_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1000, 3))
    model = small("ensemble").fit(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=1000))
    ways = np.sign(rng.normal(size=(50, 3)))
    near, far, farther = (model.predict_variance(x * ways)["epistemic"].mean() for x in (0.5, 1.6, 2.6))
    assert far > 2 * near
    assert farther > far


def test_more_rows_mean_smaller_rates_and_less_doubt():
    few, many = (make_heteroscedastic("smooth", n, 3, random_state=0) for n in (100, 3000))
    models = [small("concrete dropout", calibrate=False).fit(data.data, data.target) for data in (few, many)]
    assert models[1].rates_.mean() < models[0].rates_.mean()
    doubt = [model.predict_variance(many.data)["epistemic"].mean() for model in models]
    assert doubt[1] < doubt[0]


@pytest.mark.parametrize("name", NETWORKS)
def test_parts_of_the_variance(name, fitted, smooth):
    parts = fitted(name).predict_variance(smooth.data[:50])
    if name == "hnn":
        assert np.isnan(parts["epistemic"]).all()
        np.testing.assert_allclose(parts["aleatoric"], parts["total"], rtol=1e-12)
    else:
        np.testing.assert_allclose(parts["aleatoric"] + parts["epistemic"], parts["total"], rtol=1e-9)
        assert (parts["epistemic"] > 0).all()


def test_families_of_the_answers(fitted, smooth):
    kinds = {name: type(fitted(name).predict_dist(smooth.data[:2])) for name in NETWORKS}
    assert kinds == {
        "hnn": Normal, "ensemble": Mixture, "mc dropout": Normal, "concrete dropout": Normal, "evidential": StudentT,
    }  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_a_seed_fixes_every_bit_whatever_the_number_of_threads(name, smooth):
    data = smooth.data[:200], smooth.target[:200]
    answers = [
        small(name, max_epochs=3, n_jobs=n_jobs, random_state=seed).fit(*data).predict_dist(smooth.data[:600])
        for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    ]
    np.testing.assert_array_equal(answers[0].mean(), answers[1].mean())
    np.testing.assert_array_equal(answers[0].std(), answers[1].std())
    assert (answers[0].mean() != answers[2].mean()).any()


@pytest.mark.parametrize("name", ["mc dropout", "concrete dropout"])
def test_a_rows_answer_does_not_depend_on_its_company(name, fitted, smooth):
    together = fitted(name).predict(smooth.data[:300], return_std=True)
    alone = fitted(name).predict(smooth.data[280:281], return_std=True)
    assert (alone[0][0], alone[1][0]) == (together[0][280], together[1][280])


@pytest.mark.parametrize("name", ["concrete dropout", "evidential"])
@pytest.mark.parametrize("scale", [1e-120, 1e-6, 1e6, 1e120])
def test_answers_are_finite_whatever_the_scale_of_the_target(name, scale, smooth):
    data = smooth.data[:300], smooth.target[:300] * scale
    model = small(name, max_epochs=5).fit(*data)
    far = np.vstack([smooth.data[:50], 1e300 * np.ones((1, 3)), -1e300 * np.ones((1, 3))])
    mean, std = model.predict(far, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert np.corrcoef(mean[:50] / scale, smooth.truth.mean(smooth.data[:50]))[0, 1] > 0.7


@pytest.mark.parametrize("name", NETWORKS)
def test_a_run_that_diverges_keeps_good_weights_and_warns_once(name, smooth):
    model = small(name, learning_rate=1e30, schedule="constant", max_epochs=5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(smooth.data[:300], smooth.target[:300])
    messages = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert len(messages) == 1
    assert messages[0].startswith(f"{type(model).__name__}: the loss became NaN or infinite in ")
    assert messages[0].endswith("the last good weights were kept. Use a lower learning_rate, got 1e+30")
    mean, std = model.predict(smooth.data, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_callbacks_see_every_epoch_and_may_stop_the_fit(name, smooth):
    seen = []
    data = smooth.data[:200], smooth.target[:200]
    model = small(name, max_epochs=2, callbacks=[seen.append]).fit(*data)
    epochs = sum(len(course.train_loss) for trainings in model.history_.values() for course in trainings.values())
    assert len(seen) == epochs > 0
    assert {event.node for event in seen} == set(model.history_)

    def refuse(event):
        raise RuntimeError(f"enough at {event.epoch}")

    before = model.predict(smooth.data[:5])
    with pytest.raises(RuntimeError, match="^enough at 0$"):
        model.set_params(callbacks=[refuse], n_jobs=2).fit(*data)
    np.testing.assert_array_equal(model.predict(smooth.data[:5]), before)


def test_verbose_tells_of_every_member(smooth, capsys):
    small("ensemble", max_epochs=1, verbose=1, n_jobs=1).fit(smooth.data[:100], smooth.target[:100])
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [f"member {i} (100 rows): trained" for i in (1, 2, 3)]
    assert lines[3].startswith("fitted in ")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("hnn", {"hidden": ("8d", "4d"), "n_alternations": 2}),
        ("ensemble", {"hidden": ("8d", "4d"), "n_alternations": 2, "n_members": 5}),
        ("mc dropout", {"hidden": ("8d", "16d", "4d"), "rate": 0.5, "n_passes": 1000, "observation_noise": False}),
        ("concrete dropout", {"hidden": ("8d", "4d"), "n_passes": 1000}),
        ("evidential", {"hidden": ("8d", "4d"), "lam": 0.01}),
    ],
)
def test_the_papers_recipes(name, own):
    model = NETWORKS[name].paper(random_state=42)
    expected = {**PAPER_TRAINING, **own, "random_state": 42}
    assert {key: model.get_params()[key] for key in expected} == expected
    assert (model.learning_rate, model.batch_size, model.max_epochs, model.patience) == (0.01, 64, 1000, None)
    assert NETWORKS[name].paper(learning_rate=0.5).learning_rate == 0.5


def test_members_of_the_papers_ensemble_hold_out_other_rows(smooth):
    # With one epoch of a learning rate next to 0 only the first weights and the validation rows make losses differ.
    quick = {"n_members": 2, "max_epochs": 1, "n_alternations": 1}
    data = smooth.data[:200], smooth.target[:200]
    shared, own = (small("ensemble", calibrate=calibrate, **quick).fit(*data) for calibrate in (True, False))
    first, second = ([m["mean 1"].valid_loss[0] for m in model.history_.values()] for model in (shared, own))
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_calibration_makes_validation_rows_most_likely(smooth):
    dist = Normal(smooth.truth.mean(smooth.data), smooth.truth.std(smooth.data) * 3.0)
    factor = max_likelihood_spread(dist, smooth.target, np.ones(3000))
    assert factor == pytest.approx(1 / 3, rel=0.03)
    narrow = stretched(dist, factor)
    np.testing.assert_allclose(narrow.mean(), dist.mean(), rtol=1e-12)
    np.testing.assert_allclose(narrow.std(), dist.std() * factor, rtol=1e-12)


def test_noise_of_mc_dropout_is_the_maximum_likelihood_estimate():
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.1, 2.0, 20_000)
    residual = rng.normal(size=20_000) * np.sqrt(variance + 0.7)
    assert max_likelihood_noise(residual**2, variance, np.ones(20_000)) == pytest.approx(0.7, rel=0.05)


def test_mc_dropout_of_the_paper_counts_the_passes_only(smooth):
    model = NETWORKS["mc dropout"].paper(hidden=(16,), max_epochs=2, n_passes=20, random_state=0)
    parts = model.fit(smooth.data[:200], smooth.target[:200]).predict_variance(smooth.data[:10])
    np.testing.assert_array_equal(parts["aleatoric"], 0.0)
    np.testing.assert_allclose(parts["epistemic"], parts["total"], rtol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("n_rows", [2, 6])
def test_few_rows_are_enough(name, n_rows, smooth):
    mean, std = small(name).fit(smooth.data[:n_rows], smooth.target[:n_rows]).predict(smooth.data, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("hnn", {"n_alternations": 0}, "n_alternations must be an int >= 1, got 0"),
        ("hnn", {"hidden": ("x",)}, "hidden must hold ints >= 1 or multiples like '8d', got "
         "('x',)"),
        ("hnn", {"schedule": "linear"}, "schedule must be one of 'constant', 'cosine', got 'linear'"),
        ("hnn", {"weight_decay": -1}, "weight_decay must be in [0, inf), got -1"),
        ("hnn", {"calibrate": None}, "calibrate must be True or False, got None"),
        ("hnn", {"batch_size": 0}, "batch_size must be an int in [1, 4096] or 'auto', got 0"),
        ("ensemble", {"n_members": 0}, "n_members must be an int >= 1, got 0"),
        ("mc dropout", {"rate": 1.0}, "rate must be in (0, 1), got 1.0"),
        ("mc dropout", {"n_passes": 1}, "n_passes must be an int >= 2, got 1"),
        ("mc dropout", {"observation_noise": 0.1}, "observation_noise must be True or False, got "
         "0.1"),
        ("concrete dropout", {"length_scale": 0}, "length_scale must be in (0, inf), got 0"),
        ("evidential", {"lam": -0.1}, "lam must be in [0, inf), got -0.1"),
    ],
)  # fmt: skip
def test_bad_parameters_are_one_sentence(name, changes, message, smooth):
    with pytest.raises(ValueError) as error:
        small(name, **changes).fit(smooth.data[:50], smooth.target[:50])
    assert str(error.value) == message


def test_separate_heads_have_rates_of_their_own(smooth):
    X, y = smooth.data[:600], smooth.target[:600]
    few = {"max_epochs": 8, "batch_size": 64, "calibrate": False}
    one, two = (small("concrete dropout", separate_heads=separate, **few).fit(X, y) for separate in (False, True))
    assert one.rates_.shape == (3,)
    assert two.rates_.shape == (4,)
    assert two.rates_[2] != two.rates_[3]
    assert [weights.shape for weights, _, _ in two.params_][2:] == [(16, 1), (16, 1)]
    linear = small("concrete dropout", separate_heads=True, hidden=(), **few).fit(X, y)
    assert linear.rates_.shape == (2,)
    assert np.isfinite(linear.predict_dist(X).std()).all()


def test_without_epistemic_variance_only_the_noise_is_left(smooth):
    X, y = smooth.data[:600], smooth.target[:600]
    few = {"max_epochs": 8, "batch_size": 64, "calibrate": False}
    both, noise = (small("concrete dropout", epistemic=epistemic, **few).fit(X, y) for epistemic in (True, False))
    np.testing.assert_array_equal(noise.predict(X), both.predict(X))
    np.testing.assert_allclose(noise.predict_dist(X).std() ** 2, both.predict_variance(X)["aleatoric"], rtol=1e-12)
    assert (
        noise.predict_variance(X).columns
        == baselines.HNNRegressor.paper(max_epochs=1).fit(X, y).predict_variance(X).columns
    )


def test_the_papers_floors_of_the_evidence_are_lower():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    y = X[:, 0] + 1e-5 * rng.normal(size=400)  # almost no noise, so that beta falls to its floor
    few = {"hidden": (16,), "max_epochs": 30, "random_state": 0}
    papers = baselines.EvidentialRegressor.paper(**few).fit(X, y)
    assert (papers.min_evidence, papers.min_alpha) == (1e-8, 1 + 1e-8)
    assert (papers.network_.sizes[-1], papers.predict_dist(X).df.min() > 2) == (4, True)
    assert np.isfinite(papers.predict_dist(X).std()).all()


@pytest.mark.parametrize("name", ["evidential", "mc dropout", "concrete dropout"])
def test_the_papers_early_stopping_validates_within_epochs(name):
    model = NETWORKS[name]
    assert model.paper()._training(1000.0).validations == 10
    assert model()._training(1000.0).validations == 1
    assert model(patience=None)._training(1000.0).validations == 10


def test_equal_rows_are_on_one_side_if_validation_rows_calibrate():
    group = np.repeat(np.arange(60), 5)
    raw = group[:, None].astype(float)
    table = TrainingTable(raw, raw.astype(np.float32), np.arange(300.0), np.ones(300), group=group)
    for calibrates, n_shared in ((True, 0), (False, 30)):  # the paper's protocol draws rows
        train, valid = validation_split(table, 0.2, np.random.default_rng(0), calibrates)
        assert (len(train), len(valid)) == (240, 60)
        assert (len(set(group[train]) & set(group[valid])) > n_shared) is not calibrates
    new = np.repeat(np.random.default_rng(1).uniform(-1, 1, (160, 2)), 8, axis=0)
    effect = np.repeat(np.random.default_rng(2).normal(size=160), 8)
    y = effect + 0.1 * np.random.default_rng(3).normal(size=1280)
    model = small("hnn").fit(new[:800], y[:800])
    low, high = model.predict_interval(new[800:]).T
    assert np.mean((low <= y[800:]) & (y[800:] <= high)) > 0.6  # 0.1 if rows were drawn one by one
