"""The one error that a bad model file gives."""


class ModelFileError(ValueError):
    """A file is no model file of this library, or a damaged one."""
