"""Fits to Dask collections, on a real scheduler with worker processes: the model of the same rows from Parquet."""

import pickle
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from small_workers import KillOnce, SmallWorkers, set_sizes  # noqa: E402

from usnrt import USNRTRegressor  # noqa: E402
from usnrt.paper.baselines import HNNRegressor  # noqa: E402
from usnrt.tables import TableEncoder, cluster_store, streaming  # noqa: E402
from usnrt.tables.cluster_store import merged_surveys, survey_partition  # noqa: E402
from usnrt.tables.dask_rows import dask_rows  # noqa: E402
from usnrt.utils.notices import MissingTargetWarning  # noqa: E402

N = 900
FEATURES = ["area", "district", "built"]
# what is called in each phase of a fit, and at which call the worker is killed
PHASES = {
    "statistics": ("usnrt.tables.survey:TableSurvey.add", 1),
    "blocks": ("usnrt.tables.cluster_store:sorted_records", 2),
    "encoded rows": ("usnrt.tree.encoded_rows:encode_chunk", 2),
    "root": ("usnrt.tree.encoded_rows:cut_spans", 3),
    "leaves": ("usnrt.tree.strategies:SharedNetworks.finish_leaf", 1),
    "calibration": ("usnrt.estimators.regressor:USNRTRegressor._calibrate_by_validation", 1),
}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    area = rng.uniform(20, 200, N).round(2)
    noise = np.where(area > 110, 20.0, 1.0) * rng.normal(size=N)
    built = pd.Series(rng.integers(1900, 2020, N).astype(float)).mask(rng.random(N) < 0.1)
    columns = {"area": area, "district": rng.choice(["north", "south", "east"], N), "built": built}
    return pd.DataFrame({**columns, "price": area + noise, "times": rng.integers(1, 4, N)})


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tables of more than 400 rows are large; tiny samples, chunks and windows."""
    set_sizes(monkeypatch.setattr)
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 400)
    monkeypatch.setattr(cluster_store, "BUCKET_ROWS", 64)
    monkeypatch.setattr(cluster_store, "CHUNK_ROWS", 256)


def make_model(**parameters):
    return USNRTRegressor(**{"hidden": (8,), "max_epochs": 2, "random_state": 0, "n_jobs": 1, **parameters})


def collection(frame, n_partitions=3, seed=1):
    return dd.from_pandas(frame.sample(frac=1, random_state=seed), npartitions=n_partitions, sort=False)


def state(model):
    """Everything that is fitted, as bytes."""
    arrays = [model.predict_quantiles(PROBE, [0.05, 0.5, 0.95]), model.tree_.n_rows, model.tree_.threshold]
    return [array.tobytes() for array in arrays]


PROBE = pd.DataFrame(
    {
        "area": [30.0, 100.0, 150.0, 400.0],
        "district": ["north", "east", "west", None],
        "built": [1990.0, np.nan, 2000, 0],
    }
)


@pytest.fixture(scope="module")
def expected(frame, tmp_path_factory):
    """The model of a Parquet file."""
    path = tmp_path_factory.mktemp("data") / "sales.parquet"
    frame.drop(columns="times").to_parquet(path)
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch.setattr)
        patch.setattr(streaming, "BLOCK_ROWS", 400)
        return make_model().fit(path, y="price")


@pytest.fixture(scope="module")
def client():
    settings = {"distributed.worker.memory.terminate": False, "distributed.comm.timeouts.connect": "60s"}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(SmallWorkers())
        yield client


def fit_dask(model, frame, client=None, n_partitions=3):
    table = collection(frame, n_partitions)
    if client is None:
        return model.fit(table[FEATURES], table["price"])
    with client.as_current():
        return model.fit(table[FEATURES], table["price"])


def test_without_a_client_partitions_are_read_in_order(frame, expected):
    model = fit_dask(make_model(), frame)
    assert state(model) == state(expected)
    assert model.target_name_ == "price"
    assert model.feature_names_in_.tolist() == FEATURES


def test_same_bits_on_a_cluster_and_after_a_worker_was_killed(frame, expected, client, tmp_path, capfd):
    events = []
    model = killed_in("root", frame, client, tmp_path, callbacks=[events.append], verbose=1)
    assert state(model) == state(expected)
    assert model.fingerprint_.hashes.tolist() == expected.fingerprint_.hashes.tolist()
    assert {event.node for event in events} >= {"root"}
    printed = capfd.readouterr().err
    assert "read 900 rows in 5 partitions, on a cluster of 2 workers" in printed
    assert "regions in" in printed


@pytest.mark.slow
def test_targets_with_bounds_and_a_logarithm_on_a_cluster(frame, client):
    mapped = {"target_bounds": (0, None), "target_transform": "log"}
    on_cluster, here = (fit_dask(make_model(**mapped), frame, where) for where in (client, None))
    assert on_cluster.target_map_ == here.target_map_
    assert on_cluster.target_map_.log
    assert state(on_cluster) == state(here)
    with pytest.raises(ValueError, match=r"^y must be within target_bounds=\(0, 150\), got \d+"):
        fit_dask(make_model(target_bounds=(0, 150)), frame, client)


def killed_in(phase, frame, client, tmp_path, **parameters):
    """The model of a fit during which a worker is killed."""
    place, n_calls = PHASES[phase]
    marker = tmp_path / "killed"
    client.wait_for_workers(2, timeout=120)
    client.register_plugin(KillOnce(place, str(marker), n_calls))
    try:
        model = fit_dask(make_model(**parameters), frame, client, n_partitions=5)
        client.wait_for_workers(2, timeout=120)
    finally:
        client.unregister_worker_plugin("kill")
    assert marker.exists()
    return model


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_same_bits_whenever_a_worker_is_killed(phase, frame, expected, client, tmp_path):
    assert state(killed_in(phase, frame, client, tmp_path)) == state(expected)


@pytest.mark.slow
def test_same_bits_for_one_worker(frame, expected):
    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        client.register_plugin(SmallWorkers())
        assert state(fit_dask(make_model(), frame, client, n_partitions=7)) == state(expected)


@pytest.mark.slow
def test_weights_and_copies_and_calibration_rows(frame, client):
    repeated = frame.loc[frame.index.repeat(frame["times"])]
    model = fit_dask(make_model(calibration_fraction=0.2), repeated, client)
    table = collection(frame, 4)
    weighted = make_model(calibration_fraction=0.2).fit(table[[*FEATURES, "price", "times"]], "price", "times")
    assert state(model) == state(weighted)
    assert model.tree_.n_rows[0] < frame["times"].sum()  # without calibration rows


def grouped(frame):
    """The rows of 150 shops, whose labels are text."""
    shop = np.random.default_rng(1).integers(0, 150, N)
    return frame.drop(columns="times").assign(shop=[f"shop {number}" for number in shop])


def test_groups_of_partitions_are_those_of_a_file(frame, tmp_path):
    shops = grouped(frame)
    shops.to_parquet(tmp_path / "sales.parquet")
    expected = state(make_model().fit(tmp_path / "sales.parquet", "price", groups="shop"))
    table = collection(shops, 4)
    named = make_model().fit(table, "price", groups="shop")
    assert named.feature_names_in_.tolist() == FEATURES
    assert state(named) == expected
    for labels in (table["shop"], table["shop"].astype("category")):
        assert state(make_model().fit(table[FEATURES], table["price"], groups=labels)) == expected
    assert state(make_model().fit(table[FEATURES], table["price"])) != expected


@pytest.mark.slow
@pytest.mark.parametrize("calibration_fraction", [0.0, 0.2])
def test_groups_on_a_cluster(calibration_fraction, frame, client):
    shops, how = grouped(frame), {"calibration_fraction": calibration_fraction, "max_epochs": 10}
    here = make_model(**how).fit(collection(shops, 4), "price", groups="shop")
    with client.as_current():
        there = make_model(**how).fit(collection(shops, 3), "price", groups="shop")
        with pytest.raises(ValueError, match="^groups must have at least 2 different labels, got 1$"):
            make_model().fit(collection(shops.assign(shop=1)), "price", groups="shop")
    assert state(there) == state(here)
    np.testing.assert_array_equal(there.calibration_.weights[0], here.calibration_.weights[0])


@pytest.mark.slow
def test_small_grouped_collections_on_a_cluster(frame, client):
    part = grouped(frame)[:300]
    with client.as_current():
        there = make_model().fit(collection(part), "price", groups="shop")
    assert state(there) == state(make_model().fit(part.drop(columns="price"), part["price"], groups="shop"))


@pytest.mark.slow
def test_arrays_of_any_blocks(frame, client):
    X, y = frame[["area", "built"]].to_numpy(), frame["price"].to_numpy()
    here = make_model().fit(da.from_array(X, chunks=(500, 1)), da.from_array(y, chunks=300))
    with client.as_current():
        there = make_model().fit(da.from_array(X, chunks=(220, 2)), da.from_array(y, chunks=900))
    np.testing.assert_array_equal(here.predict(X), there.predict(X))
    assert not hasattr(there, "feature_names_in_")
    assert there.target_name_ is None


def test_small_collections_are_fitted_as_in_memory(frame, client):
    part = frame[:300]
    expected = state(make_model().fit(part[FEATURES], part["price"]))
    assert state(fit_dask(make_model(), part)) == expected
    assert state(fit_dask(make_model(), part, client)) == expected


def test_a_callback_that_raises_leaves_the_model_as_it_was(frame, client):
    def stop(event):
        raise InterruptedError("enough")

    model = make_model(callbacks=[stop])
    with pytest.raises(InterruptedError, match="enough"):
        fit_dask(model, frame, client)
    assert not hasattr(model, "model_")


def test_predictions_are_lazy_and_those_of_each_partition(frame, expected):
    table = collection(frame, 4)
    predicted = expected.predict_table(table, coverage=0.8)
    here = expected.predict_table(table.compute()[FEATURES], coverage=0.8)
    assert predicted.npartitions == 4
    assert predicted.dtypes.tolist() == here.dtypes.tolist()
    pd.testing.assert_frame_equal(predicted.compute(), here)
    mean, std = expected.predict(table[table["area"] < 30], return_std=True)  # some partitions may be empty
    pd.testing.assert_series_equal(mean.compute(), here["mean"][mean.compute().index])
    pd.testing.assert_series_equal(std.compute(), here["std"][std.compute().index])
    with pytest.raises(TypeError, match="this takes a table in memory"):
        expected.predict_interval(table[FEATURES])


def test_predictions_of_arrays(frame):
    X, y = frame[["area", "built"]].to_numpy(), frame["price"].to_numpy()
    model = make_model().fit(X[:300], y[:300])
    blocks = da.from_array(X, chunks=(200, 1))
    np.testing.assert_array_equal(model.predict(blocks).compute(), model.predict(X))
    np.testing.assert_array_equal(model.predict_table(blocks).compute()["upper"], model.predict_table(X)["upper"])


def replaced(frame, number, **columns):
    """A collection of three partitions, one of which has other columns."""
    parts = [frame[start : start + 300].copy() for start in (0, 300, 600)]
    parts[number] = parts[number].assign(**columns)
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame[:0], verify_meta=False)


def test_dates_on_a_cluster_have_all_their_parts(frame, client):
    """Also those that are text, whose parts are known only when all rows are."""
    days = pd.Timestamp("2020-01-31") + pd.to_timedelta(np.arange(N) % 400, unit="D")
    dated = frame.assign(built=days.strftime("%d.%m.%Y"), area=days)
    on_cluster, here = (fit_dask(make_model(), dated, where) for where in (client, None))
    assert [column.part for column in on_cluster.columns_] == [
        "year",
        "month",
        "day",
        "weekday",
        "",
        *["year", "month", "day", "weekday"],
    ]
    probe = dated[FEATURES][:50]
    np.testing.assert_array_equal(on_cluster.predict(probe), here.predict(probe))


@pytest.mark.parametrize("on_cluster", [False, True])
def test_rows_without_a_named_target_are_left_out(frame, client, on_cluster):
    gaps = frame.assign(price=frame["price"].where(np.arange(len(frame)) % 100 > 0))
    expected = fit_dask(make_model(), frame[gaps["price"].notna()])
    table = collection(gaps, 3)[[*FEATURES, "price"]]
    expected_warning = pytest.warns(MissingTargetWarning, match="^9 rows without a target were left out$")
    with client.as_current() if on_cluster else nullcontext(), expected_warning as caught:
        model = make_model().fit(table, "price")
    assert len(caught) == 1
    assert state(model) == state(expected)


@pytest.mark.parametrize("on_cluster", [False, True])
def test_bad_partitions_give_one_sentence(frame, client, on_cluster):
    def fit(table, message):
        model = make_model()
        with client.as_current() if on_cluster else nullcontext(), pytest.raises(ValueError, match=message):
            model.fit(table[FEATURES], table["price"])
        assert "encoder_" not in vars(model)

    price = frame["price"][600:].copy()
    price.iloc[7] = np.nan
    fit(
        replaced(frame, 2, price=price),
        r"^the target 'price' must be finite, got a missing value in row 8 of partition 3",
    )
    fit(
        replaced(frame, 1, area="large"),
        r"^column 'area' must hold numbers as in partition 1 of X, but it holds text in partition 2 of X$",
    )


def test_arguments_that_do_not_fit(frame):
    table = collection(frame, 3)
    X, y = table[FEATURES], table["price"]
    with pytest.raises(TypeError, match=r"^y must be a Dask Series with one number per row of X, got ndarray$"):
        make_model().fit(X, np.zeros(N))
    with pytest.raises(TypeError, match=r"^groups must be a Dask Series with one label per row of X, got list$"):
        make_model().fit(X, y, groups=["a"] * N)
    with pytest.raises(ValueError, match=r"^y and groups must be different columns, got 'price' for both$"):
        make_model().fit(table, "price", groups="price")
    with pytest.raises(ValueError, match=r"^groups must have a label for every row, got a missing one in row \d+ of "):
        make_model().fit(table, "price", groups="built")
    with pytest.raises(ValueError, match=r"^y must have the 3 partitions of X, got 2$"):
        make_model().fit(X, collection(frame, 2)["price"])
    with pytest.raises(ValueError, match=r"^the Dask DataFrame has no column 'prize'; did you mean 'price'\?$"):
        make_model().fit(table, "prize")
    with pytest.raises(ValueError, match=r"^y must have 10 rows as X, got 9$"):
        make_model().fit(da.ones((10, 2)), da.ones(9))
    with pytest.raises(ValueError, match=r"^y must have \d+ rows in partition 1 of X, got \d+$"):
        make_model().fit(X, y[y > 100])
    with pytest.raises(ValueError, match="needs a table in memory"):
        HNNRegressor().fit(X, y)
    with pytest.raises(ValueError, match="^time_column needs a table in memory"):
        make_model(time_column="built").fit(X, y)


@pytest.mark.parametrize("fused", [False, True])
def test_columns_of_files_that_dask_would_fuse(frame, expected, tmp_path, fused):
    """Dask's optimiser reads several files at once if few columns are needed: y had fewer partitions than X."""
    for number in range(6):
        part = frame[number * 150 : (number + 1) * 150]
        part.to_parquet(tmp_path / f"{number}.parquet")
    table = dd.read_parquet(tmp_path) if fused else dd.from_map(pd.read_parquet, sorted(tmp_path.glob("*")))
    X, y, weight = table[FEATURES], table["price"], table["times"]
    assert (len(y.to_delayed()) < 6) == fused
    rows = dask_rows(X, y, weight)
    assert [len(block.target) for block in rows.blocks(1000)] == [150] * 6
    assert state(make_model().fit(X, y)) == state(expected)
    kept = table[table["area"] > 100]
    filtered = dask_rows(kept[FEATURES], np.log(kept["price"] ** 2))
    assert sum(len(block.target) for block in filtered.blocks(1000)) == (frame["area"] > 100).sum()
    assert len(expected.predict(X).compute()) == N


def computed(partition):
    return tuple(None if value is None else value.compute() for value in partition)


def test_merged_surveys_do_not_depend_on_partitions(frame):
    dates = frame.assign(sold=pd.Timestamp("2020-01-31") + pd.to_timedelta(np.arange(N) % 40, unit="D"))

    def survey(n_partitions):
        table = dd.from_pandas(dates, npartitions=n_partitions, sort=False)
        rows = dask_rows(table[[*FEATURES, "sold"]], table["price"], table["times"] / 7)
        parts = [survey_partition(i, computed(part), rows.kind, 4, None) for i, part in enumerate(rows.partitions)]
        merged = merged_surveys(parts)
        return TableEncoder.of(merged.table).columns_, merged.table.narrow().tolist(), merged.scale, merged.n_rows

    assert survey(1) == survey(6) == survey(6)


@pytest.mark.slow
def test_surveys_are_small(frame):
    table = dd.from_pandas(pd.concat([frame] * 20), npartitions=1, sort=False)
    rows = dask_rows(table[["area", "built"]], table["price"])
    (part,) = rows.partitions
    survey = survey_partition(0, computed(part), rows.kind, 2, None)
    assert len(pickle.dumps(survey)) < 10_000
