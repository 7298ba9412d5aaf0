"""What is wrong with a file that should hold a contract, in a line that a person can act on."""

from __future__ import annotations

import yaml
from pydantic import ValidationError

from controller.contracts.documents import DocumentRefused

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
"""So many faults are told of at once."""
LONGEST = 200
"""So many characters of what is wrong, or of where, are told."""


def reason(error: Exception) -> str:
    """Return one of UNREADABLE in a few words: keys, lines and bytes are named, if known."""
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
    """Return what a contract objects to: "key: message; …"."""
    found = error.errors(include_url=False, include_input=False)
    told = "; ".join(
        f"{'.'.join(map(str, fault['loc']))[:LONGEST] or 'the whole'}: {fault['msg'][:LONGEST]}"
        for fault in found[:MOST]
    )
    return told if len(found) <= MOST else f"{told}; and {len(found) - MOST} more"


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    what = (getattr(error, "problem", None) or str(error) or type(error).__name__)[:LONGEST]
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else str(what)
