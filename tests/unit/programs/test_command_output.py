"""What programs print, as figures and failures: the recorded exactly, the planted never."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from agents.programs.command_output import (
    facts_in,
    failure_in,
    measured,
    objections_in,
    table_in,
)
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.command import Command, OpTable, line_pattern, rendered
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame
from controller.contracts.units import Unit

RECORDED = Path(__file__).with_name("command_output")


def shipped(stack: str) -> Command:
    command = load_catalog().stacks[stack].command
    assert command
    return command


def command(**changes: object) -> Command:
    """Return a program that prints `time: 1.5 ms`, changed by keyword."""
    keys: dict[str, object] = {
        "arguments": ["{file:program}", "--threads={threads}"],
        "files": {"program": {"executable": True}},
        "timeout_s": 10,
        "figures": {
            "latency": {"unit": "s", "scale": 0.001, "pattern": r"time: (?P<value>\S+) ms"}
        },
        "result": "latency",
        "rules": "its own",
    }
    return Command.model_validate(keys | changes)


@pytest.mark.parametrize(
    ("stack", "file", "figures", "facts"),
    [
        (
            "benchmark-model",
            "benchmark_model_new.txt",
            {
                "latency_mean": 0.0500342,
                "init_time": 0.017187,
                "first_inference": 0.087112,
                "latency_min": 0.049088,
                "latency_max": 0.054011,
                "latency_p50": 0.049912,
                "latency_p95": 0.051877,
                "peak_memory": 46.5 * 2**20,
            },
            {
                "runs_done": 50,
                "delegate": "TfLiteXNNPackDelegate",
                "delegated_nodes": 29,
                "graph_nodes": 31,
                "delegate_partitions": 2,
                "delegate_verdict": "be partially executed",
            },
        ),
        (
            "benchmark-model",
            "benchmark_model_old.txt",
            {
                "latency_mean": 0.249684,
                "init_time": 0.0124,
                "latency_min": 0.247067,
                "latency_max": 0.254474,
            },
            {"runs_done": 50},
        ),
        (
            "mlperf-app",
            "mlperf_app.txt",
            {
                "latency_p90": 0.000189214,
                "latency_mean": 0.000184657,
                "latency_p50": 0.000181623,
                "latency_p99": 0.000237937,
                "accuracy": 0.7643,
            },
            {"mode": "PerformanceOnly", "accuracy_said": "76.43%"},
        ),
        (
            "llama-bench",
            "llama_bench.json",
            {"throughput": 12.4, "prompt_throughput": 45.6, "model_bytes": 770028544.0},
            {"llama_build": "b2f63e1a", "backend": "CPU", "model_type": "llama 1B Q4_0"},
        ),
    ],
)
def test_recorded_output_gives_every_figure_exactly(
    stack: str, file: str, figures: dict[str, float], facts: dict[str, Scalar]
) -> None:
    text, of = (RECORDED / file).read_text(), shipped(stack)
    found = measured(of, lambda _: text)
    assert {n: m.value for n, m in found.items()} == pytest.approx(figures, rel=1e-12)
    assert {n: m.unit for n, m in found.items()} == {n: of.figures[n].unit for n in figures}
    assert facts_in(of, text) == facts
    assert failure_in(of, text) is None
    assert objections_in(of, text) == ()


def test_an_operator_profile_becomes_a_table() -> None:
    table = shipped("benchmark-model").table
    assert table
    assert table_in(table, (RECORDED / "benchmark_model_new.txt").read_text()) == [
        {
            "node_type": "TfLiteXNNPackDelegate",
            "first_ms": "52.000",
            "avg_ms": "49.500",
            "share": "99.000%",
            "cumulative": "99.000%",
            "memory_kb": "0.000",
            "calls": "1",
            "name": "[out]:31",
        },
        {
            "node_type": "SOFTMAX",
            "first_ms": "0.600",
            "avg_ms": "0.500",
            "share": "1.000%",
            "cumulative": "100.000%",
            "memory_kb": "0.000",
            "calls": "1",
            "name": "[softmax]:30",
        },
    ]


def test_the_profile_of_an_old_build_is_that_of_the_regular_runs() -> None:
    table = shipped("benchmark-model").table
    assert table
    rows = table_in(table, (RECORDED / "benchmark_model_old_profile.txt").read_text())
    assert [(row["node_type"], row["avg_ms"], row["calls"], row["name"]) for row in rows] == [
        ("TfLiteNnapiDelegate", "79.010", "1", "[model/a/mul, model/b/mul]:231"),
        ("STRIDED_SLICE", "2.118", "1", "[model/c/StridedSlice]:0"),
    ]


FAILURES = [
    ("benchmark-model", "ERROR: Failed to apply GPU delegate.", "delegate_refused", Blame.DEVICE),
    (
        "benchmark-model",
        "Though NNAPI delegate is applied, the model graph will not be executed by the delegate.",
        "delegate_refused",
        Blame.DEVICE,
    ),
    (
        "benchmark-model",
        "WARN: The GPU delegate is not supported by this build.",
        "delegate_missing",
        Blame.DEVICE,
    ),
    (
        "benchmark-model",
        "NNAPI acceleration is unsupported on this platform.",
        "delegate_missing",
        Blame.DEVICE,
    ),
    ("benchmark-model", "ERROR: Could not open 'x.tflite'.", "model_unusable", Blame.WORKLOAD),
    ("benchmark-model", "INFO: Loaded model x.tflite", None, None),
    ("benchmark-model", "ERROR: Could not open model x", "model_unusable", Blame.WORKLOAD),
    ("benchmark-model", "Failed to load the model", "model_unusable", Blame.WORKLOAD),
    (
        "benchmark-model",
        "Didn't find op for builtin opcode 'CONV_2D' version '6'.",
        "model_unusable",
        Blame.WORKLOAD,
    ),
    (
        "benchmark-model",
        "/system/bin/sh: ./benchmark_model: not executable: 64-bit ELF file",
        "wrong_program",
        Blame.USER,
    ),
    (
        "benchmark-model",
        'CANNOT LINK EXECUTABLE "./program": library "libEGL.so" not found',
        "wrong_program",
        Blame.USER,
    ),
    (
        "benchmark-model",
        "terminating due to uncaught exception of type std::bad_alloc",
        "out_of_memory",
        Blame.WORKLOAD,
    ),
    ("benchmark-model", "Disallowed CPU fallback detected.", "delegate_refused", Blame.DEVICE),
    (
        "mlperf-app",
        "E external.cc:135] Unable to load: /d/libbackend.so: dlopen failed",
        "wrong_program",
        Blame.USER,
    ),
    (
        "mlperf-app",
        "F external.cc:190] Failed to create external backend",
        "delegate_refused",
        Blame.DEVICE,
    ),
    (
        "mlperf-app",
        "F imagenet.cc:55] Failed to list all the images file in provided path",
        "dataset",
        Blame.USER,
    ),
    ("mlperf-app", "F main.cc:128] Unrecognized benchmark_id: x", "arguments", Blame.USER),
    ("mlperf-app", "sh: program: not executable: 64-bit ELF file", "wrong_program", Blame.USER),
    (
        "mlperf-app",
        "terminating due to uncaught exception of type std::bad_alloc",
        "out_of_memory",
        Blame.WORKLOAD,
    ),
    ("llama-bench", "error: failed to load model '/x.gguf'", "model_unusable", Blame.WORKLOAD),
    (
        "llama-bench",
        "error: failed to create context with model 'x'",
        "out_of_memory",
        Blame.WORKLOAD,
    ),
    (
        "llama-bench",
        "error: invalid parameter for argument: --ncmoe",
        "arguments",
        Blame.USER,
    ),
    ("llama-bench", "sh: x: Exec format error", "wrong_program", Blame.USER),
]


@pytest.mark.parametrize(("stack", "line", "kind", "blame"), FAILURES)
def test_each_failure_line_is_named(
    stack: str, line: str, kind: str | None, blame: Blame | None
) -> None:
    found = failure_in(shipped(stack), f"STARTING!\n{line}\nmore\n")
    assert (found and found.kind, found and found.blame) == (kind, blame)
    if found:
        assert line[:40] in found.message
        assert re.search(r"\. [A-Z].+\.$", found.message), "it says what to do"


def test_every_failure_line_that_is_shipped_is_tried() -> None:
    for stack in ("benchmark-model", "llama-bench", "mlperf-app"):
        of = shipped(stack)
        lines = [line for name, line, kind, _ in FAILURES if name == stack and kind]
        for known in of.failures:
            assert any(line_pattern(known.pattern).search(line) for line in lines), known.pattern


ONE = {"unit": "s", "pattern": r"t=(?P<value>\S+)"}
JSON = {"unit": "s", "json_path": "runs.*.t"}
CSV = {"unit": "s", "csv": "t"}


@pytest.mark.parametrize(
    ("figure", "text", "seen"),
    [
        (ONE, "nothing here", "the output has nothing that matches"),
        (ONE, "", "the output has nothing that matches"),
        (ONE, "t=1\nt=2", "matches 2 values"),
        (ONE, "t=1 t=2", "matches 2 values"),
        (ONE, "t=nan", "is not a possible measurement"),
        (ONE, "t=inf", "is not a possible measurement"),
        (ONE, "t=-1", "is not a possible measurement"),
        (ONE, "t=1e999", "is not a possible measurement"),
        (ONE, "t=fast", "'fast' is not a number"),
        (ONE, f"t={'9' * 400}", "is not a possible measurement"),
        (JSON, "no json", "no JSON document"),
        (JSON, '{"runs": [{"t": 1}', "no JSON document"),
        (JSON, '{"runs": [{"t": true}]}', "is not a number"),
        (JSON, '{"runs": [{"t": [1]}]}', "is not a number"),
        (JSON, '{"runs": [{"t": null}]}', "is not a number"),
        (JSON, '{"runs": []}', "the output has nothing that matches"),
        (JSON, '{"runs": [{"t": 1}, {"t": 2}]}', "matches 2 values"),
        (JSON, "[" * 100_000, "no JSON document"),
        (CSV, "a,b\n1,2\n", "the output has nothing that matches"),
        (CSV, "a,t\n1\n", "the output has nothing that matches"),
        (CSV, "a,t\n1,x\n", "'x' is not a number"),
        ({**ONE, "select": "all"}, "t=1\n" * 100_001, "more than 100000 values"),
    ],
)
def test_what_is_no_figure_is_a_failure_with_what_was_seen(
    figure: dict[str, object], text: str, seen: str
) -> None:
    of = command(figures={"latency": figure})
    with pytest.raises(WorkerFault) as raised:
        measured(of, lambda _: text)
    failure = raised.value.failure
    assert (failure.kind, failure.blame) == ("output", Blame.WORKLOAD)
    assert "cannot read figure latency" in failure.message
    assert seen in failure.message
    assert len(failure.output) < 2000


@pytest.mark.parametrize(
    ("figure", "text", "value", "samples"),
    [
        ({**ONE, "select": "first"}, "t=1\nt=2\nt=3", 1.0, ()),
        ({**ONE, "select": "last"}, "t=1\nt=2\nt=3", 3.0, ()),
        ({**ONE, "select": "all"}, "t=1\nt=4\nt=3", 3.0, (1.0, 4.0, 3.0)),
        ({**ONE, "scale": 1e-6}, "t=2e6", 2.0, ()),
        ({**JSON, "select": "all"}, 'log\n{"runs": [{"t": 1}, {"t": "2"}]} done', 1.5, (1.0, 2.0)),
        ({"unit": "s", "json_path": "runs.1"}, '{"runs": [5, 6]}', 6.0, ()),
        ({**JSON, "where": {"n": "2"}}, '{"runs": [{"t": 1, "n": 1}, {"t": 7, "n": 2}]}', 7.0, ()),
        ({**CSV, "select": "all"}, "x\nname, t\na, 1\nb, 3\n", 2.0, (1.0, 3.0)),
        ({**CSV, "where": {"name": "b"}}, "name,t\na,1\nb,3\n", 3.0, ()),
    ],
)
def test_each_way_to_find_a_figure(
    figure: dict[str, object], text: str, value: float, samples: tuple[float, ...]
) -> None:
    (found,) = measured(command(figures={"latency": figure}), lambda _: text).values()
    assert (found.value, found.unit, found.samples) == (value, Unit.SECONDS, samples)


def test_an_optional_figure_may_be_missing() -> None:
    figures = {"latency": ONE, "more": {"unit": "s", "pattern": "(?P<value>x)", "required": False}}
    assert list(measured(command(figures=figures), lambda _: "t=1")) == ["latency"]


def test_all_of_a_long_output_is_read() -> None:
    noise = f"{'x' * 99}\n" * 100_000
    text = f"{noise}time: 3 ms\n{noise}time: 2 ms\n"
    every = {"unit": "s", "pattern": r"time: (?P<value>\S+) ms", "select": "all"}
    of = command(figures={"latency": every}, invalid=["time: 3"])
    assert measured(of, lambda _: text)["latency"].samples == (3.0, 2.0)
    assert objections_in(of, text) == ("the program printed: time: 3 ms",)
    with pytest.raises(WorkerFault, match="matches 2 values"):
        measured(command(), lambda _: text)


def test_a_long_line_is_read_to_its_end() -> None:
    text = f"{'x' * 4090} t=123456\n"
    assert measured(command(figures={"latency": ONE}), lambda _: text)["latency"].value == 123456


@pytest.mark.parametrize(
    "before",
    ['"name, t\n', 'say "a,b\n"\n', f"{'x' * 200_000}\n"],
    ids=["unclosed quote", "closed quote", "long cell"],
)
def test_lines_before_a_csv_table_are_no_part_of_it(before: str) -> None:
    text = f'{before}name,t\na,1\n"b,c",3\n'
    found = measured(command(figures={"latency": {**CSV, "select": "all"}}), lambda _: text)
    assert found["latency"].samples == (1.0, 3.0)


def test_text_after_a_closing_quote_is_no_row_of_a_csv_table() -> None:
    of = command(figures={"latency": {**CSV, "select": "all"}})
    found = measured(of, lambda _: 'name,t\nb,2\n"model" loaded\nc,3\n')
    assert found["latency"].samples == (2.0, 3.0)


@pytest.mark.parametrize("row", ['"a,1', 'a,"1', f"{'x' * 200_000},1"])
def test_a_row_that_is_no_csv_is_refused(row: str) -> None:
    of = command(figures={"latency": {**CSV, "select": "all"}})
    with pytest.raises(WorkerFault, match="cannot read figure latency: a line after csv heading"):
        measured(of, lambda _: f"name,t\nb,2\n{row}\nc,3\n")


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"files": {"program": {"path": "/bin/x", "checksum": f"md5:{'0' * 32}"}}}, "models add"),
        ({"files": {"../x": {}}}, "files"),
        ({"arguments": ["{file:other}"]}, "{file:other} is not one of files"),
        ({"arguments": []}, "arguments"),
        ({"result": "speed"}, "speed is not one of the required figures"),
        ({"files": {"program": {"filename": "../x"}}}, "filename"),
        (
            {"files": {"program": {}, "other": {"filename": "program"}}},
            "files: two have the name program",
        ),
        ({"invalid": ["(x"]}, "pattern"),
        ({"environment": {"LD_PRELOAD": "x"}}, "LD_PRELOAD is reserved for benchfarm"),
        ({"environment": {"PATH": "x"}}, "PATH is reserved for benchfarm"),
        ({"environment": {"A=B": "x"}}, "environment"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"reads": "../../etc/passwd"}, "reads"),
        ({"reads": ".."}, "reads"),
        ({"facts": {"x": "no group"}}, "has no group (?P<value>"),
        ({"figures": {"latency": {"unit": "s"}}}, "give exactly one of pattern, json_path and csv"),
        (
            {"figures": {"latency": {**ONE, "csv": "t"}}},
            "give exactly one of pattern, json_path and csv",
        ),
        ({"figures": {"latency": {"unit": "furlong", "csv": "t"}}}, "unit"),
        ({"figures": {"latency": {"unit": "s", "pattern": "(.*)"}}}, "has no group (?P<value>"),
        ({"figures": {"latency": {"unit": "s", "pattern": "(?P<value>"}}}, "pattern"),
        (
            {"figures": {"latency": {"unit": "s", "pattern": "(?P<value>(a+)+)$"}}},
            "nests repetitions or uses a back-reference",
        ),
        (
            {"figures": {"latency": {"unit": "s", "pattern": r"(?P<value>(\w+ ?)*)$"}}},
            "nests repetitions or uses a back-reference",
        ),
        (
            {"figures": {"latency": {"unit": "s", "pattern": r"(?P<value>a)\1"}}},
            "nests repetitions or uses a back-reference",
        ),
        (
            {"figures": {"latency": {"unit": "s", "pattern": f"(?P<value>{'a' * 600})"}}},
            "characters; the limit is",
        ),
        ({"failures": [{"pattern": "(x", "kind": "k", "blame": "user", "remedy": "r"}]}, "pattern"),
        ({"table": {"heading": "x", "row": "no columns"}}, "no named group"),
        ({"shell": "rm -rf /"}, "shell"),
    ],
)
def test_what_no_program_may_say(changes: dict[str, object], seen: str) -> None:
    with pytest.raises(ValidationError) as raised:
        command(**changes)
    assert seen in str(raised.value)


def test_templates_are_filled_and_no_shell_reads_them() -> None:
    of = command(
        arguments=[
            "{file:program}",
            "-t",
            "{threads}",
            {"when": "fast", "arguments": ["--{mode}"]},
        ],
        environment={"OMP_NUM_THREADS": "{threads}", "OUT": "{output}/x"},
    )
    places = {"file:program": "/d/program", "output": "/d/out"}
    knobs: dict[str, Scalar] = {"threads": 2, "fast": True, "mode": "$(reboot); {output}"}
    assert rendered(of, knobs, places) == (
        ["/d/program", "-t", "2", "--$(reboot); {output}"],
        {"OMP_NUM_THREADS": "2", "OUT": "/d/out/x"},
    )
    assert rendered(of, {**knobs, "fast": False}, places)[0] == ["/d/program", "-t", "2"]
    assert of.knobs_named() == {"threads", "fast", "mode"}


def test_a_program_that_takes_a_model_can_be_told_its_number_format() -> None:
    """The knob is the workload's: a program that declared it, too, is refused."""
    quick = {"when": "numerics", "equals": "int8", "arguments": ["--quick", "{threads}"]}
    of = command(arguments=["p", "{model}", "--as={numerics}", quick])
    assert of.knobs_named() == {"threads"}
    knobs: dict[str, Scalar] = {"threads": 2, "numerics": "int8"}
    given = rendered(of, knobs, {"model": "/d/m"})[0]
    assert given == ["p", "/d/m", "--as=int8", "--quick", "2"]
    other = rendered(of, {**knobs, "numerics": "fp32"}, {"model": "/d/m"})[0]
    assert other == ["p", "/d/m", "--as=fp32"]
    assert command(arguments=["p", "{numerics}"]).knobs_named() == {"numerics"}, "of no task's"


def test_a_file_that_only_arguments_left_out_name_is_not_needed() -> None:
    of = command(
        files={"program": {}, "library": {"filename": "libx.so"}, "delegate": {}, "both": {}},
        arguments=[
            "{file:program}",
            "{file:both}",
            {"when": "delegated", "arguments": ["{file:delegate}", "{file:both}"]},
        ],
        environment={"LD_LIBRARY_PATH": "{files}"},
    )
    assert set(of.needed({"delegated": False})) == {"program", "library", "both"}
    assert set(of.needed({"delegated": True})) == {"program", "library", "both", "delegate"}
    places = {f"file:{name}": name for name in of.files} | {"files": "/d"}
    assert rendered(of, {"delegated": True}, places)[1] == {"LD_LIBRARY_PATH": "/d"}
    assert of.knobs_named() == {"delegated"}


def test_a_program_may_say_itself_that_its_result_is_invalid() -> None:
    of = command(invalid=["Result is : INVALID", "Overlap"])
    text = "Result is : INVALID\nfine\nRecommendation\nResult is  : INVALID\n Overlap\n Overlap"
    assert objections_in(of, text) == (
        "the program printed: Result is : INVALID",
        "the program printed: Overlap",
    )
    assert objections_in(of, "Result is : VALID") == ()


def test_a_figure_may_be_elsewhere_than_the_others() -> None:
    said = {"stdout": "time: 1 ms", "stderr": "noise t=4", "own.txt": "t=7"}
    more = {"a": {**ONE, "reads": "stderr"}, "b": {**ONE, "reads": "own.txt"}}
    first = {"unit": "s", "pattern": r"time: (?P<value>\S+) ms"}
    found = measured(command(figures={"latency": first, **more}), said.__getitem__)
    assert {name: m.value for name, m in found.items()} == {"latency": 1.0, "a": 4.0, "b": 7.0}


def test_a_table_whose_heading_never_came_has_no_rows() -> None:
    assert table_in(OpTable(heading="HEAD", row=r"(?P<a>\d+)"), "1\n2\n") == []
    assert table_in(OpTable(heading="HEAD", row=r"(?P<a>\d+)"), "HEAD\n1\nend\n2\n") == [{"a": "1"}]
