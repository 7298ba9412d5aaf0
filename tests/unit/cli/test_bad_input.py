"""Bad input is one clear line and exit status 2: never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = b"name: x\nworkload: retinanet_resnext50\nstack: torch\nscenario: training\n"
BAD_FILES = {
    "broken YAML": (b"name: [x\n", "not YAML: line 2"),
    "empty": (b"", "the file is empty"),
    "only a comment": (b"# nothing\n", "the file is empty"),
    "binary": (bytes(range(256)), "byte 128 is not UTF-8 text"),
    "control characters": (b"name: \x00\x01\n", "not YAML"),
    "a list": (b"- a\n- b\n", "it holds a list"),
    "too large": (b"#" * 2**21, "a sweep has at most 1048576"),
    "unknown key": (GOOD + b"repeets: 2\n", "key repeets: there is no such key; did you mean"),
    "doubled key": (GOOD + b"name: y\n", "line 5, column 1: key 'name' is given twice"),
    "missing key": (b"name: x\n", "key workload: it is missing"),
    "wrong type": (GOOD + b"repeats: many\n", "key repeats: 'many' is not allowed"),
    "bad name": (GOOD.replace(b"name: x", b"name: ../x"), "key name: '../x' is not allowed"),
    "unknown workload": (
        GOOD.replace(b"retinanet_resnext50", b"retinanet"),
        "key workload: there is no workload 'retinanet'; did you mean retinanet_resnext50?",
    ),
    "unknown stack": (GOOD.replace(b"torch", b"jax"), "key stack: there is no stack 'jax'; known:"),
    "unknown scenario": (GOOD.replace(b"training", b"offline"), "key scenario"),
    "unknown knob": (GOOD + b"knobs: {batchsize: 2}\n", "no knob 'batchsize'; did you mean batch"),
    "knob of wrong type": (GOOD + b"knobs: {steps: '3'}\n", "key knobs.steps: '3' is not allowed"),
    "knob out of bounds": (GOOD + b"knobs: {steps: 0}\n", "key knobs.steps: 0 is not allowed"),
    "knob not a choice": (GOOD + b"knobs: {precision: fp8}\n", "allowed: fp32, bf16"),
    "bad selector": (GOOD + b"devices: cores >\n", "device selector 'cores >'"),
    "bad baseline": (GOOD + b"baseline: {precision: bf16}\n", "key baseline.precision"),
    "paired and stack": (
        GOOD + b"paired: {a: torch, b: torch}\n",
        "key stack: paired takes its place",
    ),
    "bad side": (
        GOOD.replace(b"stack: torch\n", b"paired: {a: 'torch:x', b: torch}\n"),
        "key paired.a: 'torch:x' is not allowed; Value error, 'x' is not KNOB=VALUE",
    ),
    "no stack": (GOOD.replace(b"stack: torch\n", b""), "key stack: it is missing"),
    "alias bomb": (
        b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n" + GOOD,
        "there is no such key",
    ),
    "deep nesting": (b"[" * 5000, "not YAML"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_sweep_file(case: str, tmp_path: Path) -> None:
    content, expected = BAD_FILES[case]
    file = tmp_path / "s.yaml"
    file.write_bytes(content)
    complaint = complaint_of(tmp_path, "sweep", "validate", str(file))
    assert expected in complaint
    assert complaint.startswith(f"benchfarm: {file}") or "selector" in case


COMPARE = ("compare", "torch", "torch:precision=bf16")
RETINANET = ("--workload", "retinanet_resnext50")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((*COMPARE, *RETINANET), "no farm is up here; run: benchfarm up"),
        (
            (*COMPARE, "--workload", "retinanet"),
            "option --workload retinanet: there is none; known",
        ),
        ((*COMPARE, *RETINANET, "--scenario", "offline"), "does not run under 'offline'"),
        ((*COMPARE, "--workload", "shapes_classifier"), "--scenario: single_stream, offline"),
        ((*COMPARE, *RETINANET, "--knob", "steps"), "option --knob: 'steps' is not KNOB=VALUE"),
        ((*COMPARE, *RETINANET, "--knob", "a=[1"), "neither a number, a word, true nor false"),
        ((*COMPARE, *RETINANET, "--knob", "colour=red"), "there is no knob 'colour'"),
        (
            (*COMPARE, *RETINANET, "--knob", "precision=fp32"),
            "it sets precision, and so does knobs",
        ),
        (("compare", "torch", "torch:", *RETINANET), "side B 'torch:': '' is not KNOB=VALUE"),
        (("compare", "torch", "jax", *RETINANET), "key paired.b: there is no stack 'jax'"),
        (("compare", "torch", "litert", *RETINANET), "does not run on stack litert"),
        (("results", "compare", "torch", "torch", *RETINANET), "nothing is stored yet"),
        (("sweep", "validate", "no/such.yaml"), "reading sweep no/such.yaml: No such file"),
        (("sweep", "validate", "."), "Is a directory"),
        (("sweep", "watch", "x"), "nothing is stored yet"),
        (("sweep", "status"), "nothing is stored yet"),
        (("results", "list"), "benchfarm up"),
        (("results", "report", "x"), "nothing is stored yet"),
        (("device", "list"), "nothing is stored yet"),
        (("sweep", "cancel", "x"), "no farm is up here; run: benchfarm up"),
        (("prometheus", "config", "x"), "no farm is up here; run: benchfarm up"),
        (("up", "--metrics-address", "0.0.0.0"), "option --metrics-address 0.0.0.0"),
        (("agent", "start", "--metrics-address", "a"), "option --metrics-address a: 'a' does not"),
        (("agent", "start"), "no farm is up here; run: benchfarm up"),
        (("agent", "start", "--label", "rack"), "option --label 'rack': it is not KEY=VALUE"),
    ],
)
def test_bad_call(arguments: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    assert expected in complaint_of(tmp_path, *arguments)


def test_home_that_is_a_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("")
    assert "point BENCHFARM_HOME at a folder" in complaint_of(home, "up")


def test_configuration_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "folder")
    said = complaint_of(tmp_path, "prometheus", "config", folder, "--controller", "http://x")
    assert f"writing {folder}: Not a directory" in said


def test_prometheus_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install Debian's package prometheus" in complaint_of(tmp_path, "up", "--prometheus")


def test_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = complaint_of(tmp_path, "up", "--api-port", str(port))
    assert f"option --api-port {port}: Address already in use" in said


def test_good_sweep_is_listed_with_its_defaults(tmp_path: Path) -> None:
    done = benchfarm(tmp_path, "sweep", "validate", "-", "--json", stdin=GOOD)
    assert done.returncode == 0
    assert b'"precision": "fp32"' in done.stdout


def test_down_without_a_farm_says_so(tmp_path: Path) -> None:
    done = benchfarm(tmp_path, "down")
    assert (done.returncode, b"no farm is up" in done.stdout) == (0, True)


def complaint_of(home: Path, *arguments: str) -> str:
    done = benchfarm(home, *arguments)
    complaint = done.stderr.decode()
    assert done.returncode == 2, complaint
    assert "Traceback" not in complaint
    assert complaint.count("\n") == 1
    assert done.stdout == b""
    return complaint


def benchfarm(
    home: Path, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    command = [str(Path(sys.executable).with_name("benchfarm")), *arguments]
    environ = {**os.environ, "BENCHFARM_HOME": str(home)}
    return subprocess.run(command, env=environ, input=stdin, capture_output=True, timeout=60)
