"""Verbose logs of each generation of oneDNN, with known answers."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from controller.profiles.errors import ProfileUnreadable
from controller.profiles.importing import import_file
from controller.profiles.primitive import primitive_of
from controller.profiles.verbose import (
    CHUNK_BYTES,
    MOST_KINDS,
    LogFacts,
    executions,
    started_s,
    totals,
)
from controller.profiles.verbose_columns import LONGEST_TIME
from tests.support.figures import Figure

LOGS = Path(__file__).with_name("logs")
CONVOLUTION = (
    "cpu,convolution,brg_conv_fwd:avx2,forward_training,src:f32::blocked:acdb::f0 "
    "wei:f32:a:blocked:Acdb32a::f0 dst:f32::blocked:acdb::f0,,alg:convolution_direct,"
    "mb2_ic32oc64_ih32oh16kh3sh2dh0ph1_iw32ow16kw3sw2dw0pw1"
)
Known = tuple[str, str, str, str, str, str, float, float, float | None, float | None]

AMX = (
    "Intel AVX-512 with float16, Intel DL Boost and bfloat16 support and Intel AMX with "
    "bfloat16 and 8-bit integer support"
)
GENERATIONS: dict[str, tuple[str, str, list[Known]]] = {
    # kind, direction, implementation, dtypes, layout, post-ops, calls, milliseconds, FLOPs, bytes
    "onednn-1.0": (
        "1.0.4",
        "Intel AVX2",
        [
            (
                *("convolution", "FWD_D", "jit:avx2", "f32"),
                *("src:aBcd8b wei:ABcd8b8a bia:a dst:aBcd8b", ""),
                *(1, 0.25, 2 * 2 * 16 * 7 * 7 * 16 * 5 * 5),
                4 * (2 * 2 * 16 * 7 * 7 + 16 * 16 * 5 * 5 + 16),
            ),
            (
                *("reorder", "", "jit:uni", "f32", "src:abcd dst:aBcd8b", ""),
                *(1, 0.5, None, 2 * 4 * 2 * 16 * 7 * 7),
            ),
        ],
    ),
    "onednn-1.6": (
        "1.6.5",
        "Intel AVX-512 with Intel DL Boost",
        [
            (
                *("convolution", "FWD_D", "jit:avx512_common", "f32"),
                *("src:abcd wei:Acdb16a dst:aBcd16b", "eltwise_relu"),
                *(2, 56.0, 2 * 32 * 64 * 112 * 112 * 3 * 7 * 7),
                4 * (32 * 3 * 224 * 224 + 3 * 64 * 49 + 32 * 64 * 112 * 112),
            )
        ],
    ),
    "onednn-2.7-timestamps": (
        "2.7.3",
        AMX,
        [
            (
                *("inner_product", "BWD_W", "brgemm:avx512_core_amx", "bf16"),
                *("src:ab wei:AB16b64a2b dst:ab", ""),
                *(1, 0.75, 2 * 64 * 1024 * 4096),
                2 * (64 * 1024 + 1024 * 4096 + 64 * 4096),
            ),
            (
                *("matmul", "", "brg:avx512_core_amx_int8", "s8:f32"),
                *("src:ab wei:ba dst:ab", "eltwise_relu"),
                *(1, 1.5, 2 * 256 * 11008 * 4096),
                256 * 11008 + 11008 * 4096 + 4 * 256 * 4096,
            ),
        ],
    ),
    "onednn-3.3": (
        "3.3.2",
        "Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions",
        [
            (
                *("convolution", "FWD_D", "brgconv:avx512_core", "f32"),
                *("src:acdb wei:Acdb16a bia:a dst:acdb", ""),
                *(1, 1.25, 2 * 50 * 6 * 110 * 110 * 3 * 3 * 3),
                4 * (50 * 3 * 112 * 112 + 3 * 6 * 9 + 6 + 50 * 6 * 110 * 110),
            ),
            (
                *("eltwise", "BWD_D", "jit:avx512_core", "f32", "data:abcd diff:abcd", ""),
                *(1, 0.125, None, 3 * 4 * 2 * 16 * 4 * 4),
            ),
        ],
    ),
    "onednn-3.7": (
        "3.7.2",
        "Intel AVX-512 with Intel DL Boost and bfloat16 support",
        [
            (
                *("convolution", "BWD_D", "jit_bf16:avx512_core_bf16", "bf16"),
                *("src:acdb wei:aBCde2b4c2b dst:acdb", ""),
                *(1, 0.0, 2 * 2 * 16 * 28 * 28 * 4 * 9),
                2 * (2 * 16 * 30 * 30 + 16 * 4 * 9 + 2 * 16 * 28 * 28),
            ),
            (
                *("inner_product", "BWD_D", "brgemm_bwd_d:avx512_core_bf16", "bf16"),
                *("src:ab wei:AB8b32a2b dst:ab", ""),
                *(1, 0.0, 2 * 2 * 12544 * 32, 2 * (2 * 12544 + 12544 * 32 + 2 * 32)),
            ),
            (
                *("inner_product", "BWD_W", "brgemm_bwd_w:avx512_core_bf16", "bf16"),
                *("src:ab wei:AB8b32a2b bia:a dst:ab", ""),
                *(1, 0.0, 2 * 2 * 12544 * 32, 2 * (2 * 12544 + 12544 * 32 + 32 + 2 * 32)),
            ),
        ],
    ),
}


@pytest.mark.parametrize("name", GENERATIONS)
def test_a_log_of_each_generation_is_read_exactly(name: str) -> None:
    library, isa, known = GENERATIONS[name]
    profile = import_file(LOGS / f"{name}.log")
    assert profile.summary.libraries == (library,)
    assert profile.summary.isa == isa
    assert profile.summary.skipped == 0
    recorded = name == "onednn-3.7"  # times as they were; the others are written by hand
    found = [
        (
            *(row.primitive, row.direction, row.implementation, row.data_types, row.layout),
            *(row.post_ops, row.calls, 0.0 if recorded else pytest.approx(row.seconds * 1e3)),
            *(row.flops, row.bytes),
        )
        for row in profile.primitives
    ]
    assert sorted(found, key=lambda row: row[:3]) == known


def test_a_recorded_log_of_3_12_is_read_exactly() -> None:
    profile = import_file(LOGS / "onednn-3.12.log")
    lines = (LOGS / "onednn-3.12.log").read_text().splitlines()
    times = [float(line.rpartition(",")[2]) for line in lines if ",exec," in line]
    assert sum(row.seconds for row in profile.primitives) == pytest.approx(sum(times) * 1e-3)
    assert sum(row.calls for row in profile.primitives) == len(times) == 20
    shares = {(t.primitive, t.direction): t.calls for t in profile.summary.top}
    assert shares == {
        ("convolution", "BWD_W"): 2,
        ("convolution", "BWD_D"): 1,
        ("convolution", "FWD_D"): 2,
        ("reorder", ""): 13,
        ("matmul", ""): 2,
    }
    matmul = next(row for row in profile.primitives if row.problem == "4x64:64x32")
    assert (matmul.parameters, matmul.post_ops) == ({"b": 1, "m": 4, "k": 64, "n": 32}, "sum")


def test_parameters_are_those_of_the_paper_s_table() -> None:
    body = (
        "cpu,convolution,brg_conv_fwd:avx10_1_512_amx,forward_training,"
        "src:bf16::blocked:acdeb::f0 wei:bf16:ap:blocked:AcdB16b64a2b::f0 bia:undef::undef::: "
        "dst:bf16::blocked:acdeb::f0,attr-scratchpad:user attr-post-ops:sum+eltwise_relu,"
        "alg:convolution_direct,g2mb3_ic8oc6_id9od4kd3sd2dd0pd1_ih7oh7kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1"
    )
    found = primitive_of(body)
    assert found
    assert found.implementation == "brg_conv_fwd:avx10_1_512_amx"
    assert (found.algorithm, found.post_ops) == ("convolution_direct", "sum+eltwise_relu")
    expected = {"g": 2, "mb": 3, "ic": 8, "oc": 6, "id": 9, "od": 4, "kd": 3, "sd": 2, "pd": 1}
    assert expected.items() <= found.parameters.items()
    assert found.flops() == 2 * 3 * 6 * (8 / 2) * (4 * 7 * 5) * 27


def test_torn_and_foreign_lines_are_skipped_with_a_count_and_the_first() -> None:
    good = (LOGS / "onednn-3.12.log").read_bytes()
    foreign = b"epoch 1, exec, loss 0.5\nonednn_verbose,v1,primitive,exec,cpu,convolu\n"
    interleaved = b"step onednn_verbose,v1,primitive,exec,cpu,reorder,jit,undef,a,b,c,d,0.1\n"
    torn = good[: good.rindex(b",")]
    facts = LogFacts()
    found = totals(io.BytesIO(good + foreign + interleaved + b"\n" + torn), facts)
    assert sum(total.calls for total in found.values()) == 20 + 19
    assert facts.skipped == 4
    assert facts.example == "epoch 1, exec, loss 0.5"


def line_by_line(log: bytes) -> tuple[dict[bytes, list[float]], int]:
    """Read a log the plain way: milliseconds by body, and how many lines tell of no execution."""
    found: dict[bytes, list[float]] = {}
    others = 0
    for line in log.split(b"\n"):
        head, _, rest = line.partition(b",exec,")
        body, _, time = rest.rpartition(b",")
        is_time = re.fullmatch(rb"(\d+\.?\d*|\.\d+)\r?", time) and len(time) < LONGEST_TIME
        is_told = re.match(rb"(onednn|dnnl|mkldnn)_verbose", head) and body.count(b",") in (6, 7)
        if is_told and is_time and float(time) < 86.4e6:
            found.setdefault(body, []).append(float(time))
        else:
            others += bool(line.strip())
    return found, others


@pytest.mark.parametrize("chunk_bytes", [1000, 4096, CHUNK_BYTES])
def test_torn_logs_are_read_as_line_by_line(chunk_bytes: int) -> None:
    lines = [line for p in sorted(LOGS.glob("*.log")) for line in p.read_bytes().splitlines()]
    assert max(map(len, lines)) < 480, "torn, twice as long at most: a chunk holds it"
    random = Random(0)
    for _ in range(40):
        chosen = [torn(line, random) for line in random.choices(lines, k=60)]
        log = random.choice([b"\n", b"\r\n"]).join(chosen) + random.choice([b"", b"\n"])
        facts = LogFacts()
        found = totals(io.BytesIO(log), facts, chunk_bytes=chunk_bytes)
        expected, others = line_by_line(log)
        assert {body: total.calls for body, total in found.items()} == {
            body: len(times) for body, times in expected.items()
        }
        for body, total in found.items():
            known = expected[body]
            assert total.seconds == pytest.approx(sum(known) * 1e-3)
            assert (total.least, total.most) == pytest.approx((min(known) / 1e3, max(known) / 1e3))
        assert facts.told + facts.skipped == others


def torn(line: bytes, random: Random) -> bytes:
    """Leave a line as it is, or take out, double or change a piece of it."""
    start = random.randrange(len(line) + 1)
    end = random.randrange(start, len(line) + 1)
    piece = random.choice(
        [
            b"",
            line[start:end] * 2,
            b",exec,",
            b",",
            b"nan",
            b"\xff",
            b"9" * 30,
            b"onednn_verbatim,exec,",
        ]
    )
    return line[:start] + piece + line[end:] if random.random() < 0.5 else line


def test_logs_of_several_releases_are_read_together(tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.log"
    mixed.write_bytes(b"".join(p.read_bytes() for p in sorted(LOGS.glob("*.log"))))
    profile = import_file(mixed)
    assert len(profile.summary.libraries) == 6
    assert profile.summary.skipped == 0
    assert profile.summary.notes[0].startswith("logs of several releases of oneDNN: 1.0.4, 1.6.5")
    assert sum(row.calls for row in profile.primitives) == 2 + 2 + 2 + 20 + 2 + 3


def test_timestamps_are_seconds_since_the_epoch() -> None:
    with (LOGS / "onednn-2.7-timestamps.log").open("rb") as file:
        heads = [head for head, _, _ in executions(file, LogFacts())]
    assert [started_s(head) for head in heads] == [1693533460.193346924, 1693533460.1965]
    assert started_s(b"onednn_verbose,v1,primitive") is None


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"", "it is empty"),
        (b"\n \n", "it is empty"),
        (b"hello\n", "its first other line is 'hello'"),
        (
            b"onednn_verbose,v1,info,oneDNN v3.7.2 (commit N/A)\n",
            'the log contains no "primitive,exec" line',
        ),
        (b"\x1f\x8b\x08garbage", "cannot read "),
        (b'{"traceEvents": [{"ph": "X", "cat": "gpu", "name": "x"}]}', "it has no events"),
        (b'{"traceEvents": [{"ph"', "broken JSON"),
        (b'["a", "b"]', "it has no events"),
        (b"[1, 2]", 'the log contains no "primitive,exec" line'),
    ],
)
def test_a_file_without_a_profile_is_one_clear_line(
    tmp_path: Path, content: bytes, seen: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ProfileUnreadable, match=seen) as caught:
        import_file(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "onednn_verbose," + 200_000 * "1" + "\n",
        "onednn_verbose,info,oneDNN v" + 200_000 * "1" + "\n",
        "onednn_verbose,info,cpu,isa:" + 200_000 * "x" + "\n",
        f"onednn_verbose,exec,{CONVOLUTION.rpartition(',')[0]},{200_000 * 'a'},1\n",
        f"onednn_verbose,exec,{CONVOLUTION.rpartition(',')[0]},{200_000 * '1'},1\n",
    ],
)
def test_a_long_line_takes_no_hours(line: str) -> None:
    """Each took minutes to days, where a search began anew at every character."""
    facts = LogFacts()
    for body in totals(io.BytesIO(line.encode()), facts):
        if primitive := primitive_of(body.decode()):
            assert primitive.parameters == {}
    assert started_s(line.encode()) is None
    assert all(len(name) <= 40 for name in facts.libraries)
    assert len(facts.isa or "") <= 200


def test_very_many_releases_are_not_kept() -> None:
    lines = "".join(f"onednn_verbose,info,oneDNN v3.{n}\n" for n in range(1000))
    facts = LogFacts()
    totals(io.BytesIO(lines.encode()), facts)
    assert len(facts.libraries) == MOST_KINDS


def test_of_very_many_primitives_the_rest_is_added_up() -> None:
    bodies = [CONVOLUTION.replace("mb2", f"mb{n}") for n in range(1, 21)]
    log = "".join(f"onednn_verbose,exec,{body},1.5\n" for body in bodies * 3).encode()
    facts = LogFacts()
    found = totals(io.BytesIO(log), facts, most_bodies=10)
    assert {body.decode(): total.calls for body, total in found.items()} == dict.fromkeys(
        bodies[:10], 3
    )
    assert facts.beyond.calls == 30
    assert facts.beyond.seconds == pytest.approx(0.045)
    (note,) = facts.notes
    assert note.startswith("30 executions, of 0.045 s, are in no row")


def test_lines_longer_than_any_buffer_take_no_memory() -> None:
    facts = LogFacts()
    good = (LOGS / "onednn-3.12.log").read_bytes()
    found = totals(io.BytesIO(b"x" * 5_000_000 + b"\n" + good), facts)
    assert sum(total.calls for total in found.values()) == 20
    assert facts.skipped >= 1
    assert facts.example == "x" * 160


# In a process of its own, whose memory is the parser's alone. Writes calls, the best of three rates
# in MB per second of CPU time, and the peak of memory in bytes.
READ_LARGE = """
import json, os, sys, time
from controller.profiles.verbose import LogFacts, totals
rates = []
for _ in range(3):
    started = time.process_time()
    with open(sys.argv[1], "rb") as file:
        found = totals(file, LogFacts())
    rates.append(os.path.getsize(sys.argv[1]) / (time.process_time() - started) / 1e6)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
calls = sum(total.calls for total in found.values())
print(json.dumps([calls, max(rates), int(status["VmHWM"].split()[0]) * 1024]))
"""


def test_a_log_of_four_times_the_size_takes_the_same_memory(tmp_path: Path, figure: Figure) -> None:
    lines = (LOGS / "onednn-3.12.log").read_bytes().splitlines(keepends=True)
    block = b"".join(line for line in lines if b",exec," in line) * 1000

    def read(blocks: int) -> tuple[int, float, int]:
        path = tmp_path / f"{blocks}.log"
        path.write_bytes(block * blocks)
        command = [sys.executable, "-P", "-c", READ_LARGE, str(path)]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        calls, rate, peak = json.loads(told.stdout)
        return calls, rate, peak

    (few, _, small), (many, rate, large) = read(4), read(16)
    assert (few, many) == (80_000, 320_000)
    figure("MB/s of a core, reading a oneDNN log", rate, "150")
    figure("peak memory in MB, reading a oneDNN log", large / 1e6, "100")
    assert large - small < len(block) * 12 / 4, "a quarter of what is more to read"
