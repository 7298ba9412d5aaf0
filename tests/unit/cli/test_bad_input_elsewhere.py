"""What processes of the agents' side complain of arrives as the one line that the user reads."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest

from agents.kernel_bench import __main__ as kernel_bench
from agents.stacks.environments import EnvironmentFolder
from agents.stacks.install import Installation
from agents.virtual_phone import __main__ as virtual
from agents.virtual_phone import profiles
from controller.contracts.error_payload import ErrorPayload
from controller.contracts.errors import PhoneUnavailable, UserError
from controller.contracts.helper_reply import HelperReply
from controller.contracts.kernels import KernelBench
from controller.contracts.manifests import StackEnvironment
from controller.platform.helper_main import Replies
from controller.runtime.kernels import run_kernels
from controller.runtime.phones import started_phone
from kernels.library import KernelsUnusable
from models.mobile import catalogue
from models.mobile.store import Store

COMPLAINT = HelperReply(error=ErrorPayload.of(UserError("try it", "no", "Do else."))).line().strip()
CHECK = KernelBench(
    verb="check",
    operators=("nms",),
    dtypes=(),
    variants=(),
    width=0.05,
    time_limit_s=1.0,
    policy="ci",
)


def python_that(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a shell script take the place of the processes that the command line starts."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_kernels_that_cannot_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python_that(f"echo '{COMPLAINT}'; exit 2", tmp_path, monkeypatch)
    with pytest.raises(UserError, match=r"cannot try it: no\. Do else"):
        list(run_kernels(CHECK))


def test_variant_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def unusable(_: KernelBench) -> tuple[str, ...]:
        raise KernelsUnusable("BENCHFARM_KERNELS=nope: here it can be reference")

    monkeypatch.setattr(kernel_bench, "variants_of", unusable)
    wanted = "kernels check: BENCHFARM_KERNELS=nope: here it can be reference"
    with pytest.raises(UserError, match=wanted):
        kernel_bench.handle(CHECK, Replies(StringIO()))


def test_dtype_that_an_operator_has_not() -> None:
    wanted = CHECK.model_copy(update={"dtypes": ("bf16",)})
    with pytest.raises(UserError) as told:
        list(run_kernels(wanted))
    assert str(told.value) == "cannot run kernels check: nms has no dtype bf16. Choose among fp32."


def test_phone_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python_that(f"echo '{COMPLAINT}'; exit 2", tmp_path, monkeypatch)
    with pytest.raises(UserError, match=r"cannot try it: no\. Do else"), started_phone("old", None):
        pass
    python_that("echo one >&2; echo KeyError: two >&2; exit 1", tmp_path, monkeypatch)
    with (
        pytest.raises(
            PhoneUnavailable,
            match=r"phone old: its process ended with status 1: KeyError: two\. "
            r"Run `python -P -m agents.virtual_phone",
        ),
        started_phone("old", None),
    ):
        pass


@pytest.mark.parametrize("serial", ["a b;c", "x" * 65, "ü"])
def test_serial_that_is_none(serial: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = StringIO()
    arguments = ["--profile=old", f"--serial={serial}", "--until-stdin-closes"]
    monkeypatch.setattr(sys, "argv", ["virtual", *arguments])
    monkeypatch.setattr(sys, "stdout", said)
    assert virtual.main() == 2
    complaint = HelperReply.model_validate_json(said.getvalue()).error
    assert complaint
    assert complaint.seen == "it is not a serial number"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe", "byte 0 is not UTF-8 text"),
        (b"[" * 5000, "it is nested too deeply"),
        (b"a: [\n", "not YAML: line 2"),
        (b"serial: x\n", "manufacturer: it is missing; .* more"),
    ],
)
def test_yaml_that_is_none(content: bytes, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    with pytest.raises(UserError, match=expected):
        profiles.load(str(file))
    wanted = expected if "missing" not in expected else "title: it is missing"
    with pytest.raises(UserError, match=wanted) as told:
        catalogue.add(Store(tmp_path / "models"), file, None)
    assert "validation error" not in str(told.value)


def test_stacks_folder_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "stacks"
    file.write_text("")
    environment = StackEnvironment(packages=(), lock="none", download_gb=0, disk_gb=0)
    folder = EnvironmentFolder(file / "ipex", environment)
    with pytest.raises(UserError, match=r"Not a directory: .*\. Set BENCHFARM_STACKS to a folder"):
        Installation("ipex", folder, print, {}).run()
