"""Documentation of parameters that several models share, written once."""

from typing import Any, ClassVar

# The parameters of every model.
EVERY_MODEL = """
    categorical_features : list of names or positions, or bool mask, default=None
        Columns of whole numbers that are codes of categories. Text and category columns are found by themselves.
    random_state : int, RandomState or None, default=None
        The same whole number gives the same model, bit for bit, whatever ``n_jobs`` is.
    n_jobs : int, default=-1
        Threads; -1 for all cores."""


class SharedDocs:
    """Puts ``_SHARED`` where a subclass's docstring says ``{shared}``, with the subclass's own defaults filled in."""

    _SHARED: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = (cls.__doc__ or "").replace("{shared}", cls._SHARED.format(model=cls))
