"""The report's numbers, sentences and page, without a browser."""

import html
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import usnrt
from usnrt.reporting import write_report
from usnrt.reporting._facts import LEVELS, cell_text, gather
from usnrt.reporting._numbers import number, percent, wilson
from usnrt.reporting._svg import nice_ticks
from usnrt.reporting._words import level_sentence, metric_rows, support_sentence, verdict, why_sentence


@pytest.fixture(scope="module")
def facts(model, houses):
    return gather(model, *houses(600, 3), 0.9)


def test_metrics_are_those_of_the_metrics(facts, model, houses):
    X, y = houses(600, 3)
    assert facts.metrics["rmse"][0] == pytest.approx(np.sqrt(np.mean((y - model.predict(X)) ** 2)), rel=1e-12)
    assert facts.metrics["rmse"][1] == pytest.approx(np.sqrt(np.mean((y - model.target_scale_.mean) ** 2)), rel=1e-12)
    lower, upper = model.predict_interval(X, 0.9).T
    assert facts.metrics["coverage"][0] == np.mean((lower <= y) & (y <= upper))
    assert facts.metrics["width"][0] == pytest.approx(np.mean(upper - lower))


def test_calibration_counts_the_models_own_intervals(facts, model, houses):
    X, y = houses(600, 3)
    lower, upper = model.predict_interval(X, 0.5).T
    assert facts.calibration.observed[LEVELS.tolist().index(0.5)] == np.mean((lower <= y) & (y <= upper))
    assert facts.calibration.low < facts.calibration.inside < facts.calibration.high


def test_regions_share_out_all_rows(facts):
    assert sum(region.rows for region in facts.regions) == 600
    assert sum(region.train_share for region in facts.regions) == pytest.approx(1)
    stds = [region.residual_std for region in facts.regions]
    assert stds == sorted(stds, reverse=True)
    assert facts.regions[0].rule == "district = old town and age > 61.5"
    assert all(len(region.examples) == 4 for region in facts.regions)


def test_drivers_are_those_of_uncertainty_importance(facts, model, houses):
    names = [driver.name for driver in facts.drivers]
    assert names[0] == "district"
    assert sorted(names) == ["age", "area", "district", "garden", "sold"]
    table = usnrt.uncertainty_importance(model, houses(600, 3)[0])
    assert [(d.name, d.std, d.std_error, d.mean, d.mean_error) for d in facts.drivers] == [
        tuple(row.values()) for row in table.rows()
    ]
    assert max(facts.drivers, key=lambda driver: driver.mean).name == "area"
    sentence = why_sentence(facts)
    assert sentence.startswith(f"Mainly district (±\u00a0{number(facts.drivers[0].std)})")
    noise = replace(facts.drivers[1], std=1e-3)
    assert why_sentence(replace(facts, drivers=[noise])).startswith("None in particular")


def test_the_most_uncertain_rows_come_first(facts):
    stds = [float(dict(row)["predicted"].split("± ")[1].replace(",", "")) for row in facts.most_uncertain]
    assert stds == sorted(stds, reverse=True)
    assert stds[0] == pytest.approx(facts.std.max(), rel=0.01)
    row = dict(facts.most_uncertain[0])
    assert list(row)[:4] == ["row", "predicted", "interval", "target"]
    assert int(row["row"]) == np.argmax(facts.std)


@pytest.mark.parametrize(
    ("inside", "n", "head", "kind"),
    [
        (0.9, 600, "The predicted uncertainty is calibrated.", ""),
        (0.885, 10**6, "The predicted uncertainty is calibrated.", ""),  # significant, but negligible
        (0.8, 600, "The model is overconfident.", "warn"),
        (0.99, 600, "The model is underconfident.", "warn"),
        (0.5, 10, "10 rows are too few to assess the calibration.", "unknown"),
        (0.9, 50, "No deviation was found, but 50 rows are too few to tell.", "unknown"),
        (0.7, 50, "The model is overconfident.", "warn"),
    ],
)
def test_verdicts(facts, inside, n, head, kind):
    low, high = wilson(round(inside * n), n)
    c = replace(facts.calibration, inside=inside, n=n, low=low, high=high, observed=LEVELS)
    changed = replace(facts, regions=[], calibration=c)
    said = verdict(changed)
    assert (said["head"], said["kind"]) == (head, kind)
    assert percent(inside) in said["rest"]


@pytest.mark.parametrize(("observed", "few"), [(0.4, "only "), (0.6, "")])
def test_calibrated_means_at_all_levels(facts, observed, few):
    """Intervals of 50 % that contain 40 % of the targets were called calibrated, since those of 90 % are right."""
    c = replace(facts.calibration, n=2000, inside=0.9, low=0.886, high=0.913, observed=LEVELS.copy())
    c.observed[LEVELS.tolist().index(0.5)] = observed
    said = verdict(replace(facts, regions=[], calibration=c))
    assert said["kind"] == "warn"
    assert said["head"] == "The predicted uncertainty is calibrated at 90\u00a0%, but not at 50\u00a0%."
    assert f"The 50\u00a0% intervals contain it in {few}{percent(observed)}." in said["rest"]


def test_levels_deviate_by_chance(facts):
    """Exactly calibrated intervals are called so in at least 95 % of tables: the levels are tested together."""
    rng = np.random.default_rng(0)
    n, n_tables, wrong = 400, 400, 0
    for _ in range(n_tables):
        first_inside = rng.random(n)
        observed = (first_inside[:, None] <= LEVELS).mean(axis=0)
        low, high = wilson(360, n)
        c = replace(facts.calibration, n=n, inside=0.9, low=low, high=high, observed=observed)
        wrong += verdict(replace(facts, regions=[], calibration=c))["kind"] != ""
    assert wrong / n_tables < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_tables)


def test_a_region_that_is_wrong_is_named(facts):
    region = facts.regions[0]
    wrong = replace(region, calibration=replace(region.calibration, n=100, inside=0.6, low=0.5, high=0.7))
    said = verdict(replace(facts, regions=[wrong, *facts.regions[1:]]))
    assert f"In region {region.region} ({region.rule}) the coverage is 60\u00a0%." in said["rest"]


def test_one_of_many_regions_may_deviate_by_chance(facts):
    """8 of 10 % outside is significant for one region, but not for the worst of sixty."""
    region = facts.regions[0]
    low, high = wilson(82, 100)
    wrong = replace(region, calibration=replace(region.calibration, n=100, inside=0.82, low=low, high=high))
    right = replace(region, calibration=replace(region.calibration, n=100, inside=0.9))
    assert f"In region {region.region} " in verdict(replace(facts, regions=[wrong]))["rest"]
    assert "In region" not in verdict(replace(facts, regions=[wrong, *[right] * 59]))["rest"]


def test_regions_with_few_rows_are_counted(facts):
    few = [replace(r, calibration=replace(r.calibration, n=12)) for r in facts.regions[:2]]
    said = verdict(replace(facts, regions=[*few, *facts.regions[2:]]))["rest"]
    assert "2 of 5 regions have fewer than 30 of these rows." in said


def test_a_promise_that_any_wide_interval_keeps_is_vacuous(facts):
    wide = replace(facts, metrics={**facts.metrics, "width": (1000.0, 900.0)})
    assert "This promise says little: on average the intervals are as wide (1,000) as those of" in verdict(wide)["rest"]
    assert "says little" not in verdict(facts)["rest"]


def test_a_gain_within_sampling_error_is_called_so(facts):
    y = np.array([0.0, 10.0, -9.0, 1.0])
    few = replace(facts, n=4, y=y, mean=0.2 * y, baseline_mean=0.0, metrics={**facts.metrics, "rmse": (0.8, 1.0)})
    said = verdict(few)["rest"]
    assert "smaller than that of always predicting the mean, but 4 rows are too few to exclude chance." in said


def test_infinite_intervals_are_not_praised(model, houses):
    facts = gather(model, *houses(600, 3), 0.999)
    assert facts.calibration.infinite == 1.0
    said = verdict(facts)
    assert (said["head"], said["kind"]) == (
        "The 99.9\u00a0% intervals are infinite for 100\u00a0% of the rows.",
        "warn",
    )
    assert re.search(r"in 5 of 5 regions, which have \d+ to \d+ calibration rows; 1,999 are needed\.", said["rest"])
    assert "The finite ones" not in said["rest"]
    row = next(row for row in metric_rows(facts) if row["name"].startswith("coverage"))
    assert row["meaning"] == "not informative: 100 % of the intervals are infinite"


def test_where_some_intervals_are_finite_these_are_judged(model, houses):
    X, y = houses(600, 3)
    few = [len(scores) for scores in model.calibration_.scores]
    coverage = 1 - 2 / (np.median(few) + 1.5)  # too much for half of the regions
    facts = gather(model, X, y, coverage)
    finite = np.isfinite(facts.lower)
    assert 0 < finite.mean() < 1
    assert facts.calibration.infinite == pytest.approx(1 - finite.mean())
    inside = ((facts.lower <= y) & (y <= facts.upper))[finite].mean()
    assert facts.calibration.finite_inside == pytest.approx(inside)
    said = verdict(facts)
    assert f"The finite ones contain the target in {percent(inside)} of {finite.sum()} rows." in said["rest"]
    endless = [region for region in facts.regions if region.calibration.infinite]
    assert 0 < len(endless) < 5
    assert f"In region {endless[0].region} " not in said["rest"]


def test_the_slider_does_not_praise_infinite_intervals_either(model, houses):
    facts = gather(model, *houses(600, 3), 0.9)
    place = len(LEVELS) - 1
    if facts.calibration.infinite_at[place]:
        assert level_sentence(facts, place).startswith("99\u00a0% intervals are infinite for ")
    assert "contain the target in" in level_sentence(facts, 0)


def test_training_rows_are_not_praised(facts):
    said = verdict(replace(facts, training=0.97))
    assert said["kind"] == "warn"
    assert said["head"].startswith("97 % of these rows are training rows")


def test_rows_that_do_not_resemble_the_training_rows_are_counted(facts):
    assert len(facts.supported) == facts.n
    assert support_sentence(replace(facts, supported=None)) == ""
    supported = np.ones(facts.n, dtype=bool)
    assert support_sentence(replace(facts, supported=supported)) == "All rows resemble the training rows."
    supported[:3] = False
    sentence = support_sentence(replace(facts, supported=supported))
    assert sentence.startswith(f"3 rows do not resemble the training rows ({percent(3 / facts.n)} of all)")


def test_the_page_says_how_many_rows_lack_support(tmp_path):
    X = np.random.default_rng(0).uniform(size=(300, 2))
    model = usnrt.USNRTRegressor(max_epochs=1, random_state=0, n_jobs=1).fit(X, X[:, 0])
    far = np.vstack([X[:50] + 1e-3, [[40.0, 0.5]]])
    page = write_report(model, far, far[:, 0], tmp_path / "report.html").read_text("utf-8")
    assert "1 row does not resemble the training rows" in page


def test_the_page_shows_the_experts_and_the_memory(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(900, 2))
    y = np.floor(8 * X[:, 0]) % 2 + np.where(X[:, 1] > 0.5, 1.0, 0.1) * rng.normal(size=900)
    model = usnrt.USNRTRegressor(hidden=(16, 8), max_epochs=5, min_samples_leaf=200, random_state=0).fit(X, y)
    text = write_report(model, X[:300] + 1e-3, y[:300], tmp_path / "report.html").read_text("utf-8")
    rules = model.rules()
    for region, words in zip(rules["region"].tolist(), rules["experts"].tolist()):
        detail = text.split(f'id="region-{region}"')[1]
        assert f"<dt>Predicted by</dt><dd>{words}</dd>" in detail.split("</dl>")[0]
    assert "The model contains training data: the targets and transformed features of 900 rows." in text
    assert "<dt>In memory</dt><dd>900 training rows</dd>" in text
    paper = usnrt.USNRTRegressor.paper(max_epochs=1, min_samples_leaf=200, random_state=0).fit(X, y)
    without = write_report(paper, X[:300] + 1e-3, y[:300], tmp_path / "paper.html").read_text("utf-8")
    assert "Predicted by" not in without
    assert "training data" not in without


def test_a_model_no_better_than_the_average_is_called_so(facts):
    said = verdict(replace(facts, metrics={**facts.metrics, "rmse": (1.0, 1.0)}))
    assert "The RMSE is not smaller than that of always predicting the mean." in said["rest"]


def test_the_page_is_one_file_that_loads_nothing(page):
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    addresses = re.findall(r'(?:href|src)="([^"]*)"', text)
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "url(" not in text
    assert "http://" not in text
    assert "https://" not in text
    assert len(text) < 400_000


def test_the_same_model_gives_the_same_page(model, houses, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    X, y = houses(100, 3)
    pages = [write_report(model, X, y, tmp_path / name).read_text() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]
    assert "on 2023-11-14 at 22:13 UTC" in pages[0]


def test_the_module_is_the_function(model, houses, tmp_path):
    X, y = houses(50, 3)
    assert usnrt.report(model, X, y, tmp_path / "r.html", coverage=0.5, title="Mine") == tmp_path / "r.html"
    text = (tmp_path / "r.html").read_text()
    assert "<title>Mine</title>" in text
    assert "50\u00a0% intervals" in text


def test_names_and_values_cannot_break_out_of_the_page(houses, tmp_path):
    from usnrt.paper.baselines import RandomForestVarianceRegressor

    evil = '<script>alert("x")</script>'
    rng = np.random.default_rng(0)
    X = pl.DataFrame({evil: rng.normal(size=60), "text": [evil, "b"] * 30})
    model = RandomForestVarianceRegressor(n_estimators=5, random_state=0).fit(X, rng.normal(size=60))
    model.target_name_ = evil
    text = write_report(model, X, rng.normal(size=60), tmp_path / "r.html", source=evil, command=evil).read_text()
    assert evil not in text
    assert html.escape(evil, quote=False).replace('"', "&#34;") in text
    assert text.count("<script>") == 1


def test_a_model_without_regions_has_a_page_without_them(houses, tmp_path):
    from usnrt.paper.baselines import ExtraTreesVarianceRegressor

    model = ExtraTreesVarianceRegressor(n_estimators=5, random_state=0).fit(*houses(80, 0))
    text = write_report(model, *houses(80, 1), tmp_path / "r.html").read_text()
    assert "Where is the model uncertain?" not in text
    assert "Uncertainty of predicting the target" in text


def test_one_row_and_a_constant_truth(model, houses, tmp_path):
    X, y = houses(1, 0)
    text = write_report(model, X, y, tmp_path / "r.html").read_text()
    assert "1 rows are too few to assess" in text
    X, _ = houses(40, 0)
    write_report(model, X, np.full(40, 100.0), tmp_path / "r.html")


def test_arrays_without_names(tmp_path):
    from usnrt.paper.baselines import ExtraTreesVarianceRegressor

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 12)), rng.normal(size=80)
    model = ExtraTreesVarianceRegressor(n_estimators=5, random_state=0).fit(X, y)
    text = write_report(model, X[::-1], y, tmp_path / "r.html").read_text()
    assert "Of 12 features the 8 that the uncertainty depends on most are shown." in text


def test_bad_arguments(model, houses, tmp_path):
    X, y = houses(5, 0)
    with pytest.raises(ValueError, match=re.escape("coverage must be in (0, 1), got 90")):
        write_report(model, X, y, tmp_path / "r.html", coverage=90)
    with pytest.raises(ValueError, match=r"^y must have one value per row of X \(5\), got 4$"):
        write_report(model, X, y[:4], tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_without_jinja2_a_sentence_names_the_extra():
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from usnrt.reporting._html import render_page\n"
        "try:\n    render_page('reporting')\n"
        "except ImportError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "the page needs jinja2: pip install 'usnrt[report]'\n"


def test_numbers_for_people():
    assert [number(v) for v in (0, 1, 1234.5, 0.00123, 1e-7, 1e20, np.inf, -np.inf)] == [
        *("0", "1", "1,234", "0.00123", "100\u00a0×\u00a010⁻⁹", "100\u00a0×\u00a010¹⁸", "∞", "-∞")
    ]
    assert percent(float("nan")) == "–"
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(5, 5)[1] == 1.0
    assert nice_ticks(1.0, 1.0) == [1.0]
    assert [cell_text(v) for v in (None, float("nan"), True, 3, "x" * 50)] == [
        "missing",
        "missing",
        "yes",
        "3",
        "x" * 39 + "…",
    ]
