"""Mistakes of users, told in a sentence."""


class UserError(Exception):
    """Something that the user can put right; its text is all that is shown."""
