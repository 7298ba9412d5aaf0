"""BERT as a training workload, on random tokens or on a text of the host."""

from __future__ import annotations

from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from models.images.folder import data_folder
from models.language import BertModel, EncoderTraining, Text
from models.text.folder import SYNTHETIC, open_text
from models.text.loading import TextLoader, TextSettings


class BertTraining(EncoderTraining):
    """BERT's masked language model, without next sentences.

    Its manifest says what else is not as MLPerf Training pre-trains it.

    Also a ReadingWorkload, on text of the host.

    Args:
        layers: see `LanguageTraining`, as the next ones.
        hidden_size: as there.
        sequence_length: as there.
        vocabulary_size: as there; of a text, the most tokens that its vocabulary may have.
        data: `synthetic`: random tokens in memory; or the name of a folder in the host's folder of
            data, see `text.folder.open_text`.
        batch_size: as there.
        optimizer: as there.
        fused_optimizer: as there.
        seed: of weights, random tokens, the order of a text and what of it is masked.

    Raises DataUnusable.
    """

    LEARNING_RATE = 4e-4
    MODEL = BertModel

    def __init__(
        self,
        layers: int,
        hidden_size: int,
        sequence_length: int,
        vocabulary_size: int,
        data: str,
        batch_size: int,
        optimizer: str,
        fused_optimizer: bool,
        seed: int,
    ) -> None:
        sizes = (layers, hidden_size, sequence_length, vocabulary_size, batch_size)
        super().__init__(*sizes, optimizer, fused_optimizer, seed)
        self.loader: TextLoader | None = None
        """None: batches are in memory."""
        if data != SYNTHETIC:
            source = open_text(data, vocabulary_size, data_folder())
            settings = TextSettings(sequence_length, batch_size, seed)
            self.loader = TextLoader(source, settings)

    def batch(self, step: int) -> Text:
        """Return the batch of a step."""
        return self.loader.batch(step) if self.loader else super().batch(step)

    def share(self, batch: Text, rank: int, ranks: int) -> Text:
        """See LanguageTraining.share; raises WorkerFault, blame user, for a text of the host."""
        if self.loader:
            message = (
                "cannot train on a text by several ranks: each would read all. Set ranks to 1."
            )
            raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
        return super().share(batch, rank, ranks)
