"""What the reference is generated from: the public names, their pages, and the help of the commands."""

import inspect
import re
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]

# every package with an ``__all__``, in the order of the index
PACKAGES = {
    "usnrt": "Models, and the functions that most users need",
    "usnrt.metrics": "Metrics of forecasts",
    "usnrt.decide": "Decisions from predictive distributions",
    "usnrt.plotting": "Plots of forecasts and regions",
    "usnrt.reporting": "HTML reports",
    "usnrt.comparison": "Models beside each other on your table",
    "usnrt.comparison.peers": "Other libraries with this interface",
    "usnrt.explain": "Why a row is as uncertain as it is",
    "usnrt.distributions": "Predictive distributions",
    "usnrt.persistence": "Model files",
    "usnrt.serve": "Models as a service",
    "usnrt.whatif": "A page to play with the inputs of a model",
    "usnrt.onnx": "Export to ONNX",
    "usnrt.datasets": "Generators with known noise",
    "usnrt.paper.datasets": "The paper's data sets",
    "usnrt.paper.baselines": "The competing models of the paper",
    "usnrt.tables": "Internal: tables and their encoding",
    "usnrt.tree": "Internal: split search, growth, rules",
    "usnrt.memory": "Internal: memory of training rows",
}


def public_names():
    """Return (package, name, object) of every name in an ``__all__``."""
    return [
        (package, name, getattr(import_module(package), name))
        for package in PACKAGES
        for name in sorted(import_module(package).__all__, key=str.lower)
    ]


def documented():
    """Return the page and the path of everything that the reference documents, as (page, path)."""
    pages = sorted((DOCS / "reference").glob("*.md"))
    return [(page.name, path) for page in pages for path in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]


def object_at(path):
    """Return what a dotted path stands for."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def name_index():
    """Return the tables of all public names as Markdown, one per package."""
    paths = [path for _, path in documented()]
    lines = []
    for package, purpose in PACKAGES.items():
        lines += [f"### `{package}`", "", f"{purpose}.", "", "| name | |", "|---|---|"]
        for _, name, value in (entry for entry in public_names() if entry[0] == package):
            lines.append(f"| [`{name}`][{_documented_as(value, f'{package}.{name}', paths)}] | {_summary(value)} |")
        lines.append("")
    return "\n".join(lines)


def _documented_as(value, path, paths):
    return path if path in paths else next(other for other in paths if object_at(other) is value)


def _summary(value):
    if not (inspect.isclass(value) or callable(value)):
        return "constant"
    first = re.split(r"\n\s*\n", inspect.getdoc(value) or "")[0].replace("\n", " ")
    return re.sub(r"`{1,2}([^`]*)`{1,2}", r"`\1`", first).replace("|", "\\|")


def command_help():
    """Return the help of every command of ``usnrt`` as Markdown."""
    import click
    import typer

    from usnrt.cli._app import app

    root = typer.main.get_command(app)
    lines = []
    for path, command in _commands(root, ("usnrt",)):
        context = click.Context(command, info_name=" ".join(path), max_content_width=90, terminal_width=90)
        lines += [f"## {' '.join(path)}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    return "\n".join(lines)


def _commands(command, path):
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from _commands(child, (*path, name))
