"""Large and small targets, outliers, years, names and ids of rows: what readers of the first reports stumbled over."""

import base64
import csv
import io
import re

import numpy as np
import pytest
from scaled import with_target

from usnrt.reporting import _charts as charts
from usnrt.reporting import write_report
from usnrt.reporting._facts import cell_text, gather
from usnrt.reporting._numbers import number

TICK = re.compile(r'<text class="tick" x="([\d.-]+)" y="([\d.-]+)" text-anchor="end">([^<]*)</text>')
STROKE = re.compile(r'<line class="interval" x1="[\d.]+" x2="[\d.]+" y1="([\d.-]+)" y2="([\d.-]+)">')


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e6, 1e9, -1e9])
def test_labels_of_the_axis_have_room(model, houses, factor):
    X, y = houses(200, 3)
    scaled, of = with_target(model, factor)
    for svg in charts.intervals(gather(scaled, X, of(y), 0.9), "price"):
        ticks = TICK.findall(svg)
        assert len({text for _, _, text in ticks}) >= 3
        for x, _, text in ticks:
            assert float(x) >= 6.2 * len(text), text


def test_one_outlier_does_not_flatten_the_chart(model, houses):
    X, y = houses(200, 3)

    def heights(y):
        svg = charts.intervals(gather(model, X, y, 0.9), "price")[0]
        return np.array([abs(float(a) - float(b)) for a, b in STROKE.findall(svg)]), svg

    usual, _ = heights(y)
    far = y.copy()
    far[np.argmin(model.predict(X))] = 1e6
    shown, svg = heights(far)
    assert np.median(shown) > 0.8 * np.median(usual)
    assert svg.count('class="beyond') == 1
    assert "target 1,000,000" in svg


def test_an_infinite_interval_does_not_flatten_it_either(model, houses):
    facts = gather(model, *houses(200, 3), 0.999)
    svg = charts.intervals(facts, "price")[0]
    assert not re.search(r"(nan|inf)", svg)


def test_the_axis_has_the_name_of_the_target(model, houses, tmp_path):
    text = write_report(model, *houses(100, 3), tmp_path / "r.html").read_text()
    assert re.search(r'rotate\(-90\)" text-anchor="middle">price</text>', text)
    long, _ = with_target(model, name="n" * 200)
    text = write_report(long, *houses(100, 3), tmp_path / "r.html").read_text()
    label = re.search(r'rotate\(-90\)" text-anchor="middle">(n+…)</text>', text)
    assert len(label[1]) < 60
    large, of = with_target(long, 1e9)
    X, y = houses(100, 3)
    text = write_report(large, X, of(y), tmp_path / "r.html").read_text()
    assert re.search(r'rotate\(-90\)" text-anchor="middle">n+… \(× 10⁹\)</text>', text)


def test_years_are_years():
    assert [cell_text(value) for value in (1950, 1950.0, 2024, 12345)] == ["1950", "1950", "2024", "12,345"]
    assert [number(value) for value in (1950, 9999.4, 12345, -1950)] == ["1950", "9,999", "12,345", "-1,950"]


def test_large_targets_have_few_digits_and_close_ones_enough(model, houses):
    X, y = houses(60, 3)
    large, of = with_target(model, 1e9)
    facts = gather(large, X, of(y), 0.9)
    assert all(len(dict(row)["predicted"]) < 30 for row in facts.most_uncertain)
    near, of = with_target(model, 1.0, 1e9)
    facts = gather(near, X, of(y), 0.9)
    row = dict(facts.most_uncertain[0])
    shown = float(row["predicted"].split(" ±")[0].replace(",", ""))
    assert shown == pytest.approx(facts.mean[int(row["row"])], abs=facts.std.max() / 20)


def test_rows_state_how_they_are_counted(model, houses, tmp_path):
    X, y = houses(100, 3)
    text = write_report(model, X, y, tmp_path / "r.html").read_text()
    assert "Rows are counted from 0" in text
    worst = int(np.argmax(model.predict(X, return_std=True)[1]))
    assert first_cell(text) == str(worst)
    text = write_report(model, X, y, tmp_path / "r.html", first_row=1).read_text()
    assert "Rows are counted from 1" in text
    assert first_cell(text) == str(worst + 1)


def test_ids_find_a_row_again(model, houses, tmp_path):
    X, y = houses(100, 3)
    ids = [f"house {i}" for i in range(100)]
    text = write_report(model, X, y, tmp_path / "r.html", ids=ids, id_name="key").read_text()
    worst = int(np.argmax(model.predict(X, return_std=True)[1]))
    assert first_cell(text) == f"house {worst}"
    assert '<th scope="col">key</th>' in text
    assert "Rows are counted" not in text
    with pytest.raises(ValueError, match=r"^ids must have one value per row of X \(100\), got 99$"):
        write_report(model, X, y, tmp_path / "r.html", ids=ids[:99])


def first_cell(text):
    table = text.split('id="rows"')[1]
    return re.search(r"<tbody><tr><td[^>]*>([^<]*)</td>", table)[1]


def test_all_rows_can_be_downloaded(model, houses, tmp_path):
    X, y = houses(100, 3)
    text = write_report(model, X, y, tmp_path / "r.html").read_text()
    address = re.search(r'href="data:text/csv;base64,([^"]*)" download="[^"]+\.csv"', text)[1]
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(address).decode())))
    assert len(rows) == 100
    assert list(rows[0]) == ["row", "price", "mean", "std", "lower", "upper", "region", "supported"]
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose([float(row["mean"]) for row in rows], mean, rtol=1e-6)
    np.testing.assert_allclose([float(row["std"]) for row in rows], std, rtol=1e-6)
    np.testing.assert_allclose([[float(row["lower"]), float(row["upper"])] for row in rows],
                               model.predict_interval(X, 0.9), rtol=1e-6)  # fmt: skip
    assert [int(row["region"]) for row in rows] == model.apply(X).tolist()
    assert [int(row["row"]) for row in rows] == list(range(100))


def test_a_target_named_like_a_prediction_is_in_the_download_too(model, houses):
    from usnrt.reporting._page import csv_link

    link = csv_link(gather(model, *houses(50, 3), 0.9), "mean")
    head = base64.b64decode(link.partition(",")[2]).decode().partition("\n")[0]
    assert head == "row,mean,mean,std,lower,upper,region,supported"


def test_too_many_rows_are_not_put_into_the_page(model, houses, tmp_path, monkeypatch):
    from usnrt.reporting import _page

    monkeypatch.setattr(_page, "MAX_BYTES", 3000)
    text = write_report(model, *houses(100, 3), tmp_path / "r.html").read_text()
    assert "data:text/csv" not in text
    assert "too many to include" in text
