"""Describe the public API: names, parameters and defaults. ``make api`` renews ``public_api.json`` and its page.

A key is a public name, or a public member of a public class; its value is a list of parameters (of a class: of its
constructor), ``"property"``, ``"attribute"`` (those of fitted models are taken from the docstring), or the type of a
constant. ``/`` and ``*`` stand where Python has them. Members that scikit-learn defines are left out, since they depend
on its version. Commands of the command line have their options.
"""

import inspect
import json
import re
from functools import cached_property
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("public_api.json")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "signatures.md"
SIGNATURES = """# All signatures

Every public name with its parameters, to read without building the site; `make api` writes this page. What they mean is
in the docstrings: `help(usnrt.USNRTRegressor.fit)`.
"""
PACKAGES = (
    "usnrt",
    "usnrt.comparison",
    "usnrt.datasets",
    "usnrt.decide",
    "usnrt.distributions",
    "usnrt.explain",
    "usnrt.metrics",
    "usnrt.onnx",
    "usnrt.paper.baselines",
    "usnrt.paper.datasets",
    "usnrt.persistence",
    "usnrt.plotting",
    "usnrt.reporting",
    "usnrt.serve",
    "usnrt.whatif",
)


def describe() -> dict[str, Any]:
    """The API of the packages and of the command line."""
    described: dict[str, Any] = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            described |= describe_object(f"{package}.{name}", getattr(module, name))
    return dict(sorted((described | describe_commands()).items()))


def describe_object(path: str, thing: Any) -> dict[str, Any]:
    """A function, a constant, or a class with its members."""
    if inspect.isclass(thing):
        return {path: parameters_of(thing), **describe_members(path, thing)}
    return {path: parameters_of(thing) if callable(thing) else f"constant of type {type(thing).__name__}"}


def describe_members(path: str, cls: type) -> dict[str, Any]:
    """Public methods and properties that the library defines, inherited ones included."""
    described: dict[str, Any] = {}
    for name in dir(cls):
        home = next((base for base in cls.__mro__ if name in vars(base)), None)
        if name.startswith("_") or home is None or not home.__module__.startswith("usnrt"):
            continue
        member = vars(home)[name]
        member = getattr(member, "fn", member)  # a method behind scikit-learn's available_if
        if inspect.isfunction(member):
            described[f"{path}.{name}"] = parameters_of(member)[1:]  # without self
        elif isinstance(member, (classmethod, staticmethod)):
            described[f"{path}.{name}"] = parameters_of(getattr(cls, name))
        elif isinstance(member, (property, cached_property)):
            described[f"{path}.{name}"] = "property"
        elif not name.endswith("_request"):  # scikit-learn's methods of metadata routing
            described[f"{path}.{name}"] = "attribute"
    documented = {f"{path}.{name}": "attribute" for name in documented_attributes(cls)}
    return documented | described


def documented_attributes(cls: type) -> list[str]:
    """Names in the section *Attributes* of a docstring, where the attributes of fitted models are."""
    section = re.search(r"^Attributes\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", inspect.getdoc(cls) or "", re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(\w[\w, ]*?)(?: : .*)?$", section.group(1), re.MULTILINE) if section else []
    return [name for line in lines for name in line.split(", ")]


def parameters_of(function: Any) -> list[str]:
    """Parameters with their defaults, without types, whose text depends on the version of Python."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a class of the standard library, such as an exception
        return ["..."]
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    parameters, kinds = [], [p.kind for p in plain]
    for number, parameter in enumerate(plain):
        if parameter.kind is parameter.KEYWORD_ONLY and not {parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY} & set(
            kinds[:number]
        ):
            parameters.append("*")
        parameters.append(str(parameter))
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.POSITIONAL_ONLY not in kinds[number + 1 :]:
            parameters.append("/")
    return parameters


def describe_commands() -> dict[str, Any]:
    """Arguments and options of every command of ``usnrt``."""
    from typer.main import get_command

    from usnrt.cli._app import app

    described = {}
    commands = [("usnrt", get_command(app))]
    while commands:
        path, command = commands.pop()
        described[f"$ {path}"] = [
            name
            for parameter in command.params
            for name in (*parameter.opts, *parameter.secondary_opts)
            if not name.endswith("-completion")  # typer's own
        ]
        commands += [(f"{path} {name}", inner) for name, inner in getattr(command, "commands", {}).items()]
    return described


def changes(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What was removed or changed, and what was only added, as sentences."""
    breaking = [f"{name} was removed" for name in old if name not in new]
    added = [f"{name} is new" for name in new if name not in old]
    for name in (name for name in old if name in new and old[name] != new[name]):
        before, after = old[name], new[name]
        if not (isinstance(before, list) and isinstance(after, list)):
            breaking.append(f"{name} was {before}, is {after}")
            continue
        gone, come = [p for p in before if p not in after], [p for p in after if p not in before]
        optional = all("=" in p or p.startswith(("*", "-")) for p in come)
        if not gone and optional and by_position(after)[: len(by_position(before))] == by_position(before):
            added.append(f"{name} has new parameters: {', '.join(come)}")
        else:
            breaking.append(f"{name} lost [{', '.join(gone)}] and got [{', '.join(come)}]: now {', '.join(after)}")
    return breaking, added


def by_position(parameters: list[str]) -> list[str]:
    """Parameters that may be given without their names, whose order therefore matters."""
    return list(takewhile(lambda parameter: not parameter.startswith(("*", "-")), parameters))


def signatures(described: dict[str, Any]) -> str:
    """The page of all signatures, as Markdown."""
    parts: dict[str, list[str]] = {}
    for name, value in described.items():
        package = max((own for own in PACKAGES if f"{name}.".startswith(f"{own}.")), key=len, default="commands")
        if name.startswith("$ "):
            parts.setdefault("Commands", []).append(f"{name[2:]} {' '.join(value)}".rstrip())
        elif isinstance(value, list):
            parts.setdefault(f"`{package}`", []).append(f"{name.removeprefix(f'{package}.')}({', '.join(value)})")
        else:
            parts.setdefault(f"`{package}`", []).append(f"{name.removeprefix(f'{package}.')}: {value}")
    sections = [f"## {title}\n\n```text\n" + "\n".join(lines) + "\n```\n" for title, lines in parts.items()]
    return "\n".join([SIGNATURES, *sections])


def main() -> None:
    """Write the files."""
    described = describe()
    PATH.write_text(json.dumps(described, indent=1) + "\n")
    PAGE.write_text(signatures(described))
    print(f"wrote {PATH}")


if __name__ == "__main__":
    main()
