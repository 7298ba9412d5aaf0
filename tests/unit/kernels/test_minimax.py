from __future__ import annotations

import math
import re

import pytest
import torch

from kernels.build import SOURCES
from kernels.minimax import Polynomial, minimax, polynomials


@pytest.fixture(scope="module")
def found() -> dict[str, Polynomial]:
    return polynomials()


def test_the_sources_hold_what_is_found(found: dict[str, Polynomial]) -> None:
    text = (SOURCES / "vec_math.h").read_text()
    arrays = re.findall(r"relative error ([\d.e-]+)\n.*?(\w+)\[\] = \{(.*?)\}", text, re.DOTALL)
    held = {
        f"{precision}::{name}": (float(error), [float(c.strip(" \nf")) for c in terms.split(",")])
        for precision, (error, name, terms) in zip(
            ("Fine", "Fine", "Fine", "Coarse", "Coarse"), arrays, strict=True
        )
    }
    assert held.keys() == found.keys()
    for name, (error, coefficients) in held.items():
        assert error == pytest.approx(found[name].error, rel=0.05)
        expected = found[name].coefficients
        # The last digits depend on the BLAS that solves the system.
        torch.testing.assert_close(
            torch.tensor(coefficients, dtype=torch.float64), expected, rtol=1e-6, atol=0
        )


def test_chebyshev_knew_the_best_line_for_the_exponential() -> None:
    # The best line in the absolute sense is known; near 1 the relative sense is close to it.
    line = minimax(torch.exp, 0, 1e-2, 1)
    assert line.coefficients.tolist() == pytest.approx([1, 1], abs=1e-2)
    assert line.error == pytest.approx(1e-4 / 16, rel=1e-2)


def test_a_higher_degree_is_closer() -> None:
    half = math.log(2) / 2
    errors = [minimax(torch.exp, -half, half, n).error for n in (2, 3, 4)]
    assert errors == sorted(errors, reverse=True)
