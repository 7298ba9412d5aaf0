"""Preparation of a task for a device, and scoring of its answers; see __main__.py."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from controller.contracts.base import Contract
from controller.contracts.errors import AnswersUnreadable
from controller.contracts.mobile import OnDevice, OutputKind, Signature
from controller.contracts.result import Measurement
from controller.contracts.units import Unit
from models.mobile.agreement import agreement
from models.mobile.datasets.images import FittedImages
from models.mobile.datasets.load import load_samples
from models.mobile.errors import ContentDiffers, DatasetUnusable, FileUnreadable, not_written
from models.mobile.metrics import Answers, read_answers, require_form, score
from models.mobile.samples import Truth, read_truths, write_samples
from models.mobile.signature import require_signature
from models.mobile.store import Store, model_file, stored

MODEL: Final = "model.tflite"
DEVICE: Final = "device"
"""Folder to push: the model and its inputs."""
TRUTHS: Final = "truths"


class PrepareOrder(Contract):
    """An order to prepare a task."""

    name: str
    """Name of the workload, used in errors."""
    workload: OnDevice
    numerics: str
    dataset: str | None
    store: Path
    folder: Path
    """Folder to write; replaced if it exists."""


class Prepared(Contract):
    """A prepared task."""

    samples: int
    """Number of samples; 0: the device generates random ones."""
    has_truth: bool


class ScoreOrder(Contract):
    """An order to score answers."""

    workload: OnDevice
    folder: Path
    """Folder of the prepared task."""
    samples: int
    answers: Path
    """LoadGen's accuracy log."""
    repeated: int = 0
    """See `metrics.read_answers`."""


class Scored(Contract):
    """The scores of the answers."""

    metrics: dict[str, Measurement]
    objections: tuple[str, ...]


class CompareOrder(Contract):
    """An order to compare a device's answers with those of a reference."""

    workload: OnDevice
    folder: Path
    """Folder of the prepared task."""
    samples: int
    answers: Path
    """LoadGen's accuracy log of the device."""
    compared: int
    """Samples that the reference has answered, the first of the data set."""
    reference: Path
    """LoadGen's accuracy log of the reference."""


class Compared(Contract):
    """A device's answers beside those of a reference, over the samples that both have answered."""

    samples: int
    accuracy: Measurement
    """Of the reference."""
    difference: Measurement
    """The device's accuracy minus the reference's."""
    agreement: Measurement
    """Mean over the samples: see agreement.py."""


def prepare(order: PrepareOrder) -> Prepared:
    """Check model and data set, and write the files to push.

    Raises NotInStore, ContentDiffers, ModelUnusable, DatasetUnusable, and another UserError if the
    folder can't be written: NoRoom if the disk is full. Then the folder is removed.
    """
    try:
        return _prepared(order)
    except OSError as error:
        shutil.rmtree(order.folder, ignore_errors=True)
        raise not_written(f"prepare {order.name}", order.folder, error) from error


def _prepared(order: PrepareOrder) -> Prepared:
    store, workload = Store(order.store), order.workload
    shutil.rmtree(order.folder, ignore_errors=True)
    device = order.folder / DEVICE
    key = f"{order.name}/models/{order.numerics}"
    package = Path(str(files("models")))
    model = model_file(store, package, workload.models[order.numerics], key)
    signature = require_signature(model, workload.signature, order.name)
    samples = _write_dataset(order, store, device, signature) if order.dataset else 0
    device.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(model, device / MODEL)
    return Prepared(samples=samples, has_truth=read_truths(order.folder / TRUTHS) is not None)


def _write_dataset(order: PrepareOrder, store: Store, device: Path, signature: Signature) -> int:
    dataset = order.workload.datasets[str(order.dataset)]
    key = f"{order.name}/{order.dataset}"
    parts = {n: stored(store, p, f"{key}/{n}", dataset.kind) for n, p in dataset.parts.items()}
    model_type = signature.inputs[0].types[0]
    samples = load_samples(dataset, parts, order.workload.input, key, model_type)
    count = dataset.samples or len(samples)
    published = samples.published() if isinstance(samples, FittedImages) else None
    seen = write_samples(samples, device, order.folder / TRUTHS, count, published)
    if dataset.checksum and seen != dataset.checksum:
        raise ContentDiffers(
            f"write data set {key} ({order.name}.datasets.{order.dataset}.checksum)",
            f"it is {seen}, not {dataset.checksum}",
            "Reinstall benchfarm.",
        )
    return count


def scored(order: ScoreOrder) -> Scored:
    """Score an accuracy run; raises DatasetUnusable, AnswersUnreadable, FileUnreadable."""
    truths = _truths_for(order.answers, order.folder)
    output = order.workload.output
    answers = _answers(output, order.answers, order.samples, order.repeated)
    metrics = score(output, answers.by_sample, truths)
    return Scored(metrics=metrics, objections=answers.objections)


def compared(order: CompareOrder) -> Compared:
    """Compare a device's answers with a reference's; raises DatasetUnusable, AnswersUnreadable,
    FileUnreadable."""
    output, truths = order.workload.output, _truths_for(order.answers, order.folder)
    reference = _answers(output, order.reference, order.compared)
    given = _answers(output, order.answers, order.samples).by_sample
    expected = reference.by_sample
    both = sorted(expected.keys() & given.keys())
    if reference.objections or not both:
        seen = "; ".join(reference.objections) or "they have no sample in common"
        raise DatasetUnusable(
            f"compare {order.answers} with {order.reference}", seen, "Check the runner's output."
        )
    mine, theirs = (
        next(iter(score(output, {n: answers[n] for n in both}, truths).values()))
        for answers in (given, expected)
    )
    try:
        agree = [agreement(output, given[n], expected[n], truths[n]) for n in both]
    except (ValueError, LookupError) as error:
        seen = repr(error)[:200]
        raise DatasetUnusable(f"compare {order.answers}", seen, "Check the model.") from error
    return Compared(
        samples=len(both),
        accuracy=theirs,
        difference=Measurement(value=mine.value - theirs.value, unit=theirs.unit),
        agreement=Measurement(value=sum(agree) / len(agree), unit=Unit.FRACTION),
    )


def _truths_for(answers: Path, folder: Path) -> Sequence[Truth]:
    truths = read_truths(folder / TRUTHS)
    if truths is None:
        raise DatasetUnusable(
            f"score {answers}", "its data set has no ground truth", "Set mode=performance."
        )
    return truths


def _answers(output: OutputKind, path: Path, samples: int, repeated: int = 0) -> Answers:
    try:
        answers = read_answers(path, samples, repeated)
        require_form(output, answers.by_sample)
    except (FileNotFoundError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise AnswersUnreadable(
            f"read {path}", repr(error)[:200], "Check the runner's output."
        ) from error
    except OSError as error:  # of this host, and no fault of the device
        seen = error.strerror or str(error)
        raise FileUnreadable(f"read {path}", seen, "Check this host's disk.") from error
    return answers
