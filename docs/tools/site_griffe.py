"""Docstrings that are completed when a module is imported: the reference shows them as ``help`` does."""

import inspect
from importlib import import_module

import griffe


class CompletedDocstrings(griffe.Extension):
    """Replaces a docstring with a place holder by the docstring of the imported class."""

    def on_class_instance(self, *, cls, **kwargs):
        """Look at the class itself where the source has a place holder."""
        if cls.docstring and "{shared}" in cls.docstring.value:
            module, _, name = cls.path.rpartition(".")
            cls.docstring.value = inspect.getdoc(getattr(import_module(module), name))
