"""DLRM as a training workload on synthetic clicks (Naumov et al. 2019, arXiv 1906.00091).

Layers are those of MLPerf Training's reference; its tables have up to 40 million rows, which take
a hundred gigabytes. Here all have the same small number of rows.

The reference's tables have sparse gradients, and its SGD no momentum, so that a step touches the
rows of its batch alone. Here gradients are dense, as fused optimizers, LAMB, the mean over ranks
and the comparison of gradients need them: update and exchange take time for every row.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.optimizers import build_optimizer
from models.seeding import seeded

DISTINCT_BATCHES = 4
"""More would only cost memory: steps of all batches compute the same."""
LEARNING_RATE = 1e-3
DENSE = 13
"""Numbers of a sample in Criteo's data."""
BOTTOM = (512, 256)
TOP = (1024, 1024, 512, 256, 1)
"""Widths of layers; the bottom's last is that of an embedding."""

Clicks = tuple[Tensor, Tensor, Tensor]
"""Numbers, fp32 [B, 13]; categories, int64 [B, tables]; whether it was clicked, fp32 [B]."""


class DlrmModel(nn.Module):
    """Embeddings of categories, their dot products with each other and the numbers', a logit."""

    pairs: Tensor

    def __init__(self, tables: int, table_rows: int, embedding_size: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(table_rows, embedding_size, mode="sum") for _ in range(tables)
        )
        self.bottom = _perceptron((DENSE, *BOTTOM, embedding_size), last=nn.ReLU())
        vectors = tables + 1
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, -1), persistent=False)
        products = vectors * (vectors - 1) // 2
        self.top = _perceptron((embedding_size + products, *TOP), last=nn.Identity())

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        """Map numbers [B, 13] and categories [B, tables] to logits [B]."""
        dense = self.bottom(numbers)
        of_tables = [table(categories[:, i : i + 1]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([dense, *(found.to(dense.dtype) for found in of_tables)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        chosen = products[:, self.pairs[0], self.pairs[1]]
        logits: Tensor = self.top(torch.cat((dense, chosen.to(dense.dtype)), dim=1))
        return logits.squeeze(1)


def _perceptron(widths: tuple[int, ...], last: nn.Module) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inside, outside in pairwise(widths):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)


class DlrmTraining:
    """A TrainingWorkload on random samples whose clicks depend on their first number.

    Args:
        tables: categories of a sample.
        table_rows: rows of each table.
        embedding_size: values of a row.
        batch_size: samples in a batch.
        optimizer: one of `optimizers.build_optimizer`.
        fused_optimizer: its fused form.
        seed: of weights and data.
    """

    def __init__(
        self,
        tables: int,
        table_rows: int,
        embedding_size: int,
        batch_size: int,
        optimizer: str,
        fused_optimizer: bool,
        seed: int,
    ) -> None:
        self._tables, self._table_rows = tables, table_rows
        self._embedding_size, self._batch_size, self._seed = embedding_size, batch_size, seed
        self._optimizer, self._fused_optimizer = optimizer, fused_optimizer
        generator = torch.Generator().manual_seed(seed)
        self._batches = [self._clicks(generator) for _ in range(DISTINCT_BATCHES)]

    @property
    def batch_size(self) -> int:
        """Samples in one batch."""
        return self._batch_size

    def build_model(self) -> DlrmModel:
        """Return the model in fp32 and training mode; leaves the global random state alone."""
        with seeded(self._seed):
            return DlrmModel(self._tables, self._table_rows, self._embedding_size)

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer over all parameters; gradients of tables are dense."""
        parameters = model.parameters()
        return build_optimizer(self._optimizer, self._fused_optimizer, parameters, LEARNING_RATE)

    def batch(self, step: int) -> Clicks:
        """Return the batch of a step; every fourth step has the same one."""
        return self._batches[step % DISTINCT_BATCHES]

    def share(self, batch: Clicks, rank: int, ranks: int) -> Clicks:
        """Return a rank's part of a batch."""
        numbers, categories, clicks = (part.chunk(ranks)[rank] for part in batch)
        return numbers, categories, clicks

    def forward(self, model: nn.Module, batch: Clicks) -> Tensor:
        """Return logits [B]."""
        logits: Tensor = model(batch[0], batch[1])
        return logits

    def loss(self, outputs: Tensor, batch: Clicks) -> Tensor:
        """Return the mean cross-entropy of a click, fp32."""
        return functional.binary_cross_entropy_with_logits(outputs.float(), batch[2])

    def _clicks(self, generator: torch.Generator) -> Clicks:
        numbers = torch.rand(self._batch_size, DENSE, generator=generator)
        shape = (self._batch_size, self._tables)
        categories = torch.randint(0, self._table_rows, shape, generator=generator)
        return numbers, categories, (numbers[:, 0] > 0.5).float()
