"""`python -m agents.host.arithmetic`: check a known computation on all cores, as a worker would.

Exits with 1 if a matrix product is not exact; fp32 rounds no product of such small integers.
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
