"""Pages of the site: all public names are documented, links lead somewhere."""

import re
import sys
from pathlib import Path

import pytest

import usnrt

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "tools"))

from site_reference import PACKAGES, documented, object_at, public_names  # noqa: E402

PAGES = sorted(path for path in DOCS.rglob("*.md") if "tools" not in path.parts)


def without_code(text):
    return re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)


def anchor(heading):
    """The anchor of a heading, as code hosts and the site make it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")


def anchors(path):
    text = without_code(path.read_text())
    found = {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    return found | {name for page, name in documented() if page == path.name}


def links(path):
    text = re.sub(r"`[^`\n]*`(?!\]\()", "", without_code(path.read_text()))
    return [
        (target, place)
        for target, place in re.findall(r"\]\(([^)\s#]*)#?([^)\s]*)\)", text)
        if not re.match(r"[a-z]+:", target)
    ]


def leads_somewhere(path, target, place):
    page = (path.parent / target).resolve() if target else path
    if not page.exists():  # the sdist is without the experiments
        return (ROOT / "experiments") in page.parents and not (ROOT / "experiments").exists()
    if not place or page.suffix != ".md":
        return True
    if page.name == "commands.md":
        return place.split("-")[0] == "usnrt"  # made when the site is built, which checks them
    owner, _, member = place.rpartition(".")
    return place in anchors(page) or (owner in anchors(page) and hasattr(object_at(owner), member))


def test_every_package_with_public_names_is_in_the_reference():
    package = Path(usnrt.__file__).parent  # the sdist's tests run against an installed package
    found = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in [*package.glob("*.py"), *package.rglob("__init__.py")]
        if re.search(r"^__all__", path.read_text(), re.MULTILINE)
    }
    assert found == set(PACKAGES)


def test_every_public_name_is_in_the_reference():
    paths = [path for _, path in documented()]
    assert len(set(paths)) == len(paths)
    known = [object_at(path) for path in paths]
    missing = [
        f"{package}.{name}"
        for package, name, value in public_names()
        if f"{package}.{name}" not in paths and not any(value is other for other in known)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_links_and_their_anchors_lead_somewhere(page):
    assert [link for link in links(page) if not leads_somewhere(page, *link)] == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n\n[a](page.md#one) [b](#two) [c](other.md) `[d](no.md)`\n")
    broken = [link for link in links(page) if not leads_somewhere(page, *link)]
    assert broken == [("", "two"), ("other.md", "")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_every_snippet_is_executed_when_the_site_is_built(page):
    fences = re.findall(r"^ *```(?:python|py)\b(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [fence for fence in fences if "exec=" not in fence] == []


def test_pages_for_programs_lead_somewhere():
    """llms.txt, whose links are from the root of the repository."""
    targets = re.findall(r"\]\(([^)#]+)\)", (ROOT / "llms.txt").read_text(encoding="utf-8"))
    assert len(targets) >= 10
    assert [target for target in targets if not (ROOT / target).is_file()] == []


def test_the_page_for_agents_runs(capsys):
    text = (DOCS / "agents.md").read_text(encoding="utf-8")
    session = {}
    for code in re.findall(r"^```python[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(compile(code, "agents.md", "exec"), session)
    assert list(session["predicted"])[-3:] == ["q0.1", "q0.9", "probability_above"]
    for name in re.findall(r"`model\.(\w+)", text):
        assert hasattr(session["model"], name), name


def test_thirty_questions_are_answered():
    page = DOCS / "how_do_i.md"
    rows = re.findall(r"^\| (.*\?) \| \[[^\]]*\]\(([^)]*)\) \|$", page.read_text(), re.MULTILINE)
    assert len(rows) >= 30
    assert len({question for question, _ in rows}) == len(rows)
    assert len({target for _, target in rows}) == len(rows)


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    missing = [
        path.relative_to(DOCS).as_posix()
        for path in PAGES
        if path.relative_to(DOCS).as_posix() not in navigation and path.parent.name != "tutorials"
    ]
    assert missing == []
