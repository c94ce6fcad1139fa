"""Errors that a client can fix."""

from typing import Any


class RequestError(Exception):
    """A request that is answered by an HTTP status and one sentence.

    The code is for programs, such as ``"invalid_rows"``; details are further members of the answer, such as the row.
    """

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details = status, code, message, details

    def body(self) -> dict[str, Any]:
        """The answer as JSON."""
        return {"error": {"code": self.code, "message": self.message, **self.details}}
