"""Documentation of parameters that several baselines share."""

from inspect import cleandoc
from typing import Any, ClassVar

# The parameters of every model.
EVERY_MODEL = """
    categorical_features : list of names or positions, or bool mask, default=None
        Columns of integer category codes. Text and category columns are always categorical.
    random_state : int, RandomState or None, default=None
        Seed; with an int the model is reproducible, bit for bit, whatever ``n_jobs`` is.
    n_jobs : int, default=-1
        Number of threads; -1 for all cores."""


class SharedDocs:
    """Replaces ``{shared}`` in the docstring of a subclass with ``_SHARED``, formatted with the subclass's defaults."""

    _SHARED: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # without indentation, as Python 3.13 compiles docstrings: both parts start in the same column
        cls.__doc__ = cleandoc(cls.__doc__ or "").replace("{shared}", cleandoc(cls._SHARED.format(model=cls)))
