"""Trains the shapes classifier and writes it as float32 and int8 `.tflite`, with its card.

Run once by hand, from the repository's root, in an environment of its own (2 GB):

    python3.11 -m venv convert
    convert/bin/pip install torch==2.13.0            # first and alone; a CPU build will do
    convert/bin/pip install litert-torch==0.10.0 ai-edge-quantizer==0.10.0
    convert/bin/pip install pydantic==2.14.3 pyyaml==6.0.3
    PYTHONPATH=. convert/bin/python -m models.mobile.classifier.make

Takes four minutes on two idle cores. Images and seeds are fixed; the order in which a CPU adds
floats is not, so another machine's weights differ slightly and its card says what they reach.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch
import yaml
from torch import Tensor, nn

from models.mobile.classifier import shapes
from models.mobile.samples import write_samples

HERE: Final = Path(__file__).parent
FLOAT32: Final = HERE / "shapes_float32.tflite"
INT8: Final = HERE / "shapes_int8.tflite"
CARD: Final = HERE / "card.yaml"

TRAINING_IMAGES: Final = 12_288
CALIBRATION_IMAGES: Final = 256
BATCH: Final = 64
SEED: Final = 7


def _convolution(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Classifier(nn.Module):
    """Seven 3x3 convolutions and a linear layer: 110 k parameters, 72 M multiply-adds.

    Takes (n, height, width, 3) in [0, 1], returns (n, 10) logits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            _convolution(3, 32, 2),
            _convolution(32, 32, 1),
            _convolution(32, 32, 1),
            _convolution(32, 48, 2),
            _convolution(48, 48, 1),
            _convolution(48, 64, 2),
            _convolution(64, 48, 1),
        )
        self.head = nn.Linear(48, len(shapes.FIGURES))

    def forward(self, images: Tensor) -> Tensor:
        """See the class."""
        features = self.features(images.permute(0, 3, 1, 2))
        strongest = nn.functional.max_pool2d(features, features.shape[-2:])
        logits: Tensor = self.head(strongest.flatten(1))
        return logits


def _batches(pixels: Tensor, labels: Tensor, halved: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch: shuffled, randomly mirrored and rotated; optionally at half the size."""
    order = torch.randperm(len(labels))
    for first in range(0, len(labels), BATCH):
        chosen = order[first : first + BATCH]
        images = pixels[chosen].float() / 255.0
        images = torch.rot90(images, int(torch.randint(4, ())), dims=(1, 2))
        images = images.flip(1) if torch.rand(()) < 0.5 else images
        if halved:
            side = shapes.SIZE // 2
            images = images.reshape(-1, side, 2, side, 2, 3).mean(dim=(2, 4))
        yield images, labels[chosen]


def train() -> Classifier:
    """Train four epochs at half the image size, which is cheap, and one at the full size."""
    torch.manual_seed(SEED)
    pixels, labels = map(torch.from_numpy, shapes.images("training", TRAINING_IMAGES))
    model = Classifier()
    for halved, epochs, rate in ((True, 4, 4e-3), (False, 1, 2e-3)):
        steps = epochs * (-(-TRAINING_IMAGES // BATCH))
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
        for epoch in range(epochs):
            losses = []
            for images, targets in _batches(pixels, labels, halved):
                with torch.autocast("cpu", torch.bfloat16):
                    logits = model(images)
                loss = nn.functional.cross_entropy(logits.float(), targets)
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
            print(f"halved={halved} epoch {epoch + 1}: loss {np.mean(losses[-50:]):.3f}")  # noqa: T201
    return model.eval()


def export(model: Classifier) -> None:
    """Write the float32 file."""
    import litert_torch

    example = torch.zeros(1, shapes.SIZE, shapes.SIZE, 3)
    litert_torch.convert(model, (example,)).export(str(FLOAT32))


def quantise() -> None:
    """Write the int8 file: weights and activations, ranges from the calibration split."""
    from ai_edge_quantizer import quantizer, recipe

    pixels, _ = shapes.images("calibration", CALIBRATION_IMAGES)
    signature, argument = "serving_default", "args_0"
    samples = [{argument: image[np.newaxis].astype(np.float32) / 255.0} for image in pixels]
    work = quantizer.Quantizer(str(FLOAT32), recipe.static_wi8_ai8())
    ranges = work.calibrate({signature: samples})
    work.quantize(ranges).export_model(str(INT8), overwrite=True)
    INT8.chmod(0o644)


def top1(path: Path, pixels: shapes.Pixels, labels: shapes.Labels) -> float:
    """Return the share of images for which a file's highest output is the right class."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=2)
    interpreter.allocate_tensors()
    taken, given = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    right = 0
    for image, label in zip(pixels, labels, strict=True):
        interpreter.set_tensor(taken["index"], _as_input(image, taken)[np.newaxis])
        interpreter.invoke()
        right += int(interpreter.get_tensor(given["index"]).argmax() == label)
    return right / len(labels)


def _as_input(image: shapes.Pixels, taken: dict[str, Any]) -> np.ndarray[Any, Any]:
    values = image.astype(np.float32) / 255.0
    if taken["dtype"] == np.float32:
        return values
    scale, zero = taken["quantization"]
    limits = np.iinfo(taken["dtype"])
    steps: np.ndarray[Any, Any] = np.rint(values / scale) + zero
    return steps.clip(limits.min, limits.max).astype(taken["dtype"])


def _entry(path: Path, pixels: shapes.Pixels, labels: shapes.Labels) -> dict[str, object]:
    return {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bytes": path.stat().st_size,
        "top1": round(top1(path, pixels, labels), 4),
    }


def _checksum() -> str:
    with TemporaryDirectory() as folder:
        inputs, truths = Path(folder) / "inputs", Path(folder) / "truths"
        return write_samples(shapes.evaluation_set(), inputs, truths).removeprefix("sha256:")


def main() -> int:
    """Make the files and their card; return exit status 1 if int8 misses 98 % of float32.

    Copy the card's figures by hand into models/manifests/workloads/shapes_classifier.yaml; a test
    compares the two.
    """
    export(train())
    quantise()
    pixels, labels = shapes.images("evaluation", shapes.EVALUATION_IMAGES)
    float32, int8 = _entry(FLOAT32, pixels, labels), _entry(INT8, pixels, labels)
    target = round(0.98 * float(str(float32["top1"])), 4)
    card = {
        "models": {"fp32": float32, "int8": int8},
        "dataset": {
            "images": len(labels),
            "shape": list(pixels.shape[1:]),
            "sha256": _checksum(),
        },
        "input": {"mean": 0.0, "std": 255.0},
        "quality_target": {"metric": "top1", "value": target},
    }
    CARD.write_text(yaml.safe_dump(card, sort_keys=False))
    print(CARD.read_text())  # noqa: T201
    return int(float(str(int8["top1"])) < target)


if __name__ == "__main__":
    sys.exit(main())
