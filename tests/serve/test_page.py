"""The what-if page, served and as one file, in a browser: numbers of Python, keyboard, links, dark mode, phones."""

import json
import os
import re
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from chromium import WHY, show, start

import usnrt.whatif
from usnrt.whatif import write_what_if

pytestmark = pytest.mark.skipif(bool(WHY) and not os.environ.get("USNRT_NEED_BROWSER"), reason=str(WHY))
FOLDER = Path(usnrt.whatif.__file__).parent


@pytest.fixture(scope="module")
def browser():
    driver = start()
    yield driver
    driver.quit()


@pytest.fixture(scope="module", params=["service", "file"])
def address(request, serving, model, model_file, tmp_path_factory):
    if request.param == "file":
        path = tmp_path_factory.mktemp("page") / "what-if.html"
        yield f"file://{write_what_if(model, path, name='flats')}"
        return
    with serving(model_file) as (_, found):
        yield f"{found}/"


def find(browser, name):
    return browser.find_element("id", name)


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found
    return found


@pytest.fixture
def opened(browser, address):
    """The page, opened with a state; a function opens it otherwise."""

    def open_page(state=None, **how):
        show(browser, address, fragment="" if state is None else "#" + quote(json.dumps(state)), **how)
        wait_for(lambda: find(browser, "mean").text)
        return browser

    return open_page


def label_of(browser, name):
    """The input that belongs to a label."""
    labels = [label for label in browser.find_elements("css selector", "#columns label") if label.text == name]
    return find(browser, labels[0].get_attribute("for"))


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (768, "dark"), (390, "light")])
def test_numbers_are_those_of_the_model(opened, model, rows, width, scheme):
    from usnrt.serve._columns import InputColumns

    browser = opened({"m": "flats", "r": rows[0], "c": 0.8, "a": 250}, width=width, scheme=scheme)
    table = InputColumns(model).table(rows[:1])
    predicted, dist = model.predict_table(table, 0.8).to_pylist()[0], model.predict_dist(table)
    mean, std = map(number, find(browser, "mean").text.split(" ± "))
    low, high = map(number, find(browser, "interval").text.split(" to "))
    shown = (mean, std, low, high)
    wanted = tuple(predicted[name] for name in ("mean", "std", "lower", "upper"))
    decimals = len(find(browser, "mean").text.split(" ± ")[1].partition(".")[2])
    assert shown == pytest.approx(wanted, abs=0.5001 * 10.0**-decimals)
    chance = 100 * dist.sf(250)[0]
    text = find(browser, "probability").text
    assert text in ("above 99.9 %", "below 0.1 %") or float(text.removesuffix(" %")) == pytest.approx(chance, abs=0.05)
    assert find(browser, "interval-name").text == "80 % interval"
    region = model.rules()["region"].tolist().index(predicted["region"])
    assert find(browser, "region").text == f"Region {predicted['region']}: {model.rules()['rule'][region]}"
    assert find(browser, "support").text == "Such rows resemble the training rows."
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_no_errors_and_nothing_from_elsewhere(opened, address):
    browser = opened()
    wait_for(lambda: find(browser, "why").is_displayed())
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith((address, "data:", "about:", "chrome"))] == []
    assert any(url.endswith("/models/flats/predict") for url in asked) == address.startswith("http")


def test_the_keyboard_moves_sliders_and_the_picture_follows(opened, rows):
    from selenium.webdriver.common.keys import Keys

    browser = opened({"m": "flats", "r": rows[0]})
    before, picture = find(browser, "mean").text, find(browser, "picture").get_attribute("innerHTML")
    slider = browser.find_element("css selector", "#columns input[type=range][aria-label=area]")
    slider.send_keys(Keys.ARROW_RIGHT * 20)
    wait_for(lambda: find(browser, "mean").text != before)
    assert find(browser, "picture").get_attribute("innerHTML") != picture
    assert float(label_of(browser, "area").get_attribute("value")) == pytest.approx(
        float(slider.get_attribute("value"))
    )
    find(browser, "coverage").send_keys(Keys.HOME)
    wait_for(lambda: find(browser, "interval-name").text == "50 % interval")


def test_every_input_is_reached_by_tab(opened):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser = opened()
    wanted = {
        element.id
        for element in browser.find_elements("css selector", "main input, main select, main button")
        if element.is_displayed()
    }
    reached = set()
    for _ in range(60):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.add(browser.switch_to.active_element.id)
    assert wanted <= reached
    unnamed = (
        "return [...document.querySelectorAll('main input, main select')].filter(e => !e.labels.length && !e.ariaLabel)"
    )
    assert browser.execute_script(unnamed) == []


def test_a_link_restores_the_state(opened, browser, address, rows):
    opened({"m": "flats", "r": rows[0]})
    area = label_of(browser, "area")
    area.clear()
    area.send_keys("150")
    find(browser, "above").send_keys("320")
    wait_for(lambda: "150" in browser.current_url and "320" in browser.current_url)
    wait_for(lambda: find(browser, "above-name").text == "Above 320")
    link, shown = browser.current_url, [find(browser, name).text for name in ("mean", "interval", "probability")]
    show(browser, link)
    wait_for(lambda: find(browser, "mean").text)
    assert [find(browser, name).text for name in ("mean", "interval", "probability")] == shown
    assert label_of(browser, "area").get_attribute("value") == "150"


@pytest.mark.parametrize("fragment", ["#%7Bnonsense", "#%22text%22", '#{"r":{"area":"<b>"},"c":7,"a":"x","m":"none"}'])
def test_damaged_links_are_answered(browser, address, fragment):
    show(browser, address, fragment=fragment)
    wait_for(lambda: find(browser, "mean").text or find(browser, "message").is_displayed())
    assert find(browser, "title").text == "What if: price"


def test_rows_unlike_the_training_rows_are_marked(opened, rows):
    browser = opened({"m": "flats", "r": {**rows[0], "area": 900}})
    assert find(browser, "support").text.startswith("Unlike the training rows: a number is outside the range")
    box = browser.find_elements("css selector", "#columns .missing input")[1]
    box.click()
    wait_for(lambda: "a value is missing that never was in training" in find(browser, "support").text)
    assert not label_of(browser, "age").is_enabled()


def test_what_drives_the_width_is_shown(opened, rows):
    browser = opened({"m": "flats", "r": rows[0]})
    wait_for(lambda: find(browser, "why").is_displayed())
    columns = [cell.text for cell in browser.find_elements("css selector", "#contributions td:first-child")]
    assert set(columns) == set(rows[0])


def test_dark_mode_has_other_colours(opened):
    def colours(scheme):
        browser = opened(scheme=scheme)
        style = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        return [sum(map(int, re.findall(r"\d+", text)[:3])) for text in browser.execute_script(style)]

    (light_paper, light_ink), (dark_paper, dark_ink) = colours("light"), colours("dark")
    assert light_paper > 600 > light_ink
    assert dark_paper < 200 < dark_ink


def test_on_a_phone_the_picture_stays_while_inputs_scroll(opened):
    browser = opened(width=390, height=844)
    browser.execute_script("window.scrollTo(0, 400)")
    box = "return document.getElementById('answer').getBoundingClientRect()"
    found = browser.execute_script(box)
    assert found["top"] == pytest.approx(0.0, abs=1.0)
    assert found["bottom"] < 0.5 * 844


def test_the_token_is_asked_for(browser, serving, model_file):
    with serving(model_file, env={"USNRT_TOKEN": "abc"}) as (_, found):
        show(browser, f"{found}/")
        wait_for(lambda: find(browser, "token-form").is_displayed())
        find(browser, "token").send_keys("abc\n")
        wait_for(lambda: find(browser, "mean").text)
        assert not find(browser, "token-form").is_displayed()
        browser.execute_script("sessionStorage.clear()")


def test_the_script_writes_text_only():
    script = (FOLDER / "page.js").read_text() + (FOLDER / "evaluator.js").read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|https?://(?!www\.w3\.org/2000/svg)", script
    )


def test_a_name_of_a_category_cannot_end_the_script(browser, houses, tmp_path):
    from usnrt import USNRTRegressor

    X, y = houses(300, 0)
    X["district"] = X["district"].replace({"north": "</script><b id=broken>&amp;"})
    model = USNRTRegressor(memory=False, hidden=(16, 8), max_epochs=2, random_state=0).fit(X, y)
    show(browser, f"file://{write_what_if(model, tmp_path / 'page.html')}")
    wait_for(lambda: find(browser, "mean").text)
    assert browser.find_elements("id", "broken") == []
    assert "</script><b id=broken>&amp;" in label_of(browser, "district").text
