"""One fact, asked in every way that there is: Python, the command, the report, a file and ONNX give one answer."""

import json
import re
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import usnrt
from usnrt import USNRTEnsemble, USNRTRegressor
from usnrt.estimators.regions import uncertainty_ratio
from usnrt.plotting import plot_tree
from usnrt.reporting._facts import gather


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    kind = rng.choice(["calm", "wild"], n)
    x = rng.uniform(-1, 1, (n, 2))
    y = x[:, 0] + rng.normal(size=n) * np.where(kind == "wild", np.where(x[:, 1] > 0, 2.0, 0.7), 0.1)
    return pa.table({"a": x[:, 0], "b": x[:, 1], "kind": kind, "y": y})


@pytest.fixture(scope="module", params=["tree", "ensemble"])
def world(request, tmp_path_factory):
    """A folder with a model file and a test table, the model, its features and its truth."""
    folder = tmp_path_factory.mktemp("truth")
    train, test = make_table(1500, 0), make_table(400, 1)
    model = USNRTRegressor(min_samples_leaf=150, max_epochs=15, random_state=0)
    if request.param == "ensemble":
        model = USNRTEnsemble(model, n_estimators=2, random_state=0)
    model.fit(train.drop_columns("y"), train["y"].to_numpy())
    model.target_name_ = "y"
    model.save(folder / "model.usnrt")
    pa_csv.write_csv(train, folder / "train.csv")
    pa_csv.write_csv(test, folder / "test.csv")
    return folder, model, test.drop_columns("y"), test["y"].to_numpy()


@pytest.fixture
def command(world, monkeypatch, capfd):
    """The command, run in this process in the model's folder; returns what it printed, parsed if it is JSON."""
    from usnrt.cli._run import run

    def call(*arguments):
        monkeypatch.chdir(world[0])
        capfd.readouterr()
        assert run([str(argument) for argument in arguments]) == 0, capfd.readouterr().err
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return (json.loads(out) if "--json" in arguments else out), err

    return call


def onnx_answers(model, X):
    onnxruntime = pytest.importorskip("onnxruntime")
    from usnrt.onnx import feeds

    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds(model, X))))


def test_the_region_of_a_row(world, command):
    folder, model, X, y = world
    region = model.apply(X)
    assert len(np.unique(region)) == model.n_leaves_ >= 3
    assert (np.asarray(model.decision_path(X)[np.arange(len(region)), region]) == 1).all()
    assert set(region) == set(model.rules()["region"].tolist())
    np.testing.assert_array_equal(np.asarray(model.predict_table(X)["region"]), region)
    np.testing.assert_array_equal(usnrt.load(folder / "model.usnrt").apply(X), region)
    rows, _ = command("predict", "model.usnrt", "test.csv", "--json")
    assert [row["region"] for row in rows] == region.tolist()
    facts = gather(model, X, y, 0.9)
    assert {r.region: r.rows for r in facts.regions} == dict(zip(*np.unique(region, return_counts=True), strict=True))
    np.testing.assert_array_equal(onnx_answers(model, X)["region"], region)


def test_the_rule_of_a_region(world, command):
    """Every way to write the tree names the same region by the same number."""
    pytest.importorskip("matplotlib").use("Agg")
    folder, model, X, y = world
    rules = dict(zip(model.rules()["region"].tolist(), model.rules()["rule"].tolist()))
    a, b, kind = (np.asarray(X[name]) for name in ("a", "b", "kind"))
    for region, rule in rules.items():  # the words are true of the rows that apply puts there
        inside = np.ones(len(a), dtype=bool)
        for condition in rule.split(" and "):
            name, sign, bound = re.fullmatch(r"(?:[-\d.]+ < )?(\w+) (<=|>|=) (\S+)", condition).groups()
            value = {"a": a, "b": b, "kind": kind}[name]
            inside &= value == bound if sign == "=" else (value <= float(bound)) == (sign == "<=")
            if " < " in condition:
                inside &= value > float(condition.split(" < ")[0])
        assert np.mean(inside == (model.apply(X) == region)) > 0.99, (region, rule)  # thresholds are rounded
    explained, _ = command("explain", "model.usnrt", "--json")
    assert {row["region"]: row["rule"] for row in explained["regions"]} == rules
    assert {r.region: r.rule for r in gather(model, X, y, 0.9).regions} == rules
    text = usnrt.export_text(model)
    assert [int(number) for number in re.findall(r"^[| ]*region (\d+):", text, re.MULTILINE)] == sorted(rules)
    dot = usnrt.export_graphviz(model)
    assert re.findall(r'^  (\d+) \[label="region (\d+)\\n', dot, re.MULTILINE) == [(str(r),) * 2 for r in sorted(rules)]
    drawn = " ".join(" ".join(t.get_text().split()) for t in plot_tree(model).texts)
    page = usnrt.report(model, X, y, folder / "rules.html").read_text()
    for region, rule in rules.items():
        assert f"region {region}: {rule}" in drawn
        assert f"<h3>Region {region}: {rule.replace('>', '&gt;').replace('<', '&lt;')}</h3>" in page


def test_mean_std_and_interval_of_a_row(world, command):
    folder, model, X, y = world
    mean, std = model.predict(X, return_std=True)
    lower, upper = model.predict_interval(X, 0.8).T
    rows, _ = command("predict", "model.usnrt", "test.csv", "--json", "--coverage", "0.8")
    facts = gather(usnrt.load(folder / "model.usnrt"), X, y, 0.8)
    frame = model.predict_table(X, 0.8)
    for name, values in {"mean": mean, "std": std, "lower": lower, "upper": upper}.items():
        np.testing.assert_array_equal(np.asarray(frame[name]), values)
        assert [row[name] for row in rows] == values.tolist()
        np.testing.assert_array_equal(getattr(facts, name), values)
    answers = onnx_answers(model, X)
    np.testing.assert_allclose(answers["mean"], mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(answers["std"], std, rtol=1e-3, atol=1e-4)


def test_coverage_and_width_on_a_test_table(world, command):
    folder, model, X, y = world
    lower, upper = model.predict_interval(X, 0.9).T
    inside = np.mean((lower <= y) & (y <= upper))
    # two intervals exist, and only one of them is the model's
    assert (model.predict_dist(X).interval(0.9)[:, 0] != lower).any()
    table = usnrt.evaluate(model, X, y)
    values = dict(zip(table["metric"].tolist(), table["value"].tolist()))
    assert values["coverage_90"] == inside
    assert values["width_90"] == pytest.approx(np.mean(upper - lower), rel=1e-12)
    evaluated, _ = command("evaluate", "model.usnrt", "test.csv", "--json")
    assert evaluated["rows"] == 400
    assert {name: evaluated[name] for name in values} == values
    facts = gather(model, X, y, 0.9)
    assert facts.calibration.inside == inside
    assert facts.metrics["coverage"][0] == inside
    assert facts.metrics["width"][0] == values["width_90"]
    page = usnrt.report(model, X, y, folder / "cover.html").read_text()
    assert f"contain the target in {100 * inside:.1f}".rstrip("0").rstrip(".") in page


def test_coverage_of_a_region(world):
    from usnrt.metrics import calibration_by_group

    _, model, X, y = world
    region, interval = model.apply(X), model.predict_interval(X, 0.9)
    inside = (interval[:, 0] <= y) & (y <= interval[:, 1])
    expected = {int(r): inside[region == r].mean() for r in np.unique(region)}
    table = calibration_by_group(y, model.predict_dist(X), region, interval=interval)
    assert dict(zip(table["group"].tolist(), table["coverage_90"].tolist())) == pytest.approx(expected)
    assert {r.region: r.calibration.inside for r in gather(model, X, y, 0.9).regions} == pytest.approx(expected)


def test_rows_and_residual_std_of_a_region(world, command):
    folder, model, X, y = world
    table = model.rules()
    rows = dict(zip(table["region"].tolist(), table["rows"].tolist()))
    std = dict(zip(table["region"].tolist(), table["residual_std"].tolist()))
    assert sum(rows.values()) == 1500
    explained, _ = command("explain", "model.usnrt", "--json")
    regions = gather(usnrt.load(folder / "model.usnrt"), X, y, 0.9).regions
    assert {row["region"]: row["rows"] for row in explained["regions"]} == rows
    assert {row["region"]: row["residual_std"] for row in explained["regions"]} == std
    assert {r.region: r.train_rows for r in regions} == rows
    assert {r.region: r.residual_std for r in regions} == std
    # the least certain region is the same one everywhere
    assert [row["region"] for row in explained["regions"]] == [r.region for r in regions]
    for region, count in re.findall(r"region (\d+): ([\d,]+) rows", usnrt.export_text(model)):
        assert int(count.replace(",", "")) == rows[int(region)]


def test_the_ratio_of_the_least_to_the_most_certain_region(world, command):
    folder, model, X, y = world
    stds = model.rules()["residual_std"]
    ratio = stds.max() / stds.min()
    assert ratio > 2
    assert uncertainty_ratio(model) == ratio
    explained, _ = command("explain", "model.usnrt", "--json")
    assert explained["ratio"] == ratio
    sentence = f"The residual std of the least certain region is {ratio:.3g} times that of the most certain one."
    shown, _ = command("explain", "model.usnrt")
    assert sentence in shown
    assert gather(model, X, y, 0.9).ratio == ratio
    page = usnrt.report(model, X, y, folder / "ratio.html", coverage=0.5).read_text()
    assert sentence in page


def test_intervals_without_guarantee_are_called_so(world, command):
    folder, model, X, y = world
    sentence = r"^the 99\.9 % interval is not guaranteed in \d of \d regions"
    with pytest.warns(UserWarning, match=sentence) as told:
        low, high = model.predict_interval(X, 0.999).T
    assert len(told) == 1
    assert "1,999 are needed" in str(told[0].message)
    with pytest.warns(UserWarning, match=r"^the 99\.9 % interval is infinite in \d of \d regions"):
        assert np.mean(np.isinf(model.predict_interval(X, 0.999, guaranteed=True)).any(axis=1)) > 0.5
    with pytest.warns(UserWarning, match=sentence) as told:
        table = usnrt.evaluate(model, X, y, coverage=0.999)
    assert len(told) == 1
    values = dict(zip(table["metric"].tolist(), table["value"].tolist()))
    assert "infinite_99.9" not in values
    assert values["width_99.9"] == pytest.approx(np.mean(high - low))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the report and the command say it in their own words
        page = usnrt.report(model, X, y, folder / "wide.html", coverage=0.999).read_text()
        out, err = command("evaluate", "model.usnrt", "test.csv", "--coverage", "0.999", "--json")
        _, said = command("predict", "model.usnrt", "test.csv", "--coverage", "0.999")
    assert "uncertainty is calibrated" not in page
    assert re.search(r"intervals are infinite for .{1,12} of the rows", page)
    assert "1,999" in page
    assert out["width_99.9"] == pytest.approx(values["width_99.9"])
    for notice in (err, said):
        assert re.match(r"usnrt: the 99\.9 % interval is not guaranteed in \d of \d regions", notice)


def test_judging_on_training_rows_warns_everywhere(world, command):
    folder, model, X, y = world
    train = pa_csv.read_csv(folder / "train.csv")
    features, target = train.drop_columns("y"), train["y"].to_numpy()
    for judged in (model, usnrt.load(folder / "model.usnrt")):
        with pytest.warns(UserWarning, match="^100 % of these rows are training rows") as told:
            usnrt.evaluate(judged, features, target)
        assert len(told) == 1
        usnrt.evaluate(judged, X, y)  # warnings are errors here
    with pytest.warns(UserWarning, match="^100 % of these rows are training rows") as told:
        page = usnrt.report(model, features, target, folder / "seen.html").read_text()
    assert len(told) == 1
    assert told[0].filename == __file__
    assert "uncertainty is calibrated" not in page
    for arguments in (("evaluate",), ("report", "--force", "-o", "again.html")):
        _, err = command(arguments[0], "model.usnrt", "train.csv", *arguments[1:])
        assert err.startswith("usnrt: 100 % of these rows are training rows")
        _, err = command(arguments[0], "model.usnrt", "test.csv", *arguments[1:])
        assert err == ""
