"""What mkdocs is told about this repository: pages that lie outside of docs/, and links that lead there."""

import os
import re
import shutil
import sys
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]

# Code of pages runs here: files that pages write, and the ones they read, are in this folder.
SCRATCH = ROOT / "build" / "docs"
# The results with a page that is made again from their records.
FRESH = ROOT / "build" / "docs-results"

# file of the repository -> page of the site
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "experiments/results/README.md": "results/index.md",
}
# pictures and tables of results; the records themselves stay in the repository
COPIED = {".png", ".svg", ".csv", ".tex"}

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_startup(command, dirty):
    """Start with an empty folder for the code of the pages."""
    sys.path.insert(0, str(Path(__file__).parent))  # code of pages imports site_show and others
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir(parents=True)
    _make_results_page()
    os.environ["COLUMNS"] = "100"
    os.environ["NO_COLOR"] = "1"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the command usnrt


def _make_results_page():
    """Write page and tables of a copy of the results; figures need predictions of rows, which a clone does not have."""
    from usnrt_experiments import Store
    from usnrt_experiments.page import write_page

    shutil.rmtree(FRESH, ignore_errors=True)
    shutil.copytree(ROOT / "experiments" / "results", FRESH, ignore=shutil.ignore_patterns("*.npz", "*.claim"))
    write_page(Store(FRESH))


def on_config(config):
    """Write out the patterns in the navigation."""
    entries = [_written_out(entry, Path(config["docs_dir"])) for entry in config["nav"]]
    config["nav"] = [entry for entry in entries if all(entry.values())]
    return config


def _written_out(entry, docs):
    if isinstance(entry, dict):
        return {title: _written_out(value, docs) for title, value in entry.items()}
    if isinstance(entry, list):
        found = [_written_out(value, docs) for value in entry]
        return [page for part in found for page in (part if isinstance(part, list) else [part])]
    if "*" not in entry:
        return entry
    return sorted(path.relative_to(docs).as_posix() for path in docs.glob(entry))


def on_files(files, config):
    """Add pages and files of the repository that are not in docs/."""
    for source, page in PAGES.items():
        path = FRESH / "README.md" if page == "results/index.md" else ROOT / source
        files.append(File.generated(config, page, abs_src_path=str(path)))
    for path in sorted(FRESH.rglob("*")):
        if path.suffix in COPIED and "cells" not in path.parts:
            page = f"results/{path.relative_to(FRESH).as_posix()}"
            files.append(File.generated(config, page, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Make numbers from records again; let links between files of the repository lead to pages of the site."""
    from site_numbers import fresh

    markdown = fresh(markdown)
    home = {target: source for source, target in PAGES.items()}.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    pieces = re.split(r"(^(?:```|~~~).*?^(?:```|~~~)|`[^`\n]*`)", markdown, flags=re.MULTILINE | re.DOTALL)
    pieces[::2] = [LINK.sub(lambda found: _on_site(found, home, page, files), piece) for piece in pieces[::2]]
    return "".join(pieces)


def _on_site(found, home, page, files):
    picture, text, target, anchor = found.group(1), found.group(2), found.group(3), found.group(4) or ""
    if not target or re.match(r"[a-z]+:", target):
        return found.group(0)
    path = (ROOT / home).parent.joinpath(target).resolve()
    if not path.is_relative_to(ROOT):
        return found.group(0)
    name = path.relative_to(ROOT).as_posix()
    uri = PAGES.get(name, name.removeprefix("docs/").removeprefix("experiments/"))
    if files.get_file_from_path(uri):
        up = "../" * page.file.src_uri.count("/")
        return f"{picture}[{text}]({up}{uri}{anchor})"
    if path.exists():  # a file of the repository that the site does not have
        return text if "`" in text or text != target else f"`{name}`"
    return found.group(0)  # mkdocs reports it
