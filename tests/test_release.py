"""What a release promises: its public names and one version everywhere."""

import json
import re
import sys
from pathlib import Path

import pytest

import usnrt
from usnrt.utils.shared_docs import SharedDocs

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent / "data"))

import make_public_api  # noqa: E402

POLICY = (
    "If the change is meant, `make api` renews tests/data/public_api.json; commit it with a line in CHANGELOG.md, and "
    "see CONTRIBUTING.md, Public API."
)


def test_the_page_of_signatures_is_that_of_the_api():
    described = json.loads(json.dumps(make_public_api.describe()))
    assert make_public_api.PAGE.read_text() == make_public_api.signatures(described), "make api renews it"


def test_the_public_api_is_that_of_the_snapshot():
    breaking, added = make_public_api.changes(
        json.loads(make_public_api.PATH.read_text()), json.loads(json.dumps(make_public_api.describe()))
    )
    if breaking:
        pytest.fail("the public API lost something:\n- " + "\n- ".join(breaking) + "\n" + POLICY, pytrace=False)
    if added:
        new = "\n- ".join(added)
        pytest.fail(f"the public API grew:\n- {new}\nIf that is meant, `make api` renews the snapshot.", pytrace=False)


@pytest.mark.parametrize(
    ("after", "is_breaking", "sentence"),
    [
        (["X", "*", "alpha=1", "beta=2"], False, "f has new parameters: beta=2"),
        (["X", "y=None", "*", "alpha=1"], False, "f has new parameters: y=None"),
        (["y=None", "X", "*", "alpha=1"], True, "f lost [] and got [y=None]: now y=None, X, *, alpha=1"),
        (["X", "*", "alpha=2"], True, "f lost [alpha=1] and got [alpha=2]: now X, *, alpha=2"),
        (["X", "*", "alpha=1", "beta"], True, "f lost [] and got [beta]: now X, *, alpha=1, beta"),
        (["X"], True, "f lost [*, alpha=1] and got []: now X"),
        ("property", True, "f was ['X', '*', 'alpha=1'], is property"),
    ],
)
def test_what_breaks_callers_is_told_from_what_is_new(after, is_breaking, sentence):
    told = make_public_api.changes({"f": ["X", "*", "alpha=1"]}, {"f": after})
    assert told == (([sentence], []) if is_breaking else ([], [sentence]))


def test_lost_and_new_names_are_told():
    assert make_public_api.changes({"a": []}, {"b": []}) == (["a was removed"], ["b is new"])


@pytest.mark.parametrize("indent", ["", "    "], ids=["Python 3.13", "Python 3.11"])
def test_shared_documentation_fits_docstrings_of_any_python(indent):
    body = {
        "__doc__": f"One line.\n\n{indent}{{shared}}\n{indent}",
        "_SHARED": "Parameters\n    ----------\n    a : int",
    }
    assert type("Model", (SharedDocs,), body).__doc__ == "One line.\n\nParameters\n----------\na : int"


def test_the_citation_names_this_version():
    stated = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE).group(1)
    assert stated == usnrt.__version__


def test_the_changelog_has_the_version_and_day_of_the_citation():
    day = re.search(r"^date-released: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE).group(1)
    assert f"\n## [{usnrt.__version__}] - {day}\n" in (ROOT / "CHANGELOG.md").read_text()
