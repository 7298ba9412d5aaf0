"""The reason why a file can't be read as a contract, in one line that a user can act on."""

from __future__ import annotations

import yaml
from pydantic import ValidationError

from controller.contracts.documents import DocumentRefused
from controller.contracts.wording import faults_of

UNREADABLE = (
    OSError,
    UnicodeDecodeError,
    yaml.YAMLError,
    RecursionError,
    DocumentRefused,
    ValidationError,
)
"""What reading a contract from YAML or JSON can raise."""
MOST = 3
"""Faults that one message names at most."""
LONGEST = 200
"""Characters of a fault, or of its place, that a message repeats at most."""


def reason(error: Exception) -> str:
    """Return the reason of one of UNREADABLE, with key, line or byte if known."""
    match error:
        case ValidationError():
            return faults(error)
        case OSError():
            return error.strerror or str(error)
        case UnicodeDecodeError():
            return f"byte {error.start} is not UTF-8 text"
        case RecursionError():
            return "it is nested too deeply"
        case DocumentRefused():
            return str(error)
    return f"not YAML: {_place(error)}"


def faults(error: ValidationError) -> str:
    """Return the faults of a contract: "key: message; …"."""
    found = faults_of(error)
    told = "; ".join(
        f"{fault.key[:LONGEST] or 'the whole'}: {fault.said[:LONGEST]}" for fault in found[:MOST]
    )
    return told if len(found) <= MOST else f"{told}; and {len(found) - MOST} more"


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    what = (getattr(error, "problem", None) or str(error) or type(error).__name__)[:LONGEST]
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else str(what)
