"""The workflow of continuous integration and the pre-commit hooks: valid, and the same checks as `make test`."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"
# keys of a hook that pre-commit knows, of those that local hooks use
HOOK_KEYS = {"id", "name", "entry", "language", "types", "types_or", "files", "pass_filenames", "require_serial"}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def job():
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML 1.1 reads the key "on" as a truth value
    assert workflow["permissions"] == {"contents": "read"}
    (only,) = workflow["jobs"].values()
    return only


@pytest.fixture(scope="module")
def hooks():
    (repository,) = yaml.safe_load(HOOKS.read_text())["repos"]
    assert repository["repo"] == "local"
    return {hook["id"]: hook for hook in repository["hooks"]}


def test_the_workflow_runs_make_test(job):
    assert [step["run"] for step in job["steps"] if "run" in step] == ["make test"]


def test_actions_of_the_workflow_have_versions(job):
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in used)
    assert [name.partition("@")[0] for name in used] == ["actions/checkout", "actions/setup-python"]


def test_the_workflow_tests_all_pythons_of_the_package(job, project):
    stated = [found[1] for name in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", name))]
    assert job["strategy"]["matrix"]["python"] == stated
    assert project["requires-python"] == f">={stated[0]}"


def test_hooks_have_the_keys_that_pre_commit_needs(hooks):
    for hook in hooks.values():
        assert {"id", "name", "entry", "language"} <= set(hook) <= HOOK_KEYS
        assert hook["language"] == "system"


def test_hooks_run_the_tools_of_make_test(hooks, project):
    makefile = (ROOT / "Makefile").read_text()
    developers = " ".join(project["optional-dependencies"]["dev"])
    for hook in hooks.values():
        tool, _, arguments = hook["entry"].removeprefix(".venv/bin/").partition(" ")
        command = " ".join([tool, *arguments.replace("--force-exclude", "").split()])
        assert hook["entry"].startswith(".venv/bin/")
        assert f"\t$(BIN)/{command}" in makefile
        assert tool in developers


@pytest.mark.parametrize(
    ("name", "path", "matches"),
    [("mypy", "src/usnrt/demo.py", True), ("mypy", "pyproject.toml", True), ("mypy", "tests/test_demo.py", False)],
)
def test_hooks_run_for_the_files_of_their_tool(hooks, name, path, matches):
    assert bool(re.search(hooks[name]["files"], path)) == matches


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/usnrt/**/*.py")]
HOMES = ["", "src", "src/usnrt", "experiments", "experiments/src/usnrt_experiments"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_modules_that_texts_name_exist(page):
    """Of paths in backticks; a changelog tells of modules that are gone."""
    named = (
        set() if page.stem == "CHANGELOG" else set(re.findall(r"`((?:\w+/)+\w+\.py)(?::[\w.]+)?`", page.read_text()))
    )
    assert not [path for path in named if not any((ROOT / home / path).is_file() for home in HOMES)]
