"""Files that are small and would take all memory, or minutes, are refused at once in a line.

Each is read by a process that may have 2 GiB of addresses and a minute of CPU time.
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.platform.programs import installed_beside
from tests.support.waiting import COMMAND_S

MEMORY_BYTES = 2 * 2**30
CPU_S = 60
EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1.0, "dur": 1.0}


def within_limits() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))


def complaint(home: Path, *arguments: str) -> str:
    """Return the one line that a command ends with."""
    done = subprocess.run(
        [str(installed_beside("benchfarm")), *arguments],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "BENCHFARM_HOME": str(home)}
        | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
        preexec_fn=within_limits,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr[-900:]
    assert len(done.stderr) < 1000
    return done.stderr


def trace_with(changed: bytes) -> bytes:
    """Return a trace of many events, of which one is exchanged."""
    events = [json.dumps(EVENT).encode()] * 1000
    return b'{"traceEvents": [' + b", ".join([*events, changed, *events]) + b"]}"


TRACES = {
    "nested lists": (b"[" * 1_000_000 + b"]" * 1_000_000, "nested too deeply"),
    "nested objects": (b'{"traceEvents": [' + b'{"args":' * 250_000, "nested too deeply"),
    "nested beside": (b'{"x": ' + b"[" * 2_000_000, "nested too deeply"),
    "a long number": (trace_with(b'{"ph": "X", "ts": ' + b"9" * 10_000 + b"}"), "digits"),
    "a long clock": (
        b'{"baseTimeNanoseconds": ' + b"9" * 10_000 + b', "traceEvents": []}',
        "digits",
    ),
    "a bomb": (b'{"traceEvents": [{"args": [' + b"[]," * 10_000_000, "more than 16777216 bytes"),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_refused(tmp_path: Path, name: str) -> None:
    raw, said = TRACES[name]
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(raw, 1) if name == "a bomb" else raw)
    assert said in complaint(tmp_path, "profile", "import", str(path), "-o", str(tmp_path / "out"))


def test_a_verbose_log_with_absurd_numbers_is_refused(tmp_path: Path) -> None:
    line = "onednn_verbose,v1,primitive,exec,cpu,matmul,x,undef,f32,attr,,{n}x{n}:{n}x{n},{n}\n"
    path = tmp_path / "log.txt"
    path.write_text(line.format(n="9" * 10_000) * 20 + "x" * 50_000_000)
    complaint(tmp_path, "profile", "import", str(path), "-o", str(tmp_path / "out"))


def alias_bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines) + "\nname: *a11\n"


DOCUMENTS: dict[str, tuple[Callable[[], str], str]] = {
    "an alias bomb": (alias_bomb, "it has more than 100000 values"),
    "nested lists": (lambda: "name: " + "[" * 1_000_000, "nested too deeply"),
    "nested blocks": (lambda: "- " * 500_000, "nested too deeply"),
    "a long number": (lambda: "name: " + "9" * 10_000, "digits"),
    "a long tag": (lambda: f"name: !{'x' * 900_000} 1", "could not determine"),
    "many keys": (
        lambda: "\n".join(f"k{n}: 1" for n in range(49_000)),
        "key k0: there is no such key",
    ),
    "a long key": (lambda: f"? {'k' * 900_000}\n: 1", "there is no such key"),
    "key twice": (lambda: "name: a\nname: b", "key 'name' is given twice"),
    "endless": (lambda: "#" * 2**24, "bytes"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_sweep_and_a_task_are_refused(tmp_path: Path, name: str) -> None:
    made, said = DOCUMENTS[name]
    path = tmp_path / "mine.yaml"
    path.write_text(made())
    assert said in complaint(tmp_path, "sweep", "validate", str(path))
    if name in ("an alias bomb", "a long number"):  # the loader is the same
        assert said in complaint(tmp_path, "models", "add", str(path))
