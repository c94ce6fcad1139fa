"""Docstrings as the reference shows them: completed as ``help`` does, and numpydoc's notation as Markdown."""

import inspect
import re
from importlib import import_module

import griffe
from latex2mathml.converter import convert

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
    """Return a docstring with Markdown and MathML for what numpydoc writes otherwise."""
    text = re.sub(r"^ *\.\. math::(?: *\n\s*\n)?((?:.*\S.*\n?)+)", _formula, text, flags=re.MULTILINE)
    text = re.sub(r":math:`([^`]*)`", lambda found: convert(found[1]), text)
    for pattern, replacement in NOTATION:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def _formula(found):
    return f'\n<div class="formula">{convert(" ".join(found[1].split()), display="block")}</div>\n'
