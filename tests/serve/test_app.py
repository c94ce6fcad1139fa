"""Requests to the service: answers equal to the model's, refusals in one sentence, nothing that leaks."""

import asyncio
import csv
import io
import json
import re
import shutil
import threading
import time

import numpy as np
import pytest

from usnrt.serve import Limits, ModelStore, create_app


def error_of(answer):
    assert set(answer.json()) == {"error"}
    error = answer.json()["error"]
    assert "Traceback" not in answer.text
    return answer.status_code, error["code"], error["message"]


def test_answers_are_those_of_the_model(client, model, houses):
    X, _ = houses(40, 2)
    body = {
        "rows": json.loads(X.to_json(orient="records", date_format="iso")),
        "coverage": 0.8,
        "quantiles": [0.05, 0.5],
        "above": 300,
    }
    answer = client.post("/models/flats/predict", json=body).json()
    assert (answer["model"], answer["target"], answer["ignored"]) == ("flats", "price", [])
    predicted, dist = model.predict_table(X, 0.8), model.predict_dist(X)
    rules = dict(zip(*(model.rules()[name].tolist() for name in ("region", "rule"))))
    for i, row in enumerate(answer["predictions"]):
        for name in ("mean", "std", "lower", "upper", "region", "supported", "guaranteed"):
            assert row[name] == predicted[name].iloc[i]
        assert row["quantiles"] == {"0.05": dist.ppf(0.05)[i], "0.5": dist.ppf(0.5)[i]}
        assert row["probability_above"] == dist.sf(300)[i]
        assert row["rule"] == rules[row["region"]]


def test_csv_in_and_out(client, model, houses):
    X, _ = houses(5, 2)
    answer = client.post(
        "/predict?coverage=0.5&quantiles=0.25,0.75&above=200",
        content=X.assign(id=1).to_csv(index=False),
        headers={"content-type": "text/csv; charset=utf-8", "accept": "text/csv"},
    )
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [float(row["mean"]) for row in rows] == model.predict(X).tolist()
    assert [float(row["q0.25"]) for row in rows] == model.predict_dist(X).ppf(0.25).tolist()
    assert [float(row["lower"]) for row in rows] == model.predict_interval(X, 0.5)[:, 0].tolist()
    assert answer.headers["content-type"].startswith("text/csv")


def test_columns_that_the_model_does_not_have_are_named(client, rows):
    assert client.post("/predict", json={"rows": [{**rows[0], "id": 7}]}).json()["ignored"] == ["id"]


def test_rows_unlike_the_training_rows_have_reasons(client, model, rows):
    usual, odd = client.post("/predict", json={"rows": rows}).json()["predictions"]
    assert (usual["supported"], usual["reasons"]) == (True, [])
    assert not odd["supported"]
    assert odd["reasons"][:2] == [
        "a number is outside the range that it had in the training rows of its region",
        "a category that training did not have",
    ]


def test_explanations_add_up(client, rows):
    row = client.post("/predict", json={"rows": rows[:1], "explain": True}).json()["predictions"][0]
    explained = row["explanation"]
    for kind in ("mean", "std"):
        total = sum(explained[f"{kind}_contributions"].values())
        assert explained[f"base_{kind}"] + total + explained[f"{kind}_adjustment"] == pytest.approx(row[kind])
    assert "neighbors" not in explained


def test_the_drawn_distribution_has_the_models_probabilities(client, model, rows):
    row = client.post("/predict", json={"rows": rows[:1], "curve": True}).json()["predictions"][0]
    edges, probability = row["curve"]["edges"], row["curve"]["probability"]
    assert len(edges) == len(probability) + 1
    assert sum(probability) == pytest.approx(1.0)
    dist = model.predict_dist(client.app.state.service.store.get().columns.table(rows[:1]))
    assert np.cumsum(probability)[59] == pytest.approx(dist.cdf(edges[60])[0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", (400, "invalid_json")),
        (b"[" * 100_000, (400, "invalid_json")),
        (b"\xff\xfe", (400, "invalid_json")),
        (b'{"rows": [{"area": NaN}]}', (400, "invalid_json")),
        (b"[]", (422, "invalid_rows")),
        (b'{"rows": {}}', (422, "invalid_rows")),
        (b'{"rows": []}', (422, "invalid_rows")),
        (b'{"rows": [1]}', (422, "invalid_rows")),
        (b'{"rows": [{"Area": 1}]}', (422, "missing_columns")),
    ],
)
def test_bad_bodies_are_refused(client, body, expected):
    answer = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert error_of(answer)[:2] == expected


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"coverage": 1}, "coverage must be in (0, 1), got 1"),
        ({"coverage": "much"}, "coverage must be a number, got 'much'"),
        ({"coverage": True}, "coverage must be a number, got True"),
        ({"quantiles": [0.5, 2]}, "quantiles must be in (0, 1), got 2"),
        ({"quantiles": 0.5}, "quantiles must be a list of numbers, got 0.5"),
        ({"quantiles": [0.5] * 101}, "quantiles must be at most 100, got 101"),
        ({"above": "1e400"}, "above must be a number, got '1e400'"),
        ({"explain": "please"}, "explain must be true or false, got 'please'"),
        ({"quantile": 1}, "options must be among coverage, quantiles, above, explain, curve, got 'quantile'"),
    ],
)
def test_bad_options_are_refused(client, rows, option, message):
    assert error_of(client.post("/predict", json={"rows": rows, **option})) == (422, "invalid_option", message)


def any_value(rng, depth=0):
    """A value that JSON can hold, and that few programs expect."""
    dates = ["2023-02-30", "9999-12-31T23:59:59Z", "0001-01-01"]
    choices = [None, True, 0, -1.5, 1e308, 10**30, 10**400, "", "north", "1,5", "\ud800", "\x00", "a" * 5000, *dates]
    kind = rng.integers(0, 10)
    if kind < 7 or depth > 3:
        return choices[rng.integers(len(choices))]
    if kind < 9:
        return [any_value(rng, depth + 1) for _ in range(rng.integers(0, 3))]
    names = ["area", "age", "rows", "\ud800", "district"]
    return {names[rng.integers(len(names))]: any_value(rng, depth + 1) for _ in range(rng.integers(0, 4))}


def test_no_body_makes_the_service_fail(client, rows):
    rng, statuses = np.random.default_rng(0), set()
    wanted = []
    for number in range(400):
        body = {"rows": [dict(row) for row in rows]}
        if number % 4 == 0:
            body = any_value(rng)
        elif number % 4 == 1:
            body[["coverage", "quantiles", "above", "explain", "curve", "rows"][rng.integers(6)]] = any_value(rng)
        else:
            body["rows"][0][[*rows[0], "\ud800"][rng.integers(6)]] = any_value(rng)
        wanted.append(("POST", "/predict", {"content": json.dumps(body).encode()}))
    for start in range(0, len(wanted), 40):
        for answer in asyncio.run(client.requests(wanted[start : start + 40])):
            statuses.add(answer.status_code)
            assert answer.status_code in (200, 400, 413, 422), answer.text
    assert {200, 422} <= statuses


def test_a_misspelt_column_gets_a_hint(client, rows):
    misspelt = {**rows[0], "Area": rows[0]["area"]}
    del misspelt["area"]
    sentence = "row 1: 'area' is missing; did you mean 'Area'?"
    assert error_of(client.post("/predict", json={"rows": [misspelt]})) == (422, "missing_columns", sentence)


def test_dates_that_are_none_are_refused_by_the_model(client, rows):
    status, code, message = error_of(client.post("/predict", json={"rows": [{**rows[0], "sold": "soon"}]}))
    assert (status, code) == (422, "invalid_rows")
    assert message == "column 'sold' must hold dates as in fit, but it holds text"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/nothing", (404, "not_found")),
        ("GET", "/models/nothing", (404, "unknown_model")),
        ("POST", "/models/nothing/predict", (404, "unknown_model")),
        ("GET", "/predict", (405, "method_not_allowed")),
    ],
)
def test_unknown_paths_are_refused(client, method, path, expected):
    assert error_of(client.request(method, path))[:2] == expected


def test_other_types_of_bodies_are_refused(client):
    answer = client.post("/predict", content=b"<rows/>", headers={"content-type": "application/xml"})
    sentence = "the body must be application/json or text/csv, got 'application/xml'"
    assert error_of(answer) == (415, "unsupported_type", sentence)


def test_bodies_and_rows_are_limited(model_file, client_of, rows):
    client = client_of(create_app([model_file], limits=Limits(body_bytes=2000, rows=3, explained_rows=1)))
    assert client.post("/predict", json={"rows": rows[:1] * 3}).status_code == 200
    answer = client.post("/predict", json={"rows": rows[:1] * 4})
    assert error_of(answer) == (413, "too_many_rows", "a request may have at most 3 rows")
    answer = client.post("/predict", json={"rows": rows, "explain": True})
    assert error_of(answer) == (413, "too_many_rows", "a request may have at most 1 rows")
    assert error_of(client.post("/predict", content=b" " * 2001)) == (
        413,
        "too_large",
        "a body may have at most 2,000 bytes",
    )

    async def stream():
        for _ in range(10):
            yield b" " * 1000

    assert error_of(client.post("/predict", content=stream()))[1] == "too_large"  # no length is stated


def test_slow_bodies_are_refused(model_file, client_of):
    client = client_of(create_app([model_file], limits=Limits(seconds=0.2)))

    async def stream():
        yield b"{"
        await asyncio.sleep(30)

    answer = client.post("/predict", content=stream())
    assert error_of(answer) == (408, "slow_body", "the body must arrive within 0.2 s")


@pytest.fixture
def slow_app(model_file, monkeypatch):
    """A service whose predictions wait for an event."""
    import usnrt.serve._app as module

    go_on = threading.Event()

    def slow(*arguments):
        go_on.wait(20)
        return []

    app = create_app([model_file], limits=Limits(seconds=0.2, waiting=2, threads=1))
    monkeypatch.setattr(module, "predict_rows", slow)
    yield app
    go_on.set()
    app.state.service.close()


def test_slow_predictions_time_out_and_busy_services_refuse(slow_app, client_of, rows):
    client = client_of(slow_app)
    answers = asyncio.run(client.requests([("POST", "/predict", {"json": {"rows": rows}})] * 3))
    assert sorted(error_of(answer)[1] for answer in answers) == ["busy", "timeout", "timeout"]
    assert {answer.headers["retry-after"] for answer in answers} == {"1"}
    # the threads still run: the service stays busy until they end, and answers other requests meanwhile
    assert error_of(client.post("/predict", json={"rows": rows}))[1] == "busy"
    assert client.get("/health").status_code == 200


def test_bugs_are_logged_and_not_shown(model_file, client_of, rows, monkeypatch, caplog):
    import usnrt.serve._app as module

    client = client_of(create_app([model_file]))

    def fails(*arguments):
        raise KeyError("secret of the inside")

    monkeypatch.setattr(module, "predict_rows", fails)
    answer = client.post("/predict", json={"rows": rows})
    assert error_of(answer)[:2] == (500, "internal")
    assert "secret" not in answer.text
    assert "secret" in caplog.text
    assert answer.json()["error"]["message"][-8:] in caplog.text


def test_a_token_guards_all_but_page_and_health(model_file, client_of, rows):
    client = client_of(create_app([model_file], token="abc"))
    for method, path in (("GET", "/models"), ("GET", "/metrics"), ("POST", "/predict"), ("POST", "/reload")):
        for headers in ({}, {"authorization": "Bearer abd"}, {"authorization": "abc"}):
            answer = client.request(method, path, headers=headers)
            assert error_of(answer)[:2] == (401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/health").status_code == client.get("/").status_code == 200
    right = {"authorization": "Bearer abc"}
    assert client.post("/predict", json={"rows": rows}, headers=right).status_code == 200
    assert client.get("/openapi.json", headers=right).json()["security"] == [{"token": []}]


def test_pages_of_the_web_cannot_reach_a_service_on_the_loopback(model_file, client_of):
    app = create_app([model_file], hosts=["localhost", "127.0.0.1", "::1"])
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:80", "[::1]:8000", "[::1]"):
        assert client_of(app, host).get("/health").status_code == 200, host
    for host in ("example.com", "example.com:8000", "localhost.example.com", "localhost@example.com"):
        assert error_of(client_of(app, host).get("/health"))[:2] == (421, "wrong_host")


def test_answers_have_headers_that_keep_browsers_safe(client):
    headers = client.get("/").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


def test_versions_and_cards(client, model_file, model):
    import hashlib

    import usnrt

    digest = hashlib.sha256(model_file.read_bytes()).hexdigest()
    assert client.get("/version").json() == {"usnrt": usnrt.__version__, "models": {"flats": digest}}
    assert client.get("/health").json() == {"status": "ok", "models": 1}
    assert client.get("/models").json() == {"models": [{"name": "flats", "target": "price"}]}
    card = client.get("/models/flats").json()
    assert (card["class"], card["target"], card["sha256"]) == ("USNRTRegressor", "price", digest)
    assert (card["calibrated"], card["training_rows_in_memory"]) == (True, 0)
    assert [region["rule"] for region in card["regions"]] == model.rules()["rule"].tolist()
    assert [column["name"] for column in card["columns"]] == ["area", "age", "district", "garden", "sold"]
    assert client.post("/predict", json={"rows": [card["example"]]}).json()["predictions"][0]["supported"]


def test_the_description_has_the_columns_of_the_model(client, rows):
    described = client.get("/openapi.json").json()
    schema = described["components"]["schemas"]["Row_flats"]
    assert schema["required"] == ["area", "age", "district", "garden", "sold"]
    assert schema["properties"]["district"]["x-categories"] == ["harbour", "north", "old town"]
    assert schema["properties"]["area"]["type"] == ["number", "null"]
    assert schema["properties"]["sold"]["x-range"] == [2023, 2024]
    operation = described["paths"]["/models/flats/predict"]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]
    assert client.post("/models/flats/predict", json=example).status_code == 200
    stated = operation["responses"]["200"]["content"]["application/json"]["schema"]["properties"]
    answer = client.post("/predict", json={"rows": rows, "above": 1.0, "explain": True, "curve": True}).json()
    assert set(answer) == set(stated)
    assert set(answer["predictions"][0]) == set(described["components"]["schemas"]["Prediction"]["properties"])


def test_names_of_models_are_escaped_in_the_description(model_file, client_of, rows, tmp_path):
    path = shutil.copy(model_file, tmp_path / "Köln {2} flats.usnrt")
    client = client_of(create_app([path]))
    described = client.get("/openapi.json").json()
    predict = next(path for path in described["paths"] if path.endswith("/predict") and path != "/predict")
    assert predict == "/models/K%C3%B6ln%20%7B2%7D%20flats/predict"
    assert client.post(predict, json={"rows": rows}).status_code == 200
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in described["components"]["schemas"])


def test_all_paths_are_described(client, app):
    described = set(client.get("/openapi.json").json()["paths"])
    routes = {route.path.replace("{name}", "flats") for route in app.routes}
    assert routes - described == {"/", "/openapi.json"}


def test_figures_for_monitoring_count_requests_and_support(model_file, client_of, rows):
    client = client_of(create_app([model_file]))
    client.post("/predict", json={"rows": rows})
    client.post("/predict", json={"rows": rows[:1] * 60})
    client.post("/predict", content=b"{")
    client.get("/nothing")
    lines = client.get("/metrics").text.splitlines()
    assert 'usnrt_requests_total{route="/predict",status="200"} 2' in lines
    assert 'usnrt_requests_total{route="/predict",status="400"} 1' in lines
    assert 'usnrt_requests_total{route="other",status="404"} 1' in lines
    assert 'usnrt_request_seconds_count{route="/predict"} 3' in lines
    assert 'usnrt_rows_total{model="flats"} 62' in lines
    assert 'usnrt_unsupported_rows_total{model="flats"} 1' in lines
    drift = [line for line in lines if line.startswith('usnrt_input_drift{model="flats",column="district"}')]
    assert [float(line.split()[-1]) > 0.5 for line in drift] == [True]


def test_several_models_have_names_of_their_own(model_file, client_of, rows, tmp_path, houses):
    from usnrt.paper.baselines import RandomForestVarianceRegressor

    X, y = houses(120, 0)
    RandomForestVarianceRegressor(n_estimators=5, random_state=0).fit(X, y).save(tmp_path / "plain.usnrt")
    client = client_of(create_app([model_file, tmp_path / "plain.usnrt"]))
    assert [model["name"] for model in client.get("/models").json()["models"]] == ["flats", "plain"]
    assert client.post("/predict", json={"rows": rows}).json()["model"] == "flats"
    answer = client.post("/models/plain/predict", json={"rows": rows[:1]}).json()
    assert set(answer["predictions"][0]) == {"mean", "std", "lower", "upper", "quantiles"}
    refused = client.post("/models/plain/predict", json={"rows": rows[:1], "explain": True})
    assert error_of(refused)[2] == "explain must be false for a RandomForestVarianceRegressor"


def test_model_files_need_different_names(model_file):
    with pytest.raises(ValueError, match=r"^model files must have different names, got 'flats' twice$"):
        ModelStore([model_file, model_file])
    with pytest.raises(ValueError, match=r"^at least one model file is needed$"):
        ModelStore([])


def test_a_reload_drops_no_request(model_file, dearer_model, client_of, rows, tmp_path):
    path = shutil.copy(model_file, tmp_path / "flats.usnrt")
    client = client_of(create_app([path], limits=Limits(threads=2)))
    before = client.post("/predict", json={"rows": rows[:1]}).json()["predictions"][0]["mean"]
    assert client.post("/reload").json() == {"reloaded": []}
    dearer_model.save(path)
    wanted = [("POST", "/predict", {"json": {"rows": rows[:1]}})] * 20
    answers = asyncio.run(client.requests([*wanted, ("POST", "/reload", {}), *wanted]))
    assert [answer.status_code for answer in answers] == [200] * 41
    assert answers[20].json() == {"reloaded": ["flats"]}
    after = client.post("/predict", json={"rows": rows[:1]}).json()["predictions"][0]["mean"]
    assert after > before + 500.0
    assert {answer.json()["predictions"][0]["mean"] for answer in answers[:20] + answers[21:]} <= {before, after}


def test_a_damaged_file_leaves_the_models_as_they_are(model_file, client_of, rows, tmp_path):
    path = tmp_path / "flats.usnrt"
    shutil.copy(model_file, path)
    client = client_of(create_app([path]))
    for damage in (lambda: path.write_bytes(b"PK damaged"), path.unlink):
        damage()
        sentence = "a model file cannot be loaded; the models are as before"
        assert error_of(client.post("/reload")) == (409, "reload_failed", sentence)
        assert client.post("/predict", json={"rows": rows}).status_code == 200


def test_requests_at_the_same_time_do_not_mix(client, model, houses):
    X, _ = houses(60, 5)
    records = json.loads(X.to_json(orient="records", date_format="iso"))
    wanted = [("POST", "/predict", {"json": {"rows": [record]}}) for record in records]
    start = time.perf_counter()
    answers = asyncio.run(client.requests(wanted))
    assert time.perf_counter() - start < 60
    assert [answer.json()["predictions"][0]["mean"] for answer in answers] == model.predict(X).tolist()
