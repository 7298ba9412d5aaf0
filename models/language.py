"""Language models as training workloads, on synthetic text: LSTM, Transformer encoder, BERT."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.optimizers import build_optimizer
from models.seeding import seeded
from models.text.masking import masked_count

DISTINCT_BATCHES = 4
"""More would only cost memory: steps of all batches compute the same."""
HEAD_SIZE = 64
"""Of an attention head (Vaswani et al. 2017, section 3.2.2; Devlin et al. 2019 have it, too)."""
BERT_STD, BERT_EPS = 0.02, 1e-12
"""Of initial weights, and of layer norms (google-research/bert, modeling.py)."""
MASK = 0
"""The token in place of a masked one; no text has it."""

Text = tuple[tuple[Tensor, ...], Tensor]
"""What the model is called with, and the tokens that it is to predict, int64 [B, P]."""


class LstmModel(nn.Module):
    """Embedding, LSTM layers and logits of each next token."""

    def __init__(self, layers: int, hidden_size: int, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, hidden_size)
        self.lstm = nn.LSTM(hidden_size, hidden_size, layers, batch_first=True)
        self.decoder = nn.Linear(hidden_size, vocabulary_size)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens, int64 [B, T], to logits [B, T, vocabulary]; the state begins at zero."""
        logits: Tensor = self.decoder(run_lstm(self.lstm, self.embedding(tokens)))
        return logits


@torch.compiler.disable  # type: ignore[untyped-decorator]  # dynamo leaves nn.LSTM to eager anyway
def run_lstm(lstm: nn.LSTM, x: Tensor) -> Tensor:
    """Return the outputs [B, T, hidden] for x [B, T, hidden], from a state of zeros.

    Under autocast, torch 2.13 hands the LSTM to oneDNN even where that has none in bf16, which
    fails. There, it is torch's own: its matrix products are in bf16, its state is in fp32.
    """
    bf16 = torch.is_autocast_enabled("cpu")
    if not bf16 or torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return _outputs(lstm, x)
    set_flags = torch.backends.mkldnn.set_flags
    enabled, *_ = set_flags(False)  # type: ignore[no-untyped-call]
    try:
        return _outputs(lstm, x)
    finally:
        set_flags(enabled)  # type: ignore[no-untyped-call]


def _outputs(lstm: nn.LSTM, x: Tensor) -> Tensor:
    hidden: Tensor = lstm(x)[0]
    return hidden


class EncoderModel(nn.Module):
    """Embeddings of tokens and of places, a Transformer encoder, and logits of masked tokens."""

    def __init__(
        self, layers: int, hidden_size: int, sequence_length: int, vocabulary_size: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, hidden_size)
        self.places = nn.Parameter(torch.randn(sequence_length, hidden_size))
        self.encoder = encoder_of(layers, hidden_size, "relu")
        self.decoder = nn.Linear(hidden_size, vocabulary_size)
        for weight in self.encoder.parameters():  # torch's layers begin as copies of one
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def forward(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """Map tokens [B, T] and the places of masked ones [B, P] to logits [B, P, vocabulary]."""
        hidden = self.encoder(self.embedding(tokens) + self.places)
        logits: Tensor = self.decoder(at_places(hidden, masked))
        return logits


class BertModel(nn.Module):
    """BERT with its head for masked tokens, whose decoder is the embedding of tokens."""

    def __init__(
        self, layers: int, hidden_size: int, sequence_length: int, vocabulary_size: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, hidden_size)
        self.places = nn.Parameter(torch.empty(sequence_length, hidden_size))
        self.segments = nn.Parameter(torch.empty(2, hidden_size))
        self.norm = nn.LayerNorm(hidden_size, BERT_EPS)
        self.encoder = encoder_of(layers, hidden_size, "gelu", BERT_EPS)
        self.transform = nn.Linear(hidden_size, hidden_size)
        self.transform_norm = nn.LayerNorm(hidden_size, BERT_EPS)
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=BERT_STD)

    def forward(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """Map tokens [B, T] and the places of masked ones [B, P] to logits [B, P, vocabulary].

        The first half of the tokens is sentence A, the rest is B.
        """
        half = (self.places.shape[0] + 1) // 2
        sentences = self.segments.repeat_interleave(half, dim=0)[: self.places.shape[0]]
        hidden = self.encoder(self.norm(self.embedding(tokens) + self.places + sentences))
        chosen = functional.gelu(self.transform(at_places(hidden, masked)))
        return functional.linear(self.transform_norm(chosen), self.embedding.weight, self.bias)


def encoder_of(
    layers: int, hidden_size: int, activation: str, eps: float = 1e-5
) -> nn.TransformerEncoder:
    """Return an encoder without dropout, its feed-forward layers four times as wide."""
    layer = nn.TransformerEncoderLayer(
        hidden_size,
        nhead=hidden_size // HEAD_SIZE,
        dim_feedforward=4 * hidden_size,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=eps,
        batch_first=True,
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def at_places(hidden: Tensor, places: Tensor) -> Tensor:
    """Return [B, P, hidden]: what [B, T, hidden] has at places [B, P]."""
    return hidden.gather(1, places.unsqueeze(2).expand(-1, -1, hidden.shape[2]))


class LanguageTraining(ABC):
    """A TrainingWorkload on random tokens, from seeded random weights.

    Args:
        layers: of the LSTM or the encoder.
        hidden_size: values of a token between layers.
        sequence_length: tokens in a sequence.
        vocabulary_size: distinct tokens.
        batch_size: sequences in a batch.
        optimizer: one of `optimizers.build_optimizer`.
        fused_optimizer: its fused form.
        seed: of weights and data.
    """

    LEARNING_RATE: ClassVar[float]

    def __init__(
        self,
        layers: int,
        hidden_size: int,
        sequence_length: int,
        vocabulary_size: int,
        batch_size: int,
        optimizer: str,
        fused_optimizer: bool,
        seed: int,
    ) -> None:
        self._layers, self._hidden_size = layers, hidden_size
        self._sequence_length, self._vocabulary_size = sequence_length, vocabulary_size
        self._batch_size, self._seed = batch_size, seed
        self._optimizer, self._fused_optimizer = optimizer, fused_optimizer
        generator = torch.Generator().manual_seed(seed)
        self._batches = [self._text(generator) for _ in range(DISTINCT_BATCHES)]

    @property
    def batch_size(self) -> int:
        """Sequences in one batch."""
        return self._batch_size

    def build_model(self) -> nn.Module:
        """Return the model in fp32 and training mode; leaves the global random state alone."""
        with seeded(self._seed):
            return self._model()

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return the optimizer over all parameters."""
        parameters = model.parameters()
        return build_optimizer(
            self._optimizer, self._fused_optimizer, parameters, self.LEARNING_RATE
        )

    def batch(self, step: int) -> Text:
        """Return the batch of a step; every fourth step has the same one."""
        return self._batches[step % DISTINCT_BATCHES]

    def share(self, batch: Text, rank: int, ranks: int) -> Text:
        """Return a rank's part of a batch."""
        inputs, targets = batch
        own = tuple(each.chunk(ranks)[rank] for each in inputs)
        return own, targets.chunk(ranks)[rank]

    def forward(self, model: nn.Module, batch: Text) -> Tensor:
        """Return logits [B, P, vocabulary] of the tokens to predict."""
        logits: Tensor = model(*batch[0])
        return logits

    def loss(self, outputs: Tensor, batch: Text) -> Tensor:
        """Return the mean cross-entropy of a token, fp32."""
        return functional.cross_entropy(outputs.float().flatten(0, 1), batch[1].flatten())

    def _tokens(self, length: int, generator: torch.Generator) -> Tensor:
        """Return random tokens, int64 [B, length], none of them MASK."""
        shape = (self._batch_size, length)
        return torch.randint(MASK + 1, self._vocabulary_size, shape, generator=generator)

    @abstractmethod
    def _model(self) -> nn.Module: ...

    @abstractmethod
    def _text(self, generator: torch.Generator) -> Text: ...


class LstmTraining(LanguageTraining):
    """An LSTM that predicts the next token of each."""

    LEARNING_RATE = 1e-3

    def _model(self) -> LstmModel:
        return LstmModel(self._layers, self._hidden_size, self._vocabulary_size)

    def _text(self, generator: torch.Generator) -> Text:
        tokens = self._tokens(self._sequence_length + 1, generator)
        return (tokens[:, :-1].contiguous(),), tokens[:, 1:].contiguous()


class EncoderTraining(LanguageTraining):
    """A Transformer encoder that predicts masked tokens."""

    LEARNING_RATE = 1e-4
    MODEL: ClassVar[type[EncoderModel | BertModel]] = EncoderModel

    def _model(self) -> nn.Module:
        sizes = (self._layers, self._hidden_size, self._sequence_length, self._vocabulary_size)
        return self.MODEL(*sizes)

    def _text(self, generator: torch.Generator) -> Text:
        tokens = self._tokens(self._sequence_length, generator)
        order = torch.rand(tokens.shape, generator=generator).argsort(dim=1)
        masked = order[:, : masked_count(self._sequence_length)]
        return (tokens.scatter(1, masked, MASK), masked), tokens.gather(1, masked)
