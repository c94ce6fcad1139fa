"""Docstrings as the reference shows them: completed as ``help`` does, and numpydoc's notation as Markdown."""

import inspect
import re
from importlib import import_module

import griffe

# numpydoc -> Markdown
NOTATION = (
    (r"^(\s*\*{0,2}\w+(?:, \w+)* : )\{([^}\n]*)\}", lambda found: found[1] + found[2].replace(", ", " or ")),
    (r"\[(\d+)\]_", r"[\1]"),
    (r"^(\s*)\.\. \[(\d+)\] ", r"\1[\2] "),
    (r":(?:func|class|meth|mod):`~?\.?([^`]*)`", r"`\1`"),
    (r"``([^`]*)``", r"`\1`"),
    (r"^(\s*)\.\. (?:deprecated|versionadded|versionchanged):: (\S+)", r"\1*Since \2:*"),
)


class Docstrings(griffe.Extension):
    """Changes docstrings before they are parsed."""

    def on_instance(self, *, obj, **kwargs):
        """Complete the docstring of a class, and replace notation."""
        if obj.is_alias or not obj.docstring:
            return
        if obj.is_class and "{shared}" in obj.docstring.value:
            module, _, name = obj.path.rpartition(".")
            obj.docstring.value = inspect.getdoc(getattr(import_module(module), name))
        obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text):
    """Return a docstring with Markdown for what numpydoc writes otherwise."""
    for pattern, replacement in NOTATION:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return re.sub(r"^( *)\.\. math:: *\n?((?:.*\S.*\n?)+)", _formula, text, flags=re.MULTILINE)


def _formula(found):
    lines = "\n".join(f"{found[1]}{line.strip()}" for line in found[2].strip().splitlines())
    return f"{found[1]}```text\n{lines}\n{found[1]}```\n"
