"""How many samples a device's memory holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.inference.on_device_result import fewer_held
from agents.inference.runner.window import Window, available_bytes
from controller.contracts.result import Result, Validity

MIB = 1 << 20
OF_V4 = 384 * 384 * 3
"""Bytes of a sample of MobileNetV4's int8 model; its float model takes four times as much."""


@pytest.mark.parametrize(
    ("wanted", "sample_bytes", "available", "held"),
    [
        (1024, 224 * 224 * 3, 512 * MIB, 1024),
        (1024, OF_V4, 512 * MIB, 606),
        (1024, 4 * OF_V4, 512 * MIB, 151),
        (1024, 4 * OF_V4, 4096 * MIB, 1024),
        (10, OF_V4, 512 * MIB, 10),
        (1024, OF_V4, 0, 1),
        (1024, 600 * MIB, 512 * MIB, 1),
        (1024, OF_V4, None, 1024),
    ],
)
def test_samples_take_at_most_half_of_the_memory(
    wanted: int, sample_bytes: int, available: int | None, held: int
) -> None:
    window = Window.of(wanted, sample_bytes, available)
    assert (window.samples, window.wanted) == (held, wanted)
    assert window.facts() == {
        "samples_wanted": wanted,
        "sample_bytes": sample_bytes,
        "memory_before_samples_bytes": available,
    }


MEMINFO = "MemTotal:        2097152 kB\nMemFree:           10240 kB\nMemAvailable:     524288 kB\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MEMINFO, 512 * MIB),
        ("MemTotal:        2097152 kB\nMemFree:           10240 kB\n", None),  # Linux before 3.14
        ("MemAvailable: much kB\n", None),
        ("", None),
        (None, None),
    ],
)
def test_the_kernel_says_what_is_available(
    text: str | None, found: int | None, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "meminfo").write_text(text)
    assert available_bytes(tmp_path / "meminfo") == found


def result(**environment: int | None) -> Result:
    return Result(validity=Validity.VALID, metrics={}, environment=environment)


def test_a_smaller_window_is_said() -> None:
    facts = {"samples_wanted": 1024, "sample_bytes": 1769472}
    facts["memory_before_samples_bytes"] = 512 * MIB
    said = "memory holds 151 of 1024 samples: 1769472 bytes each, 536870912 bytes available"
    assert fewer_held(result(performance_samples=151, **facts)) == said
    assert fewer_held(result(performance_samples=1024, **facts)) is None
    assert fewer_held(result(performance_samples=64)) is None
    assert fewer_held(result()) is None
