"""What of a text is hidden from a model that is to predict it (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

MASKED: Final = 0.15
"""Fraction of the tokens that are to be predicted."""
HIDDEN, REPLACED = 0.8, 0.1
"""Fractions of these that become [MASK], and that become a random token; the rest stay."""


def masked_count(sequence_length: int) -> int:
    """Return how many tokens of a sequence are to be predicted."""
    return max(1, round(MASKED * sequence_length))


def hidden(
    tokens: Tensor, places: Tensor, mask: int, vocabulary_size: int, generator: torch.Generator
) -> Tensor:
    """Return tokens [B, T] with those at places [B, P] hidden, replaced or left as they are."""
    draws = torch.rand(places.shape, generator=generator)
    others = torch.randint(vocabulary_size, places.shape, generator=generator)
    there = tokens.gather(1, places)
    shown = torch.where(draws < HIDDEN + REPLACED, others, there)
    return tokens.scatter(1, places, torch.where(draws < HIDDEN, mask, shown))
