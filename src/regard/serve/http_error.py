"""A request that cannot be answered, told in a sentence."""

from __future__ import annotations


class HttpError(Exception):
    """What is wrong, and what to do about it; `status` is HTTP's number for it."""

    def __init__(self, status: int, error: str, hint: str = "") -> None:
        super().__init__(error)
        self.status, self.error, self.hint = status, error, hint

    def content(self) -> dict[str, str]:
        return {"error": self.error, "hint": self.hint}
