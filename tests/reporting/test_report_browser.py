"""The report in a real browser: no errors, clicks and keys do what they say, phones, dark mode, print."""

import base64
import json
import os

import pytest
from chromium import WHY, show

pytestmark = pytest.mark.skipif(bool(WHY) and not os.environ.get("USNRT_NEED_BROWSER"), reason=str(WHY))


@pytest.fixture
def opened(browser, page):
    """The page, opened afresh on a desktop in light mode; a function opens it otherwise."""

    def open_page(**how):
        return show(browser, page, **how)

    return open_page


def css(browser, selector):
    return browser.find_elements("css selector", selector)


def shown_details(browser):
    return [d.get_attribute("id") for d in css(browser, ".detail") if d.is_displayed()]


def test_no_errors_and_no_network(opened):
    browser = opened()
    assert browser.title == "Uncertainty of predicting price"
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file://", "data:", "about:", "chrome"))] == []
    assert len([url for url in asked if url.startswith("file://")]) == 1


@pytest.mark.parametrize("width", [640, 390])
def test_tables_that_are_cut_off_show_it(opened, width):
    """Shadows at the edges that hide columns, and a first column that stays."""
    browser = opened(width=width)
    tables = [table for table in css(browser, ".scroll") if table.is_displayed()]
    cut = [t for t in tables if browser.execute_script("return arguments[0].scrollWidth > arguments[0].clientWidth", t)]
    assert cut
    for table in cut:
        assert browser.execute_script("return getComputedStyle(arguments[0]).backgroundAttachment", table) == (
            "local, local, scroll, scroll"
        )
        assert table.get_attribute("tabindex") == "0"
    rows = next(table for table in cut if table.find_elements("css selector", "table.rows"))
    cell = rows.find_element("css selector", "tbody td:first-child")
    before = cell.rect["x"]
    browser.execute_script("arguments[0].scrollLeft = 200", rows)
    assert cell.rect["x"] == pytest.approx(before, abs=2.0)


def test_clicking_a_region_shows_its_details(opened):
    browser = opened()
    leaves = css(browser, ".tree .leaf")
    assert len(leaves) == 5
    assert shown_details(browser) == [f"region-{css(browser, '.regions a')[0].get_attribute('data-region')}"]
    for leaf in leaves:
        browser.execute_script(
            "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))", leaf
        )
        region = leaf.get_attribute("data-region")
        assert shown_details(browser) == [f"region-{region}"]
        current = {link.get_attribute("data-region") for link in css(browser, "[aria-current]")}
        assert current == {region}
        assert browser.current_url.endswith(f"#region-{region}")
    text = css(browser, f"#region-{region}")[0].text
    for words in (
        "Training rows",
        "Mean predicted std",
        "RMSE",
        "90 % intervals",
        "Examples, from the most",
    ):
        assert words in text


def test_real_clicks_in_tree_and_list(opened):
    browser = opened()
    css(browser, ".tree .leaf .leaf-std")[0].click()
    region = css(browser, ".tree .leaf")[0].get_attribute("data-region")
    assert shown_details(browser) == [f"region-{region}"]
    link = css(browser, ".regions a")[1]
    link.click()
    assert shown_details(browser) == [f"region-{link.get_attribute('data-region')}"]
    assert css(browser, "#announce")[0].get_attribute("textContent").startswith("Region ")


def test_the_keyboard_reaches_everything(opened):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser = opened()

    def press(*keys):
        ActionChains(browser).send_keys(*keys).perform()

    def focused(question):
        return browser.execute_script(f"return document.activeElement.{question}")

    press(Keys.TAB)
    assert focused("textContent") == "Skip to the findings"
    for _ in range(60):
        press(Keys.TAB)
        if focused("matches('.leaf')"):
            break
    assert focused("matches('.leaf')")
    first = focused("dataset.region")
    press(Keys.ARROW_RIGHT)
    second = focused("dataset.region")
    assert second != first
    press(Keys.ENTER)
    assert shown_details(browser) == [f"region-{second}"]
    press(Keys.ARROW_LEFT, Keys.SPACE)
    assert shown_details(browser) == [f"region-{first}"]


def test_the_slider_answers(opened):
    from selenium.webdriver.common.keys import Keys

    browser = opened()
    answer = css(browser, "#level-sentence")[0]
    assert answer.text.startswith("90 % intervals contain the target in ")
    slider = css(browser, "#level")[0]
    slider.send_keys(Keys.HOME)
    assert answer.text.startswith("5 % intervals contain the target in ")
    assert slider.get_attribute("aria-valuetext") == answer.get_attribute("textContent")
    slider.send_keys(Keys.ARROW_RIGHT)
    assert answer.text.startswith("10 % intervals contain the target in ")


def test_an_address_with_a_region_opens_it(opened):
    browser = opened()
    region = css(browser, ".regions a")[-1].get_attribute("data-region")
    browser = opened(fragment=f"#region-{region}")
    assert shown_details(browser) == [f"region-{region}"]


def test_without_scripts_everything_is_there(opened):
    browser = opened()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        assert len(shown_details(browser)) == 5
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("width", [320, 390, 768, 1100])
def test_nothing_is_wider_than_the_screen(opened, width):
    browser = opened(width=width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for box in css(browser, "section"):
        assert box.rect["x"] >= 0
        assert box.rect["x"] + box.rect["width"] <= width


def test_on_a_phone_the_chosen_region_is_in_view(opened):
    browser = opened(width=390)
    inside = browser.execute_script(
        "const leaf = document.querySelector('.leaf[aria-current]').getBoundingClientRect();"
        "const frame = document.querySelector('.tree').closest('.scroll').getBoundingClientRect();"
        "return leaf.left >= frame.left - 1 && leaf.right <= frame.right + 1;"
    )
    assert inside


def contrast(browser, selector):
    """Contrast of text against what lies behind it, as the accessibility guidelines count it."""
    return browser.execute_script(
        """
        const parse = (c) => c.match(/[\\d.]+/g).map(Number);
        const light = (c) => parse(c).slice(0, 3).map((v) => v / 255)
          .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
          .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = (e) => {
          for (; e; e = e.parentElement) {
            const c = getComputedStyle(e).backgroundColor;
            if (parse(c)[3] !== 0) return c;
          }
          return "rgb(255,255,255)";
        };
        return Math.min(...[...document.querySelectorAll(arguments[0])].map((e) => {
          const svg = e instanceof SVGElement;
          const front = getComputedStyle(e)[svg ? "fill" : "color"];
          const box = svg && e.closest(".leaf")?.querySelector("rect");
          const back = box ? getComputedStyle(box).fill : behind(svg ? e.closest("div, figure") : e);
          const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
          return (a + 0.05) / (b + 0.05); }));
        """,
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(opened, scheme):
    browser = opened(scheme=scheme)
    texts = (
        "p, td, th, dt, dd, nav a, .regions a, figcaption, .better, td.outside, .leaf text, .chart text, .split text"
    )
    for selector in texts.split(", "):
        assert contrast(browser, f"{selector}:not(.skip)") >= 4.5, selector
    dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(20, 24, 28)") == (scheme == "dark")


def test_print_shows_all_regions(opened, tmp_path):
    browser = opened()
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert len(shown_details(browser)) == 5
    assert not css(browser, "nav")[0].is_displayed()
    assert not css(browser, "#level")[0].is_displayed()


def test_what_a_screen_reader_is_told(opened):
    browser = opened()
    assert browser.execute_script("return document.documentElement.lang") == "en"
    assert browser.execute_script("return document.querySelectorAll('h1').length") == 1
    assert all(chart.get_attribute("aria-label") for chart in css(browser, "svg[role=img]"))
    names = [leaf.get_attribute("aria-label") for leaf in css(browser, ".leaf")]
    assert all(name.startswith("Region ") and "standard deviation" in name for name in names)
    labelled = browser.execute_script("return document.querySelector('#level').labels[0].textContent")
    assert labelled == "Other nominal coverages"
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
