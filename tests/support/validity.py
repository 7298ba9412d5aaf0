"""What a real measurement may be called on a machine that other programs use, too."""

from __future__ import annotations

from typing import Final

import pytest

from controller.contracts.result import Validity

MET_RULES: Final = frozenset({Validity.VALID, Validity.DISTURBED})

_V, _D, _N = Validity
CHOICES: Final = pytest.mark.parametrize(
    ("validities", "taken"),
    [
        ((_V, _V), (0, 1)),
        ((_V, _D), (0,)),
        ((_N, _V, _D, _V), (1, 3)),
        ((_D, _N), (0,)),
        ((_D, _D), (0, 1)),
        ((_N, _N), (0, 1)),
    ],
    ids=lambda given: "-".join(map(str, given)),
)
"""Validities of several measurements of one thing, and the places of those that a figure is from.
"""
