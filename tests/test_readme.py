"""The README's code blocks run, in the order a reader meets them, and what it points to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def is_left_out(place):
    """Whether a file belongs to the experiments, which the sdist does not have."""
    return (ROOT / "experiments") in place.parents and not (ROOT / "experiments").exists()


def test_the_python_blocks_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, block {number}", "exec"), names)
    assert names["interval"].shape == (3000, 2)
    assert (names["interval"][:, 0] < names["interval"][:, 1]).all()


def test_the_first_block_is_ten_lines():
    first = re.search(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL).group(1)
    assert len([line for line in first.splitlines() if line.strip()]) <= 10


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/design.md"])
def test_links_lead_somewhere(document):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if not target.startswith("https://"):
            place = (path.parent / target).resolve()
            assert place.exists() or is_left_out(place), f"{document} points to {target}"


def test_commands_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        # in code only: an indented line, or between backticks
        commands = set(
            re.findall(r"(?:^    (?:\w+=\w+ )?|`)make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE)
        )
        assert commands, document
        assert commands <= targets


def test_extras_are_those_of_the_package():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set(re.findall(r"^\| `([a-z]+)` \|", README, flags=re.MULTILINE))
    assert named == {"plot", "cli", "data", "report", "onnx", "serve", "dask", "compare"}
    assert named <= set(extras)


def test_contributing_is_a_page():
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) < 720
