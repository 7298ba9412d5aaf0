"""`benchfarm sweep validate` names the devices of this host's farm that have no runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.contracts.device import RegisteredDevice
from controller.store.sqlite import SqliteStore
from models.mobile.store import Store
from tests.support import store_examples
from tests.support.command_line import benchfarm, printed_by

SWEEP = b"""
name: any
workload: shapes_classifier
stack: litert
scenario: single_stream
knobs: {mode: performance}
"""
NAMED = b"phone-1: no runtime for armeabi-v7a (of litert: arm64-v8a, x86_64)"


def known(home: Path, abi: str) -> None:
    """Have the farm of this home know a phone."""
    device = store_examples.PHONE.device.model_copy(update={"facts": {"abi": abi}})
    phone = RegisteredDevice.model_validate({**dict(store_examples.PHONE), "device": device})
    store = SqliteStore.open(home / "store.sqlite")
    store.save_agent(store_examples.AGENT, [phone])
    store.close()


@pytest.mark.parametrize(("abi", "named"), [("armeabi-v7a", True), ("arm64-v8a", False)])
def test_a_phone_without_a_runtime_is_named(abi: str, named: bool, tmp_path: Path) -> None:
    known(tmp_path, abi)
    done = benchfarm(tmp_path, "sweep", "validate", "-", stdin=SWEEP)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (NAMED in done.stdout) is named


def test_a_host_whose_store_is_unknown_is_named(tmp_path: Path) -> None:
    known(tmp_path, "arm64-v8a")
    text = SWEEP.replace(b"shapes_classifier", b"edsr").replace(b"mode:", b"dataset: tiny, mode:")
    done = benchfarm(tmp_path, "sweep", "validate", "-", stdin=text)
    line = b": unknown whether it has edsr/models/int8, edsr/tiny/samples, edsr/tiny/truth\n"
    assert (done.returncode, done.stdout.endswith(line)) == (0, True), done
    assert line not in benchfarm(tmp_path, "sweep", "validate", "-", stdin=SWEEP).stdout


def test_it_needs_no_farm(tmp_path: Path) -> None:
    done = benchfarm(tmp_path, "sweep", "validate", "-", stdin=SWEEP)
    assert (done.returncode, b"no errors" in done.stdout) == (0, True)


def test_without_known_hosts_this_one_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SWEEP.replace(b"shapes_classifier", b"edsr").replace(b"mode:", b"dataset: full, mode:")
    model, samples = "edsr/models/int8", "edsr/full/samples"
    store = Store(tmp_path / "models")

    def said(verb: str) -> list[bytes]:
        done = benchfarm(tmp_path, "sweep", verb, "-", stdin=text)
        assert (done.returncode, done.stderr) == (0, b"")
        return [line for line in done.stdout.splitlines() if line.startswith(b"this host: ")]

    command = "(run `benchfarm models fetch edsr`)"
    lacking = f"this host: lacks {model}, {samples}, edsr/full/truth {command}"
    assert said("validate") == [lacking.encode()]
    file = tmp_path / "any"
    file.write_bytes(b"x")
    store.pin(samples, store.add(file)["sha256"])
    lacking = f"this host: lacks {model}, edsr/full/truth {command}"
    assert said("validate") == [lacking.encode()]
    SqliteStore.open(tmp_path / "store.sqlite").close()  # a farm that knows no agent
    assert (said("validate"), said("plan")) == ([lacking.encode()], [lacking.encode()])
    monkeypatch.setenv("BENCHFARM_URL", "http://127.0.0.1:9")
    assert said("validate") == [], "the farm is elsewhere"


def test_a_store_here_that_cannot_be_read_is_a_line_and_no_error(tmp_path: Path) -> None:
    text = SWEEP.replace(b"shapes_classifier", b"edsr").replace(b"mode:", b"dataset: full, mode:")
    pins = tmp_path / "models/pins/edsr/full"
    pins.mkdir(parents=True)
    (pins / "samples").write_text("no checksum")
    done = benchfarm(tmp_path, "sweep", "validate", "-", stdin=text)
    assert (done.returncode, done.stderr.count(b"\n")) == (0, 1)
    assert done.stderr.startswith(b"benchfarm: cannot read ")
    assert b"\nthis host: unknown whether it has edsr/models/int8, " in done.stdout


def test_devices_of_a_farm_elsewhere_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(tmp_path, "armeabi-v7a")
    monkeypatch.setenv("BENCHFARM_URL", "http://127.0.0.1:9")
    done = benchfarm(tmp_path, "sweep", "validate", "-", stdin=SWEEP)
    assert (done.returncode, NAMED in done.stdout) == (0, False)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_clause_that_no_known_device_matches_is_a_warning(
    form: tuple[str, ...], tmp_path: Path
) -> None:
    known(tmp_path, "arm64-v8a")
    done = benchfarm(tmp_path, "sweep", "validate", "-", *form, stdin=SWEEP + b"devices: coress>1")
    warning = b"benchfarm: key devices: no known device has coress. Did you mean cores?\n"
    assert (done.returncode, done.stderr) == (0, warning)


def cells_shown(home: Path, text: str) -> list[str]:
    """Return the lines of `sweep validate` above the count of cells, without the table's frame."""
    file = home / "s.yaml"
    file.write_text(text)
    printed = printed_by(home, "sweep", "validate", str(file))
    lines = [" ".join(line.strip("│┃").split()) for line in printed.splitlines()]
    return [line for line in lines if line[:1] not in ("┏", "┡", "└")][:-1]


HEAD = "name: x\nworkload: resnet50\nscenario: training\n"


@pytest.mark.parametrize(
    ("text", "shared", "columns", "rows"),
    [
        (
            f"{HEAD}stack: torch\nknobs: {{steps: 4}}",
            "workload resnet50, stack torch, scenario training, devices any, steps=4",
            [],
            [""],
        ),
        (
            f"{HEAD}stack: torch\nknobs: {{steps: 10, batch_size: [2, 4]}}",
            "workload resnet50, stack torch, scenario training, devices any",
            ["knobs"],
            ["batch_size=2", "batch_size=4"],
        ),
        (
            f"{HEAD}stack: [torch, ipex]\nknobs: {{fused_optimizer: [true, false]}}",
            "workload resnet50, scenario training, devices any",
            ["stack", "knobs"],
            [
                "torch │ fused_optimizer=true",
                "torch │ fused_optimizer=false",
                "ipex │ fused_optimizer=true ipex_frozen_bn=false ipex_optimize=true",
                "ipex │ fused_optimizer=false ipex_frozen_bn=false ipex_optimize=true",
            ],
        ),
        (
            f"{HEAD}stack: torch\ndevices: [any, cores >= 2]",
            "workload resnet50, stack torch, scenario training",
            ["devices"],
            ["any", "cores >= 2"],
        ),
        (
            f"{HEAD}paired: {{a: torch, b: ['torch:precision=bf16', ipex]}}",
            "workload resnet50, scenario training, devices any",
            ["stack", "compared with"],
            [
                "torch:precision=fp32 │ torch:precision=bf16",
                "torch │ ipex:ipex_frozen_bn=false,ipex_optimize=true",
            ],
        ),
    ],
)
def test_only_what_differs_has_a_column(
    text: str, shared: str, columns: list[str], rows: list[str], tmp_path: Path
) -> None:
    lines = cells_shown(tmp_path, text)
    assert lines[0] == f"all cells: {shared}; other knobs have their defaults"
    assert lines[1] == " ┃ ".join(["cell", *columns])
    assert [line.partition(" │ ")[2] for line in lines[2:]] == rows
