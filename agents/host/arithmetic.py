"""`python -m agents.host.arithmetic`: compute on all cores what is known, as a worker would.

Exits with 1 if a product of matrices is not exact: of whole numbers so small, fp32 rounds none.
"""

from __future__ import annotations

import sys

import torch

SIZE, LARGEST, ROUNDS = 512, 8, 20


def main(largest: int = LARGEST) -> int:
    """Multiply by torch's fp32 routines, and compare with whole numbers, of `largest` at most."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randint(-largest, largest + 1, (SIZE, SIZE), generator=generator)
    exact = matrix @ matrix
    wrong = sum(
        not torch.equal((matrix.float() @ matrix.float()).long(), exact) for _ in range(ROUNDS)
    )
    if wrong:
        sys.stderr.write(f"{wrong} of {ROUNDS} matrix products are wrong\n")
        return 1
    sys.stdout.write(f"{ROUNDS} matrix products are right\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
