"""Errors that the user can fix."""


class UserError(Exception):
    """An error that the user can fix; its message is all that is shown."""
