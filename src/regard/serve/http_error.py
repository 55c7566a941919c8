"""A request that cannot be answered."""

from __future__ import annotations

from regard.serve.responses import ErrorMessage


class HttpError(Exception):
    """What is wrong and what to do about it, with HTTP's status code."""

    def __init__(self, status: int, error: str, hint: str = "") -> None:
        super().__init__(error)
        self.status, self.error, self.hint = status, error, hint

    def content(self) -> ErrorMessage:
        return ErrorMessage(self.error, self.hint)
