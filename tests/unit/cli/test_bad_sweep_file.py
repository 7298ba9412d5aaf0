"""A bad sweep file is one clear line and exit status 2: never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import complaint_of

GOOD = b"name: x\nworkload: retinanet_resnext50\nstack: torch\nscenario: training\n"
BAD_FILES = {
    "broken YAML": (b"name: [x\n", "not YAML: line 2"),
    "empty": (b"", "the file is empty"),
    "only a comment": (b"# nothing\n", "the file is empty"),
    "binary": (bytes(range(256)), "byte 128 is not UTF-8 text"),
    "control characters": (b"name: \x00\x01\n", "not YAML"),
    "a list": (b"- a\n- b\n", "it holds a list"),
    "too large": (b"#" * 2**21, "it has more than 1048576 bytes"),
    "unknown key": (GOOD + b"repeets: 2\n", "key repeets: there is no such key. Did you mean"),
    "doubled key": (GOOD + b"name: y\n", "line 5, column 1: key 'name' is given twice"),
    "missing key": (b"name: x\n", "key workload: it is missing"),
    "wrong type": (GOOD + b"repeats: many\n", "key repeats: 'many' is not allowed"),
    "tag that its value does not fit": (
        GOOD + b"repeats: !!bool maybe\n",
        "line 5, column 10: a value is not a valid bool. Correct the file there.",
    ),
    "bad name": (GOOD.replace(b"name: x", b"name: ../x"), "key name: '../x' is not allowed"),
    "unknown workload": (
        GOOD.replace(b"retinanet_resnext50", b"retinanet_resnext"),
        "key workload: there is no workload 'retinanet_resnext'. Did you mean retinanet_resnext50?",
    ),
    "unknown stack": (GOOD.replace(b"torch", b"jax"), "key stack: there is no stack 'jax'. Known:"),
    "unknown scenario": (GOOD.replace(b"training", b"kernel"), "key scenario"),
    "unknown knob": (GOOD + b"knobs: {batchsize: 2}\n", "no knob 'batchsize'. Did you mean batch"),
    "knob of wrong type": (GOOD + b"knobs: {steps: '3'}\n", "key knobs.steps: '3' is not allowed"),
    "knob out of bounds": (GOOD + b"knobs: {steps: 0}\n", "key knobs.steps: 0 is not allowed"),
    "knob too large": (
        b"name: x\nworkload: shapes_classifier\nstack: litert\nscenario: server\n"
        b"knobs: {target_qps: 1%s}\n" % (b"0" * 400),
        "0 is not allowed. Give a number of at most 64 bits",
    ),
    "number of 6021 digits": (GOOD + b"repeats: 0x%s\n" % (b"f" * 5000), "more than 1000 digits"),
    "knob not a choice": (GOOD + b"knobs: {precision: fp8}\n", "Give one of: fp32, bf16"),
    "bad selector": (GOOD + b"devices: cores >\n", "cannot read device selector 'cores >'"),
    "bad baseline": (GOOD + b"baseline: {precision: bf16}\n", "key baseline.precision"),
    "paired and stack": (
        GOOD + b"paired: {a: torch, b: torch}\n",
        "key stack: it is not allowed beside paired",
    ),
    "bad side": (
        GOOD.replace(b"stack: torch\n", b"paired: {a: 'torch:x', b: torch}\n"),
        "key paired.a: 'torch:x' is not allowed. 'x' is not KNOB=VALUE.",
    ),
    "no stack": (GOOD.replace(b"stack: torch\n", b""), "key stack: it is missing"),
    "alias bomb": (
        b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n" + GOOD,
        "there is no such key",
    ),
    "deep nesting": (b"[" * 5000, "it is nested too deeply"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_sweep_file(case: str, tmp_path: Path) -> None:
    content, expected = BAD_FILES[case]
    file = tmp_path / "s.yaml"
    file.write_bytes(content)
    complaint = complaint_of(tmp_path, "sweep", "validate", str(file))
    assert expected in complaint
    assert complaint.startswith(f"benchfarm: cannot read {file}: ") or "selector" in case
