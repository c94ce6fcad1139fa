"""A page to play with the inputs of a model; ``usnrt.what_if`` is `write_what_if`."""

from usnrt.whatif.page import write_what_if

__all__ = ["write_what_if"]
