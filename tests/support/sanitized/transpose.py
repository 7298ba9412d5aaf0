"""Steps of transpose."""

from __future__ import annotations

from tests.support.sanitized.inputs import Call, Step, numbers


def transpose(call: Call, element: str, beyond: int) -> None:
    """Matrices of whole squares and of parts of them."""
    for rows, columns in ((0, 4), (1, 1), (8, 8), (33, 7), (300, 70), (64, 256)):
        x, y = (numbers(rows * columns, element) for _ in range(2))
        call("transpose", x, rows + beyond, columns, y)


STEPS: tuple[Step, ...] = (transpose,)
