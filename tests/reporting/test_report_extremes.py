"""Pages of unusual tables in a real browser: no text is clipped, on any screen, in light and dark."""

import os

import extreme
import pytest
from chromium import WHY, show
from scaled import with_target

from usnrt.reporting import write_report

pytestmark = pytest.mark.skipif(bool(WHY) and not os.environ.get("USNRT_NEED_BROWSER"), reason=str(WHY))

TARGETS = {
    "1e-9": (1e-9, 0.0, "p"),
    "1e9": (1e9, 0.0, "price"),
    "negative": (1e6, -2e9, "the price of the house in the currency of the country in which it was sold, without tax"),
    "near 1e9": (1.0, 1e9, extreme.HEBREW),
}


@pytest.fixture(scope="module", params=[*TARGETS, "60 regions"])
def unusual(request, model, houses, tmp_path_factory):
    """A page, by what is unusual about it."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    if request.param == "60 regions":
        X, y = extreme.many_levels(1500, 1)
        many = extreme.many_regions()
        assert many.n_leaves_ >= 60
        return write_report(many, X, y, path, booster=False, ids=X[extreme.LONG].map("row of {}".format))
    X, y = houses(300, 3)
    scaled, of = with_target(model, *TARGETS[request.param])
    return write_report(scaled, X, of(y), path, time="sold", booster=request.param == "1e9")


# Elements with text of their own whose text is wider than they are, unless a frame around them scrolls.
CLIPPED = """
const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
const seen = (e) => e.checkVisibility() && !e.closest(".skip");
return [...document.querySelectorAll("body *:not(script):not(style)")]
  .filter((e) => !(e instanceof SVGElement) && own(e) && seen(e) && !e.closest(".scroll, pre"))
  .filter((e) => e.clientWidth && e.scrollWidth > e.clientWidth)
  .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 80)}`);
"""
# Inline elements have no client width: their boxes must be inside the section.
OUTSIDE = """
return [...document.querySelectorAll("section *, header *")]
  .filter((e) => !(e instanceof SVGElement) && e.checkVisibility() && !e.closest(".skip, .scroll, pre"))
  .filter((e) => [...e.getClientRects()].some((b) => b.left < -0.5 || b.right > innerWidth + 0.5))
  .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 80)}`);
"""
# Labels of charts and of the tree: inside the picture, and those of regions inside their boxes.
DRAWN = """
const outside = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1
  || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
return [...document.querySelectorAll("svg text")].filter((t) => t.checkVisibility()).filter((t) => {
  const box = t.closest(".leaf, .split")?.querySelector("rect") ?? t.closest("svg");
  return outside(t.getBoundingClientRect(), box.getBoundingClientRect());
}).map((t) => t.textContent);
"""
# Texts that are one number: on one line.
BROKEN = """
const number = /^[±+-]?[\\s\\u00a0]*[\\d,.]+([\\s\\u00a0]×[\\s\\u00a0]10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?$/;
return [...document.querySelectorAll("b, dd, td, span")]
  .filter((e) => e.checkVisibility() && number.test(e.textContent))
  .filter((e) => { const range = document.createRange(); range.selectNodeContents(e);
    return new Set([...range.getClientRects()].map((b) => Math.round(b.top))).size > 1; })
  .map((e) => e.textContent);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 768, 390])
def test_no_text_is_clipped(browser, unusual, width, scheme):
    show(browser, unusual, width=width, scheme=scheme)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    for script in (CLIPPED, OUTSIDE, DRAWN, BROKEN):
        assert browser.execute_script(script) == []


@pytest.mark.parametrize("width", [1200, 390])
def test_the_chart_of_intervals_is_not_cut_off(browser, unusual, width):
    show(browser, unusual, width=width)
    frames = browser.execute_script(
        "return [...document.querySelectorAll('#calibration svg')].filter((s) => s.checkVisibility())"
        ".map((s) => [s.getBoundingClientRect().left, s.getBoundingClientRect().right])"
    )
    assert len(frames) == 3  # reliability, PIT, and one of the two charts of intervals
    for left, right in frames:
        assert left >= 0
        assert right <= width


def test_right_to_left_names_do_not_turn_signs_around(browser, unusual):
    """In a rule, the number left of a sign is drawn left of it, and the name right of it."""
    show(browser, unusual)
    rules = browser.execute_script(
        """
        const place = (node, text) => { const i = node.data.indexOf(text); if (i < 0) return null;
          const r = document.createRange(); r.setStart(node, i); r.setEnd(node, i + text.length);
          return r.getBoundingClientRect(); };
        const walk = document.createTreeWalker(document.querySelector(".regions"), NodeFilter.SHOW_TEXT);
        const found = [];
        for (let node = walk.nextNode(); node; node = walk.nextNode()) {
          const match = /([\\d.]+) < \\u2068([^\\u2069]+)\\u2069 <= ([\\d.]+)/.exec(node.data);
          if (!match) continue;
          const [low, name, high] = [match[1] + " <", match[2], "<= " + match[3]].map((t) => place(node, t));
          if (low.top === name.top && name.top === high.top) found.push(low.left < name.left && name.left < high.left);
        }
        return found;
        """
    )
    assert all(rules)
