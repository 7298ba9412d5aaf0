"""Batches of a text, with what is to be predicted hidden: read for each step.

A batch is a function of its step and the settings: order, and what is hidden, come from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from controller.contracts.result import Environment
from models.images.errors import unusable
from models.text.folder import TextSet
from models.text.masking import hidden, masked_count
from models.text.vocabulary import BEGIN, END, MASK

MaskedText = tuple[tuple[Tensor, Tensor], Tensor]
"""Tokens [B, T] and the places [B, P] of those to predict, which are [B, P]; int64."""
AROUND = 2
"""Tokens of a sequence that are not of the text: its beginning and its end."""
LEAST_LENGTH = AROUND + 1


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How sequences are cut."""

    sequence_length: int
    batch_size: int
    seed: int
    """Of their order, and of what is hidden."""


class TextLoader:
    """A Loader: sequences of a text without gaps, across ends of texts (Liu et al. 2019, 4.2).

    Each begins with [CLS] and ends with [SEP]; what fills no sequence, or no batch of an epoch, is
    left out. Raises DataUnusable.
    """

    def __init__(self, source: TextSet, settings: TextSettings) -> None:
        self._source, self._settings = source, settings
        length, size = settings.sequence_length, settings.batch_size
        if length < LEAST_LENGTH:
            why = f"{length} leaves no room for text between {BEGIN} and {END}"
            remedy = f"Set it to at least {LEAST_LENGTH}."
            raise unusable(source.source, "knob sequence_length", why, remedy)
        self.sequences = len(source.tokens) // (length - AROUND)
        if size > self.sequences:
            why = f"batch_size={size} is more than its {self.sequences} sequences of {length}"
            raise unusable(source.source, "tokens", why, "Set batch_size lower, or give more text.")
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def batch(self, step: int) -> MaskedText:
        """Return the batch of a step."""
        settings, vocabulary = self._settings, self._source.vocabulary
        generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + step)
        tokens = torch.stack([self._sequence(number) for number in self._numbers(step)])
        inner = settings.sequence_length - AROUND
        keys = torch.rand(len(tokens), inner, generator=generator)
        # What is between texts is predicted only where there is not enough else.
        keys[tokens[:, 1:-1] == vocabulary[END]] = 1.0
        order = keys.argsort(dim=1)
        places = order[:, : masked_count(settings.sequence_length)] + 1
        wanted = tokens.gather(1, places)
        shown = hidden(tokens, places, vocabulary[MASK], len(vocabulary), generator)
        return (shown, places), wanted

    @property
    def workers(self) -> int:
        """See Loader.workers."""
        return 0

    @property
    def ahead(self) -> int:
        """See Loader.ahead."""
        return 0

    def cpu_s(self) -> float:
        """Return 0: no other process loads."""
        return 0.0

    def facts(self) -> Environment:
        """Return what was read."""
        return {
            "data_sha256": self._source.sha256,
            "data_tokens": len(self._source.tokens),
            "data_sequences": self.sequences,
        }

    def _numbers(self, step: int) -> list[int]:
        """Return the sequences of a step: a part of an epoch's order."""
        size = self._settings.batch_size
        epoch, place = divmod(step, self.sequences // size)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self._settings.seed * 1_000_003 + epoch)
            self._epoch = epoch
            self._order = torch.randperm(self.sequences, generator=generator)
        return self._order[place * size : (place + 1) * size].tolist()

    def _sequence(self, number: int) -> Tensor:
        """Return a sequence [T], int64."""
        inner, vocabulary = self._settings.sequence_length - AROUND, self._source.vocabulary
        found = np.empty(inner + AROUND, np.int64)
        found[0], found[-1] = vocabulary[BEGIN], vocabulary[END]
        found[1:-1] = self._source.tokens[number * inner : (number + 1) * inner]
        return torch.from_numpy(found)
