"""The exception for invalid model files."""


class ModelFileError(ValueError):
    """A file is not a model file of this library, or it is damaged."""
