"""Every key and option wrong in two ways: one line, exit status 2, and what to do.

`pytest -k mistakes -s` prints all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from controller.cli.signatures import SIGNATURES
from controller.contracts.sweep import PairedComparison, Side, Sweep
from controller.contracts.sweep_file import keys_of
from tests.support.command_line import complaint_of

LEAST = 120
GOOD: Final = {
    "name": "x",
    "workload": "retinanet_resnext50",
    "stack": "torch",
    "scenario": "training",
}
SIDES: Final = {"a": "torch", "b": "torch:precision=bf16"}
UNPAIRED: Final = {key: value for key, value in GOOD.items() if key != "stack"}
SWEEP: Final[dict[str, tuple[Any, Any]]] = {
    "name": ("A b", 3),
    "description": (3, "x" * 10_001),
    "workload": ([], "retinanet"),
    "stack": ({}, "jax"),
    "scenario": (None, "kernel"),
    "knobs": ([1], {"steps": [[1]]}),
    "recipes": ({"a": 3}, {"a": {"precision": []}}),
    "devices": ([], "cores >"),
    "run_on": ("all", 0),
    "repeats": (0, "many"),
    "deadline_s": ("1h", 0),
    "baseline": ("fp32", {"precision": "bf16"}),
    "paired": ("torch", {"a": "torch"}),
    "profile": ("always", 3),
    "await": ("always", 3),
    "priority": (101, "high"),
}
PAIRED: Final[dict[str, tuple[Any, Any]]] = {
    "width": (0, "3%"),
    "time_limit_s": ("10m", 86401),
    "a": ("torch:", ["torch"]),
    "b": ([], "jax"),
}
SIDE: Final[dict[str, tuple[Any, Any]]] = {
    "stack": ("", 3),
    "knobs": ("precision=bf16", {"precision": [1]}),
}
"""For each key, two values that it can't have."""
OPTIONAL: Final = (
    *("plan-training", "sweep new", "sweep status"),
    *("bundle build", "kernels check", "kernels bench"),
)
"""Verbs that do their work without their arguments."""
COMPARE: Final = ("compare", "torch", "torch:precision=bf16", "--workload")
RETINANET: Final = (*COMPARE, "retinanet_resnext50")
BENCH: Final = ("kernels", "bench", "nms")
CONFIG: Final = ("prometheus", "config", "unwritten")
BUILD: Final = ("dashboards", "build", "-o", "unwritten")
RESERVE: Final = ("device", "reserve", "x")
LIST: Final = ("results", "list")
SUITE: Final = ("suite", "run", "v3.1", "--device", "x")
AGENT: Final = ("agent", "start")
VALUES: Final[list[tuple[tuple[str, ...], tuple[str, str]]]] = [
    (("up", "--label"), ("rack", "größe=1")),
    (("up", "--listen"), ("0.0.0.0", "192.0.2.1")),
    (("up", "--redis"), ("127.0.0.1:1", "nope")),
    (("up", "--metrics-address"), ("0.0.0.0", "nope")),
    (("up", "--api-port"), ("x", "99999")),
    (("up", "--api"), ("127.0.0.1", "0.0.0.0:1")),
    (("up", "--api", "127.0.0.1:1", "--api-tls-cert"), ("absent", ".")),
    (("up", "--api", "127.0.0.1:1", "--api-tls-key"), ("absent", ".")),
    (("api", "serve", "--listen"), ("127.0.0.1", "0.0.0.0:1")),
    (("token", "create", "ann", "--scope"), ("reader", "")),
    (("up", "--quarantine-after"), ("0", "few")),
    (("up", "--user-runs"), ("0", "1.5")),
    (("up", "--user-bytes"), ("1GiB", "-1")),
    (("up", "--artifacts"), ("bucket", "memory://x")),
    (("up", "--artifact-days"), ("0", "long")),
    (("up", "--artifact-bytes"), ("1GiB", "-1")),
    (("up", "--autoscaling-config"), ("absent", ".")),
    (("up", "--phone-power-cycle"), ("no-such-hub x", "hub 'x")),
    (("up", "--meter"), ("", "no-such-meter {device}")),
    ((*AGENT, "--label"), ("=b2", "rack=")),
    ((*AGENT, "--head"), ("10.0.0.1", "nope")),
    ((*AGENT, "--token-file"), ("absent", ".")),
    ((*AGENT, "--metrics-address"), ("nope", "0.0.0.0")),
    ((*AGENT, "--reconnect-timeout"), ("long", "-1")),
    ((*AGENT, "--phone-power-cycle"), ("", "no-such-hub")),
    ((*AGENT, "--meter"), ("'", "no-such-meter")),
    (("agent", "drain", "x", "--why"), ("", "x" * 201)),
    (("agent", "undrain", "x", "--why"), ("", "x\ty")),
    (COMPARE, ("retinanet", "")),
    ((*RETINANET, "--scenario"), ("kernel", "")),
    ((*RETINANET, "--knob"), ("steps", "a=[1")),
    ((*RETINANET, "--width"), ("wide", "0")),
    ((*RETINANET, "--time-limit"), ("10m", "0")),
    (("plan-training",), ("resnet50", "")),
    (("plan-training", "--batch"), ("0", "257")),
    (("completion",), ("ksh", "")),
    ((*RESERVE, "--for"), ("1", "-1h")),
    ((*RESERVE, "--for", "1h", "--in"), ("soon", "-5m")),
    ((*RESERVE, "--for", "1h", "--user"), ("../x", "")),
    (("device", "maintain", "x", "--for"), ("nan", "0s")),
    (("device", "label", "x"), ("foo", "größe=1")),
    (("results", "export", "unwritten", "--format"), ("xlsx", "JSON")),
    (("results", "export", "unwritten", "--since"), ("yesterday", "-2d")),
    ((*LIST, "--knob"), ("steps", "a=[1")),
    ((*LIST, "--since"), ("2026-13-01", "nand")),
    ((*LIST, "--until"), ("", "2 weeks")),
    ((*LIST, "--since", "1d", "--until"), ("2d", "2001-01-01")),
    ((*LIST, "--validity"), ("good", "")),
    ((*LIST, "--last"), ("-1", "all")),
    ((*LIST, "--csv"), ("--json", "--failures")),
    ((*LIST, "--failures", "--validity"), ("VALID", "invalid")),
    (("suite", "run", "--device", "x"), ("v9.9", "3.1")),
    ((*SUITE, "--tries"), ("0", "many")),
    ((*SUITE, "--length"), ("short", "")),
    ((*SUITE, "--task-pause"), ("5", "-1m")),
    ((*SUITE, "--numerics"), ("", "mosaic=")),
    (("phone", "doctor", "x", "--policy"), ("strict", "")),
    (("profile", "export", "."), ("flame", "")),
    (("profile", "show", ".", "--top"), ("0", "all")),
    (("profile", "diff", ".", ".", "--top"), ("0", "all")),
    (("profile", "advise", ".", "--top"), ("0", "all")),
    (("profile", "budget", ".", "--top"), ("0", "all")),
    (("profile", "import", "absent", "--time-limit"), ("0", "5")),
    (("profile", "topdown"), ("absent", ".")),
    ((*BENCH, "--width"), ("inf", "0")),
    ((*BENCH, "--time-limit"), ("10m", "inf")),
    ((*BENCH, "--draws"), ("0", "few")),
    (("bench", "harness", "--pairs"), ("0", "x")),
    (("bench", "compare", "--trials"), ("0", "x")),
    (("bench", "compare", "--effect"), ("x", "1%")),
    (("bench", "compare", "--seed"), ("x", "1.5")),
    (("bench", "compare", "--width"), ("nan", "x")),
    (("bench", "api", "--seconds"), ("0", "x")),
    (("token", "create"), ("../x", "")),
    (("sweep", "validate"), ("", "absent.yaml")),
    ((*CONFIG, "--controller"), ("nope", "127.0.0.1:99999999")),
    ((*CONFIG, "--token-file"), ("token", "./token")),
    ((*BUILD, "--prometheus"), ("nope", "ftp://x")),
    ((*BUILD, "--path"), ("here", "./here")),
    (("dashboards", "push", "--url"), ("nope", "ftp://x")),
]
"""For each option or argument, two values that it can't have; the rest of the call is right."""
ANOTHERS: Final = re.compile(
    r"Input should|should match|Field required|Value error|validation error|valid (integer|number)"
    r"|unable to parse|Extra inputs|\[a-z|\[A-Z|\^|\{\d|Traceback|Errno|None|True|False|NoneType"
)
"""Words of pydantic and Python, and regular expressions."""
FORM: Final = re.compile(
    r"benchfarm: (cannot .+: .+\. \S.+\.|[A-Z].+; see: benchfarm[a-z -]* --help)\n"
)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A call that can't be understood. sweep: the content of the sweep file that it reads."""

    arguments: tuple[str, ...]
    sweep: dict[str, Any] | None = None
    shown: str = ""


def of_sweep_files() -> Iterator[Mistake]:
    for key, values in SWEEP.items():
        yield from (_with(f"{key}: {value!r:.30}", GOOD | {key: value}) for value in values)
    for key, values in PAIRED.items():
        for value in values:
            paired = {"paired": SIDES | {key: value}}
            yield _with(f"paired.{key}: {value!r:.30}", UNPAIRED | paired)
    for key, values in SIDE.items():
        for value in values:
            side = {"stack": "torch"} | {key: value}
            yield _with(f"paired.a.{key}: {value!r}", UNPAIRED | {"paired": SIDES | {"a": side}})
    for key in SWEEP:
        yield _with(f"{key}x: 1", GOOD | {f"{key}x": 1})
    for key in GOOD:
        yield _with(f"no {key}", {k: value for k, value in GOOD.items() if k != key})
    for key in PAIRED:
        yield _with(f"paired.{key}x: 1", UNPAIRED | {"paired": SIDES | {f"{key}x": 1}})


def _with(shown: str, sweep: dict[str, Any]) -> Mistake:
    return Mistake(("sweep", "validate"), sweep, shown)


def of_options() -> Iterator[Mistake]:
    """Yield each option mistyped, without its value, and each flag with a value."""
    for verb, signature in SIGNATURES.items():
        for option in re.findall(r"(--[a-z-]+)[^ =]*(=?)", signature):
            name, takes = option
            yield Mistake((*verb.split(), f"{name}x"))
            yield Mistake((*verb.split(), name if takes else f"{name}=3"))


def of_arguments() -> Iterator[Mistake]:
    """Yield each verb without its arguments, and with one too many."""
    for verb, signature in SIGNATURES.items():
        words = [word for word in signature.split() if not word.startswith("-")]
        required = [word for word in words if verb not in OPTIONAL and not word.endswith("*")]
        if required:
            yield Mistake(tuple(verb.split()))
        if not any(word.endswith("*") for word in words) and "|" not in " ".join(words):
            yield Mistake((*verb.split(), *("x" for _ in words), "y"))


def of_values() -> Iterator[Mistake]:
    for call, values in VALUES:
        yield from (Mistake((*call, value)) for value in values)


def complaint(mistake: Mistake, folder: Path) -> str:
    if mistake.sweep is None:
        return complaint_of(folder / "home", *mistake.arguments)
    file = folder / "s.yaml"
    file.write_text(yaml.safe_dump(mistake.sweep))
    said = complaint_of(folder / "home", *mistake.arguments, str(file))
    return said.replace(str(file), "s.yaml")


def test_every_key_of_a_sweep_file_has_its_mistakes() -> None:
    assert set(SWEEP) == set(keys_of(Sweep))
    assert set(PAIRED) == set(PairedComparison.model_fields)
    assert set(SIDE) == set(Side.model_fields)


@pytest.mark.parametrize("mistakes", [of_sweep_files, of_values, of_options, of_arguments])
def test_mistakes(mistakes: Any, tmp_path: Path) -> None:  # noqa: ANN401
    wrong: list[str] = []
    found = list(mistakes())
    assert len(found) > 40
    for mistake in found:
        try:
            said = complaint(mistake, tmp_path)
        except AssertionError as error:
            said = f"not one line and status 2: {error}\n"
        call = mistake.shown or " ".join(mistake.arguments)
        print(f"{call:50} {said}", end="")  # noqa: T201
        if not FORM.fullmatch(said) or ANOTHERS.search(said):
            wrong.append(f"{call}: {said}")
    assert wrong == []
