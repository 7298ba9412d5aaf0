"""Malformed and hostile inputs, a few hundred, by the door each comes in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from controller.contracts.wire import Progress, Report, RunProgress
from tests.support import builders

HOSTILE = {
    "command": "$(touch {canary})",
    "backticks": "`touch {canary}`",
    "semicolon": "x; touch {canary} #",
    "quotes": "\"x\" 'y' touch {canary}",
    "two lines": "one\ntouch {canary}",
    "a header": "x\r\nAuthorization: Bearer 0123",
    "nul": "x\x00y",
    "escape": "\x1b[2J\x1b]0;owned\x07",
    "a path up": "../../../../etc/passwd",
    "an absolute path": "/etc/passwd",
    "an option": "--upload-pack=touch {canary}",
    "a format": "%s%n{0.__class__}",
    "right to left": "\u202etxt.exe",
    "nothing": "",
    "huge": "a b" * 40_000,
}
"""None of these is a name of anything."""
MALFORMED = {
    "empty": b"",
    "not JSON": b"{sweep: x}",
    "cut short": b'{"sweep": {"name": "x"',
    "not UTF-8": b'{"sweep": "\xff\xfe"}',
    "a lone surrogate": b'{"sweep": {"name": "\\ud800"}}',
    "a list": b"[]",
    "null": b"null",
    "a number": b"1e999",
    "deep": b"[" * 50_000 + b"]" * 50_000,
    "deep objects": b'{"sweep":' * 20_000 + b"1" + b"}" * 20_000,
    "an unknown key": b'{"sweeep": {}}',
    "too large": b'{"sweep": "' + b"x" * (2 << 20) + b'"}',
}
SWEEP = builders.sweep(knobs={"batch_size": 2}).model_dump(mode="json")
REGISTRATION = builders.registration(builders.agent("evil")).model_dump(mode="json")
REPORT = Report(
    ref=builders.ref(),
    agent_id="host-1",
    incarnation="first",
    started_at=1.0,
    outcome=builders.result(),
).model_dump(mode="json")
EXCHANGE: dict[str, Any] = {
    "agent_id": "host-1",
    "incarnation": "first",
    "held": [],
    "asked_at": 1.0,
}

PROGRESS = RunProgress(
    ref=builders.ref(),
    agent_id="host-1",
    incarnation="first",
    progress=Progress(phase="training", done=1, total=9),
).model_dump(mode="json")

Way = tuple[str | int, ...]
"""Where in a document a value is put; `key` before the last says that it becomes a key."""


DOCUMENTS: Mapping[str, tuple[dict[str, Any], tuple[Way, ...]]] = {
    "submit": (
        {"sweep": SWEEP},
        (
            *(("sweep", "name"), ("sweep", "workload"), ("sweep", "stack")),
            *(("sweep", "scenario"), ("sweep", "knobs", "key"), ("sweep", "devices")),
            *(("sweep", "baseline", "key"), ("sweep", "repeats"), ("sweep", "priority")),
        ),
    ),
    "register": (
        REGISTRATION,
        (
            *(("agent", "id"), ("agent", "host"), ("agent", "exporter")),
            *(("agent", "version"), ("devices", 0, "id"), ("devices", 0, "kind")),
            *(("devices", 0, "labels", "key"), ("devices", 0, "facts", "key")),
        ),
    ),
    "report": (REPORT, (("ref", "run_id"), ("agent_id",), ("outcome", "type"), ("started_at",))),
    "exchange": (EXCHANGE, (("agent_id",), ("incarnation",), ("held",), ("asked_at",))),
    "progress": (
        PROGRESS,
        (
            *(("ref", "run_id"), ("agent_id",), ("incarnation",)),
            *(("progress", "type"), ("progress", "done"), ("progress", "total")),
        ),
    ),
}
"""Door → a good document, and where in it something is spoilt."""
YAML = {
    "yaml object": "!!python/object/apply:os.system ['touch {canary}']",
    "yaml bomb": "a: &a [x,x]\nb: &b [*a,*a]\nname: *b\n",
    "yaml twice": "name: a\nname: b\n",
    "yaml surrogate": 'name: "\\ud800"\n',
    "yaml deep": "[" * 20_000,
    "yaml tabs": "name:\t\t- x\n\t- y",
}
RAW = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/sweeps HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/sweeps HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nx",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/sweeps/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/sweeps HTTP/1.1\r\nHost: x\r\nA\x00B: c\r\n\r\n",
    b"\r\n\r\n\r\n",
)
"""What is no request, written to the socket."""


@dataclass(frozen=True, slots=True)
class Case:
    """An input, and by which door it comes."""

    door: str
    name: str
    body: bytes
    path: str = ""


def spoilt(document: dict[str, Any], way: Way, value: object) -> bytes:
    """Return a document with one value replaced, or put in as a key where the way ends in `key`."""
    copy = json.loads(json.dumps(document))
    spot, last = copy, way[-1]
    for step in way[:-1]:
        spot = spot[step]
    if last == "key":
        spot[str(value)] = 1
    else:
        spot[last] = value
    return json.dumps(copy).encode()


def corpus(canary: Path) -> Iterator[Case]:
    """Yield every case; a command in one would make the file `canary`."""
    texts = {name: text.replace("{canary}", str(canary)) for name, text in HOSTILE.items()}
    yield from _documents(texts)
    yield from _files(texts, canary)
    yield from _phones(texts)
    yield from _administration(texts)
    yield from (Case("raw", repr(raw[:60]), raw) for raw in RAW)


def _documents(texts: Mapping[str, str]) -> Iterator[Case]:
    for door, (document, ways) in DOCUMENTS.items():
        for way in ways:
            place = ".".join(map(str, way))
            for name, text in texts.items():
                yield Case(door, f"{place}: {name}", spoilt(document, way, text))
        for name, body in MALFORMED.items():
            yield Case(door, name, body)


def _files(texts: Mapping[str, str], canary: Path) -> Iterator[Case]:
    for name, text in texts.items():
        yield Case("file", f"name: {name}", json.dumps({**SWEEP, "name": text}).encode())
        yield Case("file", f"text: {name}", text.encode())
    for name, text in YAML.items():
        yield Case("file", name, text.replace("{canary}", str(canary)).encode())


def _phones(texts: Mapping[str, str]) -> Iterator[Case]:
    for name, text in texts.items():
        said = f"[ro.serialno]: [{text}]\n[ro.product.model]: [{text}]\n"
        yield Case("phone", f"serial: {name}", said.encode())
    for cores in ("0-99999999999", "-5", "9-1", "x", "1-2-3"):
        yield Case("phone", f"cores: {cores}", b"[ro.serialno]: [good]\n", cores)
    yield Case("phone", "cut properties", b"[ro.serialno]: [" * 20_000)


def _administration(texts: Mapping[str, str]) -> Iterator[Case]:
    bodies: dict[str, dict[str, object]] = {
        "devices/{}/quarantine": {"why": "x"},
        "devices/{}/book": {"why": "x", "for_s": 1, "user": None},
        "devices/{}/label": {"labels": {"a": "b"}},
        "agents/{}/revoke": {"why": "x"},
    }
    for path, body in bodies.items():
        for name in ("command", "two lines", "a path up", "quotes", "right to left"):
            whole = "/v1/admin/" + path.format(quote(texts[name], safe=""))
            yield Case("http", f"{path}: {name}", json.dumps(body).encode(), whole)
        for name, malformed in MALFORMED.items():
            whole = "/v1/admin/" + path.format("cpu-1")
            yield Case("http", f"{path}: {name}", malformed, whole)
    for name in ("command", "two lines", "huge", "nothing", "a path up", "nul"):
        asked = json.dumps({"name": texts[name]}).encode()
        yield Case("http", f"token: {name}", asked, "/v1/admin/tokens")
    for seconds in (-1, 0, 1e12, "NaN", None, "2h"):
        asked = json.dumps({"why": "x", "user": None, "for_s": seconds}).encode()
        yield Case("http", f"book for {seconds}", asked, "/v1/admin/devices/cpu-1/book")
