"""The tutorials: code that parses, links that lead somewhere, all in the navigation. Building the site runs them."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "tutorials"
PAGES = sorted(FOLDER.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Language, options and code of the fenced blocks of a page."""
    return [found.groups() for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def test_there_are_fifteen():
    assert [page.name[:2] for page in PAGES] == [f"{number:02d}" for number in range(1, 16)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_parses_and_is_executed(page):
    python = [(options, code) for language, options, code in blocks(page) if language == "python"]
    assert len(python) >= 5
    sessions = set()
    for options, code in python:
        ast.parse(code)
        assert 'exec="true"' in options, f"a block is not executed: {code[:60]!r}"
        sessions |= set(re.findall(r'session="([^"]*)"', options))
        assert 'sep="' not in code.replace('to_csv(folder / name, sep="', ""), "print of markdown-exec ignores sep"
        assert ("picture(" in code) == ('html="true"' in options)
    assert len(sessions) == 1  # of its own: see below


def test_pages_do_not_share_a_session():
    sessions = [set(re.findall(r'session="([^"]*)"', page.read_text(encoding="utf-8"))) for page in PAGES]
    assert len(set.union(*sessions)) == len(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_are_defined_before_they_are_used(page):
    """A typing error in a name is found here, before a build of minutes."""
    known = set(dir(__builtins__)) | set(dir(sys.modules["builtins"]))
    for language, _, code in blocks(page):
        if language != "python":
            continue
        nodes = list(ast.walk(ast.parse(code)))
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                known |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.FunctionDef):
                known |= {node.name, *(argument.arg for argument in node.args.args)}
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                known.add(node.id)
        used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        assert used <= known, f"not defined: {used - known}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    text = re.sub(BLOCK, "", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert (FOLDER / target).resolve().is_file(), target


def test_the_page_on_decisions_runs_and_saves_money(monkeypatch, capsys):
    monkeypatch.delenv("USNRT_DATA", raising=False)
    session = {}
    for language, _, code in blocks(FOLDER / "12-decisions.md"):
        if language == "python":
            exec(compile(code, "12-decisions.md", "exec"), session)
    costs, profits, total = session["costs"], session["profits"], session["total"]
    assert costs["truth"] <= costs["order_quantity"] < 0.9 * costs["point forecast and one margin"]
    assert profits["point forecast, 10 % off"] < profits["best_price"] <= profits["truth"]
    assert total(session["inspected"]) < 0.6 * total(session["largest"])
    assert "USNRT_DATA is not set" in capsys.readouterr().out


def run_page(name):
    """Run the code of a page, and return its names."""
    session = {}
    for language, _, code in blocks(FOLDER / name):
        if language == "python":
            exec(compile(code, name, "exec"), session)
    return session


def test_the_shop_saves_money_and_its_rules_are_found(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    session = run_page("14-shop.md")
    costs = session["costs"]
    assert costs["order_quantity"] < costs["the mean and one margin for all days"] < costs["the mean"]
    rules = session["model"].rules()
    worst = rules["rule"][rules["residual_std"].argmax()]
    assert worst == "weekday > 3.5 and shop = station"
    assert list(tmp_path.iterdir()) == []


def test_the_hospital_tells_groups_apart():
    session = run_page("13-hospital.md")
    assert set(session["shares"]) == {"sex a", "sex b", "under 40", "40 to 60", "over 60"}
    assert 0.8 < session["coverage_of_new"] < 0.97


def test_all_pages_are_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    for page in PAGES:
        assert "tutorials/*.md" in navigation or f"tutorials/{page.name}" in navigation, page.name


def test_the_page_on_onnx_shows_the_script_that_is_tested():
    page = (FOLDER / "10-deploy-by-onnx.md").read_text(encoding="utf-8")
    assert '/ "tests" / "javascript"' in page
    assert '(here / "predict.js").read_text()' in page
    assert "InferenceSession.create(await" not in page  # it is included, not copied


def test_commands_of_tutorials(tmp_path, monkeypatch):
    """A command is shown with its output; one that fails is an error."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tools"))
    from tutorial_commands import PROGRESS, terminal

    shown = terminal("usnrt --version", folder=tmp_path)
    assert re.fullmatch(r"```console\n\$ usnrt --version\nusnrt \d[^\n]*\n```\n", shown)
    with pytest.raises(RuntimeError, match="model.usnrt does not exist"):
        terminal("usnrt explain model.usnrt", folder=tmp_path)
    with pytest.raises(ValueError, match="command must be of usnrt, got 'ls'"):
        terminal("ls", folder=tmp_path)
    for line in ("fitted 2 regions in 59.9 s", "all 2,000 rows: two parts differ", "a part of 15 rows: a region"):
        assert PROGRESS.match(line)
    assert not PROGRESS.match("usnrt: left out: 'id'")
