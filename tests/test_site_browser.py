"""Every page of the built site in Chromium, from the file system: ``make test-docs``."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from chromium import WHY, show, start

ROOT = Path(__file__).parent.parent
SITE = Path(os.environ.get("USNRT_SITE", "") or "nowhere").resolve()

pytestmark = [
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="USNRT_SITE names no built site (make test-docs)"),
    pytest.mark.skipif(bool(WHY) and not os.environ.get("USNRT_NEED_BROWSER"), reason=str(WHY)),
]
PAGES = sorted(path for path in SITE.rglob("*.html") if path.name != "404.html") if SITE.exists() else []

# elements that reach beyond the screen, unless something around them scrolls
TOO_WIDE = """
const width = document.documentElement.clientWidth;
const clips = e => ["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(e).overflowX);
const scrolls = e => e && e !== document.body && (clips(e) || scrolls(e.parentElement));
return [...document.querySelectorAll(".md-content *")].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width && box.right > width + 1 && getComputedStyle(e).visibility !== "hidden" && !scrolls(e);
}).slice(0, 3).map(e => e.outerHTML.slice(0, 120));
"""


@pytest.fixture(scope="module")
def browser():
    driver = start()
    yield driver
    driver.quit()


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(SITE).as_posix() for path in PAGES])
def test_a_page_opens(browser, page, width):
    show(browser, page, width=width, scheme="dark" if width < 600 else "light")
    assert browser.get_log("browser") == []
    inside = (f"file://{SITE}/", "data:", "about:", "blob:", "chrome")
    assert [url for url in requests(browser) if not url.startswith(inside)] == []
    wide = browser.execute_script("return document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
    assert browser.execute_script(TOO_WIDE) == []
    broken = "return [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    assert browser.execute_script(broken) == []


def search(browser, words):
    """The pages that the search on the first page finds for some words, in their order."""
    box = browser.find_element("css selector", "[data-md-component=search-query]")
    browser.execute_script("arguments[0].focus(); arguments[0].value = arguments[1];", box, words)
    box.send_keys(" ")
    previous, found = None, []
    for _ in range(100):  # the results of the last words are replaced when the worker answers
        time.sleep(0.1)
        shown = "'.md-search-result__item > a.md-search-result__link'"
        links = browser.execute_script(f"return [...document.querySelectorAll({shown})].map(a => a.href)")
        found = [Path(re.sub(r"[?#].*", "", link).removeprefix("file://")) for link in links]
        if found and found == previous:
            break
        previous = found
    return [path.relative_to(SITE).with_suffix(".md").as_posix() for path in found]


def questions():
    text = (ROOT / "docs" / "how_do_i.md").read_text()
    return re.findall(r"^\| (.*)\? \| \[[^\]]*\]\(([^)#]*)[^)]*\) \|$", text, re.MULTILINE)


def test_search_answers_questions(browser):
    lost = {}
    for question, target in questions():
        show(browser, SITE / "index.html", width=1200)
        found = list(dict.fromkeys(page for page in search(browser, question) if page != "how_do_i.md"))[:5]
        if target not in found:
            lost[question] = found
    n = len(questions())
    print(f"{n - len(lost)} of {n} questions are answered by one of the first five pages")
    assert n - len(lost) >= 30, lost


def test_dark_colours(browser):
    show(browser, SITE / "index.html", scheme="dark")
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", colour)[:3])) < 80
