"""What a real measurement may be called on a machine that other programs use, too."""

from __future__ import annotations

from typing import Final

from controller.contracts.result import Validity

MET_RULES: Final = frozenset({Validity.VALID, Validity.DISTURBED})
