"""The protocol of helpers: processes that other parts of benchfarm start for one job.

A helper reads its request, one line of JSON, from standard input, and ends when that input does. It
prints a HelperReply a line: progress, answers, or the error for which there are none. Its exit
status is 0, or USER_ERROR after an error.
"""

from __future__ import annotations

from typing import Self, TypeVar

from pydantic import JsonValue, model_validator

from controller.contracts.base import Contract
from controller.contracts.error_payload import ErrorPayload

Answer = TypeVar("Answer", bound=Contract)


class HelperReply(Contract):
    """A line that a helper prints: it has one of these."""

    progress: str | None = None
    """A line for the user."""
    answer: dict[str, JsonValue] | None = None
    """The contract that was asked for."""
    error: ErrorPayload | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if [self.progress, self.answer, self.error].count(None) != 2:
            raise ValueError("it has one of progress, answer and error")
        return self

    def line(self) -> str:
        """Return the line, as JSON in ASCII: the same bytes in every locale."""
        return self.model_dump_json(exclude_unset=True, ensure_ascii=True) + "\n"


def read_reply(line: bytes, kind: type[Answer]) -> Answer | str:
    """Return the answer of a helper's line, or its progress as text.

    Raises the UserError that the helper replied with, and ValidationError for anything else.
    """
    reply = HelperReply.model_validate_json(line)
    if reply.error is not None:
        raise reply.error.error()
    if reply.progress is not None:
        return reply.progress
    return kind.model_validate(reply.answer)
