"""Documentation of parameters that several models share, written once."""

from typing import Any, ClassVar


class SharedDocs:
    """Puts ``_SHARED`` where a subclass's docstring says ``{shared}``, with the subclass's own defaults filled in."""

    _SHARED: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = (cls.__doc__ or "").replace("{shared}", cls._SHARED.format(model=cls))
