"""Advice: a planted fault is named first, none without it, and never more than the step."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host.launch import WITHOUT_AMX
from controller.contracts.advice import Advised, Rule
from controller.contracts.base import Scalar
from controller.contracts.counters import Counters, OtherMalloc, PhaseCounts
from controller.contracts.peaks import Peaks
from controller.contracts.profile import ProfileOrigin
from controller.profiles.advising.advise import LEAST_SHARE, advise, predict_alone
from controller.profiles.advising.claims import knob
from controller.profiles.advising.fusing import FUSED, OF_COPY, OF_UPDATE
from controller.profiles.advising.proving import predictions_of
from controller.profiles.advising.units import LEFT_TO_ONEDNN
from controller.profiles.model import KernelRow, Place, PrimitiveRow, Profile
from controller.profiles.parts import parts_of
from controller.reports.advice_lines import advice_lines
from tests.support.planted_profile import Rows, convolution, kernel, primitive, profile, up_to

PLAIN = '["float", "float", "Scalar"]'
Facts = Mapping[str, Scalar | tuple[Scalar, ...] | None]
KNOBS: Mapping[str, Scalar] = {
    "precision": "fp32",
    "memory_format": "channels_last",
    "malloc": "glibc-tuned",
    "threads": 0,
    "skip_frozen": True,
    "trainable_stages": 3,
    "frozen_bn": "fused",
    "fused_optimizer": True,
    "focal_loss": "fused",
    "matching": "fused",
    "packed_levels": True,
}
FACTS: Facts = {"cores": 2, "affinity": (0, 1), "isa": ("avx", "avx2"), "settings": ()}


@dataclass(frozen=True)
class Case:
    """A fault: rows that it adds to a step, and what else of the profile it is seen in."""

    rows: Rows = field(default_factory=list)
    knobs: Mapping[str, Scalar] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)
    threads: int = 2
    load_s: float | None = None
    stack: str = "torch"
    bf16: bool = False
    peaks: Peaks | None = None
    counters: Counters | None = None


def clean_step(*, bf16: bool) -> Rows:
    """Return a step of 0.5 s in which no rule finds anything."""
    kind, told = ("bf16", '["c10::BFloat16"]') if bf16 else ("f32", '["float"]')
    return [
        *convolution("backbone.body.layer2.0.conv1", 0.2, dtype=kind),
        *convolution("backbone.body.layer3.0.conv1", 0.2, "backward", dtype=kind),
        kernel("aten::mm", 0.05, module="head", dtypes=told),
        kernel("aten::_fused_adam_", 0.02, phase="optimizer"),
        kernel("aten::sigmoid", 0.01, phase="loss"),
    ]


def planted(case: Case) -> Profile:
    rows = [*clean_step(bf16=case.bf16), *case.rows]
    made = profile(rows, load_s=case.load_s)
    origin = ProfileOrigin(
        workload="net",
        stack=case.stack,
        threads=case.threads,
        knobs={**KNOBS, "precision": "bf16" if case.bf16 else "fp32", **case.knobs},
        environment={**FACTS, **case.facts},
    )
    told = {"origin": origin, "peaks": case.peaks, "counters": case.counters}
    return replace(made, summary=made.summary.model_copy(update=told))


def counted(minor_faults: float, system_s: float = 0.1) -> Counters:
    """Return what was counted in a forward pass of 0.25 s, and in a quiet backward pass."""
    quiet = PhaseCounts(
        phase="backward",
        seconds=0.2,
        minor_faults=20.0,
        major_faults=0.0,
        voluntary_switches=0.0,
        involuntary_switches=0.0,
        user_s=0.4,
        system_s=0.0,
    )
    faults = {"minor_faults": minor_faults, "system_s": system_s}
    busy = quiet.model_copy(update={"phase": "forward", "seconds": 0.25, **faults})
    return Counters(steps=3, phases=(busy, quiet))


def reallocated(
    low: float | None, high: float | None, notes: tuple[str, ...] = (), minor_faults: float = 20.0
) -> Counters:
    """Return counts of steps that take low to high times as long as with another malloc."""
    times = 1.0 if low is None or high is None else (low + high) / 2
    other = OtherMalloc(malloc="jemalloc", times=times, low=low, high=high, pairs=9, notes=notes)
    return counted(minor_faults).model_copy(update={"other_malloc": other})


def unevenly(cpu_s: float, loss_s: float = 0.2, notes: tuple[str, ...] = ()) -> Counters:
    """Return what was counted in a step whose loss has used so much CPU time in 0.2 s."""
    forward, backward = counted(20.0).phases
    told = {"phase": "loss", "seconds": loss_s, "user_s": cpu_s, "system_s": 0.0}
    loss = forward.model_copy(update=told)
    return Counters(steps=3, phases=(forward, loss, backward), notes=notes)


def reorders(layout: str, seconds: float, data_types: str = "f32") -> Rows:
    (row, _) = convolution("backbone.body.layer2.0.conv1", 0.0)
    told = {"direction": "", "layout": layout, "data_types": data_types}
    return [primitive(row.place, "reorder", seconds, calls=9.0, **told)]


def repacked(layout: str, implementation: str = "simple:any", roof_s: float | None = None) -> Rows:
    """Return reorders of 0.1 s; roof_s: what the roofline lets a call take."""
    return [
        replace(row, implementation=implementation, attainable_s=roof_s)
        for row in reorders(layout, 0.1)
        if isinstance(row, PrimitiveRow)
    ]


def copies(dtypes: str, **told: str) -> Rows:
    """Return copies inside a convolution; dtypes: of target and source."""
    row = kernel("aten::conv2d", 0.1, calls=9.0, dtypes=dtypes, **told)
    return [replace(row, place=replace(row.place, kernel="aten::copy_"))]


def laid_out(target: list[int], source: list[int], size: tuple[int, ...] = (8, 64, 1, 4)) -> Rows:
    """Return copies of a type and size; of target and source, the strides."""
    sizes = json.dumps([size, size, []])
    return copies(PLAIN, dims=sizes, strides=json.dumps([target, source, []]))


def kernels(
    op: str, seconds: float, calls: float = 1.0, bytes_: float | None = None, **told: str
) -> Rows:
    return [replace(kernel(op, seconds, calls=calls, **told), bytes=bytes_)]


def tiny_products(module: str = "head.cls") -> Rows:
    """Return matrix products of 50 µs that the roofline lets take 1 µs."""
    rows = kernels("aten::addmm", 0.1, calls=2000.0, module=module)
    return [replace(row, attainable_s=1e-6) for row in rows]


def taps(module: str = "head.cls", dtype: str = "f32", **parameters: int) -> Rows:
    """Return a convolution of 0.3 s, of 3x3 taps unless told, with a reorder of 0.03 s."""
    rows = convolution(module, 0.3, dtype=dtype)
    told = {"kh": 3, "kw": 3, "sh": 1, "sw": 1, **parameters}
    reorder = primitive(rows[0].place, "reorder", 0.03, direction="", layout="src:ab dst:BA16b")
    return [
        *(replace(row, parameters=told) if isinstance(row, PrimitiveRow) else row for row in rows),
        reorder,
    ]


def rounded(rows: Rows, attributes: str = "attr-fpmath:bf16") -> Rows:
    """Return products outside and inside oneDNN, these in a mode of arithmetic."""
    return [replace(r, attributes=attributes) if isinstance(r, PrimitiveRow) else r for r in rows]


def of_tensors(*sizes: int, kernel_name: str = "aten::addcmul") -> Rows:
    """Return a kernel on tensors of so many MiB each, in fp32."""
    dims = json.dumps([[mib * 2**18] for mib in sizes])
    types = json.dumps(["float"] * len(sizes))
    return kernels(kernel_name, 0.1, bytes_=sum(sizes) * 2.0**20, dims=dims, dtypes=types)


DIRECT: Mapping[str, Scalar] = {"head_convolutions": "convolution"}
WHOLE_S = 0.482
"""All parts of a clean step."""
FP32_ISLAND = convolution("head.cls", 0.15)
AVX512: Facts = {"isa": ("avx", "avx2", "avx512f")}
AMX = {"isa": ("avx512f", "avx512_bf16", "amx_bf16")}
LIMITED = {"settings": tuple(f"{name}={value}" for name, value in WITHOUT_AMX.items())}
HOLLOW: Facts = {
    "isa": ("avx512f", "avx512_bf16"),
    "isa_unusable": ("amx_bf16", "amx_tile"),
    **LIMITED,
}
"""A virtual machine that announces AMX without its tiles, where benchfarm sets the limit."""
ASK = (
    "ask for AMX's tiles: another type of virtual machine, or CPUID leaves 1DH and 1EH from its "
    "host"
)
SHAPES = "have channels in multiples of 32, as AMX's tiles do; ONEDNN_VERBOSE=dispatch says why not"
PEAKS = Peaks(gemm_flops={"f32": 1e11, "bf16": 4e11}, copy_bytes=1e10)
UPDATED = PEAKS.model_copy(update={"update_bytes": 2e10})
EMULATED = Peaks(gemm_flops={"f32": 1e11, "bf16": 2e10}, copy_bytes=1e10)
FROZEN = {"skip_frozen": False}


LARGE: Facts = {"cores": 16, "logical_cpus": 32, "affinity": tuple(range(32))}
SMT: Facts = {"cores": 32, "logical_cpus": 64, "affinity": (0, 1, 32, 33)}
"""Two cores, or four, of a host whose cores have two logical processors each."""


def in_bf16(seconds: float, implementation: str, bytes_: float | None = None, **sizes: int) -> Rows:
    """Return a convolution in bf16 of some implementation."""
    kernel_row, row = convolution("head.cls", seconds, dtype="bf16", implementation=implementation)
    assert isinstance(row, PrimitiveRow)
    return [kernel_row, replace(row, bytes=bytes_, parameters=sizes)]


WITHOUT = "brg_conv_fwd:avx512_core_bf16"
WITH = "brg_conv_fwd:avx10_1_512_amx"
ON_AMX = [
    replace(row, implementation=WITH) if isinstance(row, PrimitiveRow) else row
    for row in clean_step(bf16=True)
]
UPDATE = kernels("aten::mul_", 0.18, phase="optimizer", bytes_=4e7)
"""Beside it, 20 ms of other kernels."""
LOSS = [
    *kernels("aten::exp", 0.1, phase="loss", bytes_=1e8),
    *kernels("ExpBackward0", 0.09, phase="backward"),
    *kernels("CompiledFunctionBackward", 0.05, phase="backward"),
    *kernels("ExpBackward0", 0.05, phase="backward", module="head"),
]
"""Beside it, 10 ms of a sigmoid. The last two are no gradients of the loss."""
SLOW, FAST = OF_COPY

FAULTS: Mapping[str, tuple[Case, Rule, str]] = {
    "layout": (
        Case(reorders("src:abcd dst:aBcd8b", 0.1), {"memory_format": "contiguous"}),
        Rule.LAYOUT,
        "memory_format=channels_last",
    ),
    "forced reorder": (
        Case(reorders("src:abcd dst:aBcd8b", 0.1)),
        Rule.REORDERS,
        "keep tensors in the layout and type in which the next primitive reads them",
    ),
    "forced copies": (
        Case(copies('["float", "float", "Scalar"]')),
        Rule.REORDERS,
        "keep tensors in the layout and type in which the next primitive reads them",
    ),
    "copies into channels-last": (
        Case(laid_out([256, 1, 64, 64], [256, 4, 4, 1])),
        Rule.REORDERS,
        "keep tensors in the layout and type in which the next primitive reads them",
    ),
    "there and back": (
        Case(kernels("aten::to_mkldnn", 0.1, 40.0)),
        Rule.REORDERS,
        "keep tensors in the layout and type in which the next primitive reads them",
    ),
    "weights reordered": (
        Case(
            reorders("src:abcd dst:ABcd8b8a", 0.1),
            {"memory_format": "contiguous", "ipex_optimize": False},
            AVX512,
        ),
        Rule.REORDERS,
        "ipex_optimize=true",
    ),
    "weights packed for another input": (
        Case(repacked("src:Acdb16a dst:Acdb24a"), {"ipex_optimize": True}, stack="ipex"),
        Rule.PACKED_WEIGHTS,
        "ipex_optimize=false",
    ),
    "fp32 island": (
        Case(FP32_ISLAND, bf16=True),
        Rule.FALLBACK,
        "let these operations run in bf16: cast their inputs, or widen autocast",
    ),
    "bf16 unused": (Case(facts=AMX), Rule.PRECISION, "precision=bf16"),
    "instruction set hidden": (
        Case(facts={"settings": ("ONEDNN_MAX_CPU_ISA=SSE41",)}),
        Rule.HIDDEN_ISA,
        "unset ONEDNN_MAX_CPU_ISA",
    ),
    "instruction set hidden from a CPU without AMX's tiles": (
        Case(facts={**HOLLOW, "settings": ("ONEDNN_MAX_CPU_ISA=AVX2",)}),
        Rule.HIDDEN_ISA,
        "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16: more ends in SIGILL without AMX's tiles",
    ),
    "AMX hidden by the hypervisor": (
        Case(in_bf16(0.3, WITHOUT, bytes_=1e8), facts=HOLLOW, bf16=True, peaks=PEAKS),
        Rule.HIDDEN_ISA,
        ASK,
    ),
    "AMX unused": (
        Case(in_bf16(0.3, WITHOUT), facts=AMX, bf16=True),
        Rule.AMX_UNUSED,
        SHAPES,
    ),
    "denormals": (
        Case(knobs={"flush_denormals": False}, facts={"denormal_share": 0.002}),
        Rule.DENORMALS,
        "flush_denormals=true",
    ),
    "denormals, no knob": (
        Case(facts={"denormal_share": 0.5}),
        Rule.DENORMALS,
        "call torch.set_flush_denormal(True) before the first operation",
    ),
    "idle threads": (
        Case(kernels("aten::sort", 0.2, phase="loss"), counters=unevenly(0.22)),
        Rule.IDLE_THREADS,
        "give all threads work there: larger batches, or operators that use every thread",
    ),
    "unfrozen frozen stage": (
        Case(convolution("backbone.body.layer1.0.conv1", 0.1, "backward"), FROZEN),
        Rule.FROZEN,
        "skip_frozen=true",
    ),
    "unfused norms": (
        Case(
            [
                *kernels("aten::mul", 0.05, module="backbone.body.bn1"),
                *kernels("MulBackward0", 0.05, module="backbone.body.bn1", phase="backward"),
            ],
            {"frozen_bn": "mul_add"},
        ),
        Rule.NORMS,
        "frozen_bn=fused",
    ),
    "ReLU": (
        Case(kernels("aten::relu", 0.1, module="act")),
        Rule.RELU,
        "fuse it into the operation before",
    ),
    "optimizer": (
        Case(knobs={"fused_optimizer": False}),
        Rule.OPTIMIZER,
        "fused_optimizer=true",
    ),
    "loss": (
        Case(kernels("aten::exp", 0.1, phase="loss"), {"focal_loss": "reference"}),
        Rule.LOSS,
        "focal_loss=fused",
    ),
    "matching": (
        Case(kernels("aten::max", 0.1, phase="loss"), {"matching": "reference"}),
        Rule.LOSS,
        "matching=fused",
    ),
    "tiny": (
        Case(tiny_products(), {"packed_levels": False}),
        Rule.TINY,
        "packed_levels=true",
    ),
    "3x3 convolutions in heads": (
        Case(taps(), DIRECT),
        Rule.DIRECT,
        "head_convolutions=winograd",
    ),
    "other malloc": (
        Case(of_tensors(12, 40, 12), {"malloc": "glibc"}),
        Rule.MALLOC,
        "malloc=glibc-tuned",
    ),
    "other malloc, an output above 32 MiB": (
        Case(
            kernels(
                "aten::mul",
                0.1,
                bytes_=32776.0,
                dims="[[4096, 1], [4096]]",
                dtypes='["float", "float"]',
            ),
            {"malloc": "glibc"},
        ),
        Rule.MALLOC,
        "malloc=glibc-tuned",
    ),
    "other malloc, faults counted": (
        Case(knobs={"malloc": "glibc"}, counters=counted(50_000)),
        Rule.MALLOC,
        "malloc=glibc-tuned",
    ),
    "other malloc, measured": (
        Case(knobs={"malloc": "glibc"}, counters=reallocated(1.02, 1.05)),
        Rule.MALLOC,
        "malloc=jemalloc",
    ),
    "other malloc, compared too roughly, faults counted": (
        Case(knobs={"malloc": "glibc"}, counters=reallocated(0.8, 1.3, minor_faults=50_000)),
        Rule.MALLOC,
        "malloc=glibc-tuned",
    ),
    "other malloc, compared on a disturbed machine, faults counted": (
        Case(
            knobs={"malloc": "glibc"},
            counters=reallocated(0.98, 1.02, ("disturbed",), minor_faults=50_000),
        ),
        Rule.MALLOC,
        "malloc=glibc-tuned",
    ),
    "other malloc, too few pairs, faults counted": (
        Case(knobs={"malloc": "glibc"}, counters=reallocated(None, None, minor_faults=50_000)),
        Rule.MALLOC,
        "malloc=glibc-tuned",
    ),
    "page faults": (
        Case(counters=counted(1000)),
        Rule.PAGE_FAULTS,
        "keep tensors for the next step instead of allocating them anew",
    ),
    "page faults, small pages": (
        Case(knobs={"huge_pages": False}, counters=counted(50_000)),
        Rule.PAGE_FAULTS,
        "huge_pages=true",
    ),
    "page faults, a malloc without huge pages": (
        Case(knobs={"malloc": "tcmalloc", "huge_pages": False}, counters=counted(50_000)),
        Rule.PAGE_FAULTS,
        "malloc=jemalloc",
    ),
    "fragmentation": (
        Case(kernels("aten::neg", 0.1, calls=20000.0)),
        Rule.FRAGMENTATION,
        "stack torch-compile",
    ),
    "one thread fewer": (Case(threads=1), Rule.THREADS, "threads=2"),
    "a thread more": (Case(threads=3), Rule.THREADS, "threads=2"),
    "sleeping": (
        Case(
            [
                KernelRow(
                    place=Place(phase="forward", kernel="sleep"), calls=1, self_s=0.1, total_s=0.1
                )
            ]
        ),
        Rule.WAITING,
        "do other work meanwhile, or don't wait in the step",
    ),
    "sleeping loader": (
        Case(load_s=0.3),
        Rule.LOADING,
        "load batches beside the step, or decode faster",
    ),
    "loader without processes": (
        Case(load_s=0.3, knobs={"loader_workers": 0, "decoder": "pillow"}),
        Rule.LOADING,
        "loader_workers=1",
    ),
    "loader with a slow decoder": (
        Case(load_s=0.3, knobs={"loader_workers": 2, "decoder": "pillow"}),
        Rule.LOADING,
        "decoder=turbojpeg",
    ),
    "loader of images that are decoded": (
        Case(load_s=0.3, knobs={"loader_workers": 2, "decoder": "pillow", "cache": "files"}),
        Rule.LOADING,
        "decoder=turbojpeg",
    ),
    "loader of images that are not decoded": (
        Case(load_s=0.3, knobs={"loader_workers": 2, "decoder": "pillow", "cache": "resized"}),
        Rule.LOADING,
        "load batches beside the step",
    ),
    "loader inside the step": (
        Case(kernels("aten::copy_", 0.1, phase="load")),
        Rule.LOADING,
        "load batches beside the step, or decode faster",
    ),
}


def _without_fused(case: Case) -> Profile:
    """Return the planted profile; a plain optimizer has other kernels than a fused one."""
    made = planted(case)
    if case.knobs.get("fused_optimizer") is not False:
        return made
    place = Place(phase="optimizer", op="aten::addcmul_", kernel="aten::addcmul_")
    rows = [
        replace(row, place=place, calls=300.0) if FUSED in row.place.kernel else row
        for row in made.kernels
    ]
    return replace(made, kernels=tuple(rows))


@pytest.mark.parametrize(("case", "rule", "remedy"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("size", [1.0, 0.1, 10.0], ids=["as is", "small model", "large model"])
def test_what_was_planted_is_named_first(case: Case, rule: Rule, remedy: str, size: float) -> None:
    made = _without_fused(case)
    if size != 1.0 and rule not in (Rule.TINY, Rule.FRAGMENTATION):  # of absolute times
        made = scaled(made, size)
    found = advise(made)
    assert found.advice[0].rule is rule
    assert str(found.advice[0].remedy) == remedy


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        (Rule.REORDERS, Case(reorders("src:abcd dst:Acdb16a", 0.1))),
        (Rule.LAYOUT, Case(reorders("src:abcd dst:aBcd8b", 0.1), {"memory_format": "contiguous"})),
        (Rule.NORMS, Case(kernels("aten::mul", 0.1, module="bn1"), {"frozen_bn": "mul_add"})),
        (Rule.LOSS, Case(kernels("aten::log", 0.1, phase="loss"), {"focal_loss": "reference"})),
        (Rule.FALLBACK, Case(FP32_ISLAND, bf16=True)),
        (Rule.TINY, Case([replace(row, attainable_s=1e-9) for row in tiny_products()])),
        (Rule.HIDDEN_ISA, Case(in_bf16(0.3, WITHOUT, 1.0), facts=HOLLOW, peaks=PEAKS, bf16=True)),
        (Rule.MALLOC, Case(of_tensors(64), {"malloc": "glibc"})),
    ],
)
def test_many_calls_are_no_power_of_ten(rule: Rule, case: Case) -> None:
    many = [replace(row, calls=1_234_567.0) for row in case.rows]
    (found,) = (one for one in advise(planted(replace(case, rows=many))).advice if one.rule is rule)
    assert re.search(r"\b1,234,56[7-9]\b", found.evidence), "of the step, two may be among them"


def scaled(made: Profile, factor: float) -> Profile:
    """Return the profile of a model that takes a multiple of the time."""
    summary = made.summary
    told = {
        "step_s": (summary.step_s or 0.0) * factor,
        "load_s": summary.load_s * factor if summary.load_s else None,
    }
    return Profile(
        summary.model_copy(update=told),
        tuple(
            replace(row, self_s=row.self_s * factor, primitive_s=row.primitive_s * factor)
            for row in made.kernels
        ),
        tuple(replace(row, seconds=row.seconds * factor) for row in made.primitives),
    )


LAID = "keep tensors in the layout and type in which the next primitive reads them"
FUSE_RELU = "fuse it into the operation before"
PACK = "compute several at once, for example with a larger batch"
UNFUSED = {"frozen_bn": "mul_add"}
NORM = kernels("aten::mul", 0.05, module="backbone.body.layer1.0.bn1")
ADAM = kernels("aten::addcmul_", 0.2, calls=20000.0, phase="optimizer")
SHORT = [
    *kernels("aten::neg", 0.06, calls=6000.0, module="head"),
    *kernels("NegBackward0", 0.04, calls=4000.0, module="head", phase="backward"),
]
LEVELS: Mapping[str, Scalar] = {"packed_levels": False, "head_convolutions": "convolution"}


def relu_of(module: str, seconds: float = 0.1) -> Rows:
    """Return ReLU forward and backward of so many seconds."""
    each = kernels("aten::relu_", seconds / 2, module=module)
    return [*each, *kernels("ReluBackward0", seconds / 2, module=module, phase="backward")]


REMEDIES: Mapping[str, tuple[Case, Mapping[str, float]]] = {
    "an optimizer's loop stays eager in a compiled model": (
        Case(
            [*ADAM, *kernels("aten::neg", 0.02, calls=2000.0, module="head")],
            {"fused_optimizer": False},
        ),
        {"fused_optimizer=true": 0.22},
    ),
    "a compiled model's own passes": (
        Case([*ADAM, *SHORT], {"fused_optimizer": False}),
        {"fused_optimizer=true": 0.22, "stack torch-compile": 0.1},
    ),
    "a loss and its gradients stay eager in a compiled model": (
        Case(
            [
                *kernels("aten::neg", 0.1, calls=10000.0, phase="loss"),
                *kernels("NegBackward0", 0.1, calls=10000.0, phase="backward"),
            ]
        ),
        {},
    ),
    "a switch that torchvision's RetinaNet refuses": (
        Case(
            kernels("aten::neg", 0.3, calls=100.0, phase="loss"),
            {"implementation": "torchvision", "focal_loss": "reference", "matching": "reference"},
        ),
        {},
    ),
    "fragments elsewhere do not hide the optimizer": (
        Case(
            [*ADAM, *kernels("aten::neg", 0.1, calls=9000.0)],
            {"fused_optimizer": False},
            stack="ipex",
        ),
        {"fused_optimizer=true": 0.22, "fuse them": 0.1},
    ),
    "weights stay plain without AVX-512": (
        Case(reorders("src:abcd dst:ABcd8b8a", 0.1), {"ipex_optimize": False}),
        {LAID: 0.1},
    ),
    "what packing weights leaves": (
        Case(
            [
                *reorders("src:abcd dst:ABcd8b8a", 0.05),
                *reorders("src:ABcd8b8a dst:abcd", 0.05),
                *reorders("src:abcd dst:aBcd8b", 0.05),
                *reorders("src:abcd dst:ABcd8b8a", 0.05, "f32:bf16"),
                *copies('["float", "float", "Scalar"]'),
            ],
            {"ipex_optimize": False},
            AVX512,
        ),
        {"ipex_optimize=true": 0.1, LAID: 0.2},
    ),
    "ReLU without a norm before": (
        Case([*NORM, *relu_of("head.classification_head.conv.0.1")], UNFUSED),
        {"frozen_bn=fused": 0.05, FUSE_RELU: 0.1},
    ),
    "ReLU behind a norm": (
        Case([*NORM, *relu_of("backbone.body.layer1.0"), *relu_of("backbone.fpn")], UNFUSED),
        {"frozen_bn=fused": 0.15, FUSE_RELU: 0.1},
    ),
    "ReLU where norms are folded": (
        Case(relu_of("backbone.body.layer1.0"), {"frozen_bn": "folded"}),
        {FUSE_RELU: 0.1},
    ),
    "tiny products outside the heads": (
        Case([*tiny_products(), *tiny_products("backbone.fpn")], LEVELS),
        {"packed_levels=true": 0.098, PACK: 0.098},
    ),
    "3x3 convolutions in heads, and their reorders": (
        Case([*taps(), *taps("backbone.fpn")], DIRECT),
        {"head_convolutions=winograd": 0.75 * 0.3 + 0.03, LAID: 0.03},
    ),
    "heads as matrix products": (
        Case(tiny_products(), {**LEVELS, "head_convolutions": "matmul"}),
        {PACK: 0.098},
    ),
}


@pytest.mark.parametrize(("case", "seconds"), REMEDIES.values(), ids=REMEDIES)
def test_a_remedy_is_credited_with_what_it_changes(
    case: Case, seconds: Mapping[str, float]
) -> None:
    """Remedies, and the most that they save: none of what they leave as it is."""
    found: dict[str, float] = {}
    for one in advise(_without_fused(case)).advice:
        found[str(one.remedy)] = found.get(str(one.remedy), 0.0) + one.high_s
    assert found == pytest.approx(dict(seconds))


@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
def test_a_clean_step_gets_no_advice(bf16: bool) -> None:
    found = advise(planted(Case(bf16=bf16)))
    assert found.advice == ()
    assert advice_lines(found, 3)[-1].startswith("no advice: no rule finds anything in ")


def test_an_update_of_masters_is_a_fused_one() -> None:
    knobs = {name: value for name, value in KNOBS.items() if name != "fused_optimizer"}
    clean = planted(Case())
    update = kernel("benchfarm::adam_step", 0.02, phase="optimizer")
    rows = tuple(update if row.place.phase == "optimizer" else row for row in clean.kernels)
    assert clean.summary.origin is not None
    origin = clean.summary.origin.model_copy(update={"knobs": knobs})
    summary = clean.summary.model_copy(update={"origin": origin})
    assert advise(replace(clean, kernels=rows, summary=summary)).advice == ()


ALIKE: Mapping[str, tuple[Case, Rule]] = {
    "fp32 where it is asked for": (Case(FP32_ISLAND), Rule.FALLBACK),
    "bf16 that is emulated": (Case(facts=AMX, peaks=EMULATED), Rule.PRECISION),
    "a CPU without bf16": (Case(), Rule.PRECISION),
    "ISA not limited": (
        Case(facts={"settings": ("ONEDNN_MAX_CPU_ISA=DEFAULT",)}),
        Rule.HIDDEN_ISA,
    ),
    "a limit that keeps oneDNN from tiles that are hidden, in fp32": (
        Case(facts=HOLLOW, peaks=PEAKS),
        Rule.HIDDEN_ISA,
    ),
    "hidden tiles, nothing told of what moves": (
        Case(in_bf16(0.3, WITHOUT, bytes_=1e8), facts=HOLLOW, bf16=True),
        Rule.HIDDEN_ISA,
    ),
    "copies into another type": (
        Case(copies('["c10::BFloat16", "float", "Scalar"]')),
        Rule.REORDERS,
    ),
    "a copy into the same layout": (
        Case(laid_out([256, 4, 4, 1], [256, 4, 4, 1])),
        Rule.REORDERS,
    ),
    "a copy whose only other stride is of one element": (
        Case(laid_out([256, 4, 4, 1], [256, 4, 1, 1])),
        Rule.REORDERS,
    ),
    "products that a mode rounds to bf16": (
        Case([*rounded(FP32_ISLAND)], bf16=True),
        Rule.FALLBACK,
    ),
    "weights that ipex.optimize has not packed": (
        Case(repacked("src:Acdb16a dst:Acdb24a"), {"ipex_optimize": False}),
        Rule.PACKED_WEIGHTS,
    ),
    "a stack without packed weights": (
        Case(repacked("src:Acdb16a dst:Acdb24a")),
        Rule.PACKED_WEIGHTS,
    ),
    "weights that generated code packs": (
        Case(repacked("src:Acdb16a dst:Acdb24a", "jit:uni"), {"ipex_optimize": True}),
        Rule.PACKED_WEIGHTS,
    ),
    "weights from the plain layout": (
        Case(repacked("src:abcd dst:Acdb24a"), {"ipex_optimize": True}),
        Rule.PACKED_WEIGHTS,
    ),
    "activations in blocks": (
        Case(repacked("src:aBcd8b dst:aBcd16b"), {"ipex_optimize": True}),
        Rule.PACKED_WEIGHTS,
    ),
    "activations channels-last": (
        Case(repacked("src:acdb dst:aBcd8b"), {"ipex_optimize": True}),
        Rule.PACKED_WEIGHTS,
    ),
    "weights of groups are no activations": (
        Case(reorders("src:abcde dst:aBdec16b", 0.1), {"memory_format": "contiguous"}),
        Rule.LAYOUT,
    ),
    "packed weights are no other reorders": (
        Case(repacked("src:Acdb16a dst:Acdb24a"), {"ipex_optimize": True}),
        Rule.REORDERS,
    ),
    "a copy that was asked for": (Case(kernels("aten::copy_", 0.1)), Rule.REORDERS),
    "AMX used": (Case(in_bf16(0.3, WITH), facts=AMX, bf16=True), Rule.HIDDEN_ISA),
    "bf16 on a CPU without AMX": (
        Case(in_bf16(0.3, WITHOUT), facts={"isa": ("avx512_bf16",)}, bf16=True),
        Rule.AMX_UNUSED,
    ),
    "bf16 with AMX's tiles hidden": (
        Case(in_bf16(0.3, WITHOUT), facts=HOLLOW, bf16=True),
        Rule.AMX_UNUSED,
    ),
    "bf16 under a limit of one's own": (
        Case(in_bf16(0.3, WITHOUT), facts={**AMX, **LIMITED}, bf16=True),
        Rule.AMX_UNUSED,
    ),
    "products in fp32 with AMX": (Case(facts=AMX), Rule.AMX_UNUSED),
    "few denormals": (
        Case(knobs={"flush_denormals": False}, facts={"denormal_share": 0.0009}),
        Rule.DENORMALS,
    ),
    "denormals that are flushed": (
        Case(knobs={"flush_denormals": True}, facts={"denormal_share": 0.5}),
        Rule.DENORMALS,
    ),
    "threads that hardly idle": (
        Case(kernels("aten::sort", 0.2, phase="loss"), counters=unevenly(0.31)),
        Rule.IDLE_THREADS,
    ),
    "one thread": (
        Case(kernels("aten::sort", 0.2, phase="loss"), threads=1, counters=unevenly(0.1)),
        Rule.IDLE_THREADS,
    ),
    "a core for two threads": (
        Case(
            kernels("aten::sort", 0.2, phase="loss"),
            facts={"affinity": (0,)},
            counters=unevenly(0.2),
        ),
        Rule.IDLE_THREADS,
    ),
    "threads that others kept from their cores": (
        Case(
            kernels("aten::sort", 0.2, phase="loss"), counters=unevenly(0.2, notes=("disturbed",))
        ),
        Rule.IDLE_THREADS,
    ),
    "threads while all wait": (
        Case(
            [
                *kernels("aten::sort", 0.1, phase="loss"),
                KernelRow(
                    place=Place(phase="loss", kernel="sleep"), calls=1, self_s=0.1, total_s=0.1
                ),
            ],
            counters=unevenly(0.2),
        ),
        Rule.IDLE_THREADS,
    ),
    "all stages learn": (
        Case(
            convolution("backbone.body.layer1.0.conv1", 0.1, "backward"),
            {**FROZEN, "trainable_stages": 5},
        ),
        Rule.FROZEN,
    ),
    "a stage that learns": (Case(knobs=FROZEN), Rule.FROZEN),
    "mul elsewhere": (Case(kernels("aten::mul", 0.1, module="head")), Rule.NORMS),
    "threads of one core": (
        Case(threads=2, facts={"cores": 1, "affinity": (0, 1)}),
        Rule.THREADS,
    ),
    "cores unknown": (Case(threads=1, facts={"cores": None}), Rule.THREADS),
    "as many as a quota lets run": (
        Case(threads=2, facts={**LARGE, "cpu_quota": 2.5}),
        Rule.THREADS,
    ),
    "a quota of less than one": (Case(threads=1, facts={**LARGE, "cpu_quota": 0.5}), Rule.THREADS),
    "a thread that is bound to a core": (Case(facts={"affinity": (0,)}), Rule.THREADS),
    "small tensors": (
        Case(of_tensors(1, 1, 1), {"malloc": "glibc"}),
        Rule.MALLOC,
    ),
    "small tensors, large together": (
        Case(of_tensors(12, 12, 12), {"malloc": "glibc"}),
        Rule.MALLOC,
    ),
    "views of large tensors": (
        Case(
            [replace(row, bytes=None) for row in of_tensors(64, kernel_name="aten::view")],
            {"malloc": "glibc"},
        ),
        Rule.MALLOC,
    ),
    "large tensors that were not faulted in": (
        Case(of_tensors(64), {"malloc": "glibc"}, counters=counted(900)),
        Rule.MALLOC,
    ),
    "another malloc that is not quicker": (
        Case(knobs={"malloc": "glibc"}, counters=reallocated(0.98, 1.02)),
        Rule.MALLOC,
    ),
    "another malloc that is slower": (
        Case(knobs={"malloc": "glibc"}, counters=reallocated(0.8, 0.9)),
        Rule.MALLOC,
    ),
    "page faults that another malloc is no quicker without": (
        Case(knobs={"malloc": "glibc"}, counters=reallocated(0.98, 1.02, minor_faults=50_000)),
        Rule.MALLOC,
    ),
    "another malloc, compared too roughly": (
        Case(knobs={"malloc": "glibc"}, counters=reallocated(0.8, 1.3)),
        Rule.MALLOC,
    ),
    "few page faults": (Case(counters=counted(999)), Rule.PAGE_FAULTS),
    "page faults that cost nothing": (
        Case(counters=counted(50_000, system_s=0.0)),
        Rule.PAGE_FAULTS,
    ),
    "short conversions": (
        Case(kernels("aten::to_mkldnn", 0.1, calls=10000.0)),
        Rule.FRAGMENTATION,
    ),
    "long kernels": (Case(kernels("aten::neg", 0.1, calls=100.0)), Rule.FRAGMENTATION),
    "short products near the roof": (
        Case([replace(row, attainable_s=4e-5) for row in kernels("aten::mm", 0.1, calls=2000.0)]),
        Rule.TINY,
    ),
    "3x3 convolutions of which nothing tells the knob": (Case(taps()), Rule.DIRECT),
    "3x3 convolutions by Winograd": (
        Case(taps(), {"head_convolutions": "winograd"}),
        Rule.DIRECT,
    ),
    "3x3 convolutions elsewhere": (Case(taps("backbone.fpn"), DIRECT), Rule.DIRECT),
    "convolutions of 1x1": (Case(taps(kh=1, kw=1), DIRECT), Rule.DIRECT),
    "3x3 convolutions of every second cell": (Case(taps(sh=2, sw=2), DIRECT), Rule.DIRECT),
    "3x3 convolutions in groups": (Case(taps(g=32), DIRECT), Rule.DIRECT),
    "3x3 convolutions that fell back to fp32": (Case(taps(), DIRECT, bf16=True), Rule.DIRECT),
    "3x3 convolutions in bf16": (Case(taps(dtype="bf16"), DIRECT, bf16=True), Rule.DIRECT),
    "reorders in heads": (Case(reorders("src:abcd dst:BA16b", 0.1), DIRECT), Rule.DIRECT),
    "hardly any loading": (Case(load_s=0.001), Rule.LOADING),
}


@pytest.mark.parametrize(("case", "rule"), ALIKE.values(), ids=ALIKE)
def test_what_only_looks_like_a_fault_is_none(case: Case, rule: Rule) -> None:
    assert rule not in [advice.rule for advice in advise(planted(case)).advice]


LSTM: Rows = [
    replace(kernel("aten::mkldnn_rnn_layer", 0.2), primitive_s=0.2),
    primitive(Place(op="aten::lstm", phase="forward"), "rnn", 0.2),
]


@pytest.mark.parametrize(
    ("case", "seconds"),
    [
        # f32 and bf16 differ by 4 in peak: of 0.45 s in products, a half to three quarters. Of 2 ms
        # of torch around them, half at most, since tensors have half the bytes.
        (Case(facts=AMX, peaks=PEAKS), (0.5 * 0.45, 0.75 * 0.45 + 0.001)),
        # An LSTM of 0.2 s may gain half as much as products.
        (Case(LSTM, facts=AMX, peaks=PEAKS), (0.225, 0.75 * 0.45 + 0.001 + 0.375 * 0.2)),
        # Twice as fast at most where no peak is known.
        (Case(facts=AMX), (0.0, 0.5 * 0.45 + 0.001)),
        # Work that falls away: all of 0.101 s but for the noise of a step.
        (
            Case(convolution("backbone.body.layer1.0.conv1", 0.1, "backward"), FROZEN),
            (0.0909, 0.101),
        ),
        # Two threads for one: half of all that computes.
        # Long products, 0.45 s, gain at least 0.6 of what a second thread can.
        (Case(threads=1), (0.135, 0.241)),
        # 64 MiB are read in 6.7 ms at 10 GB/s.
        (
            Case(of_tensors(64), {"malloc": "glibc"}, peaks=PEAKS),
            (0.0, 0.1 - 2**26 / 1e10),
        ),
        # Of an update of 0.2 s, Adam's seven passes over 40 MB remain.
        (
            Case(UPDATE, {"fused_optimizer": False, "optimizer": "adam"}, peaks=PEAKS),
            (0.2 - 0.028 / SLOW, 0.2 - 0.028 / FAST),
        ),
        (
            Case(UPDATE, {"fused_optimizer": False, "optimizer": "adam"}, peaks=UPDATED),
            (0.2 - 0.014 / OF_UPDATE[0], 0.2 - 0.014 / OF_UPDATE[1]),
        ),
        # No optimizer that is known, and no speed of a copy: nothing tells what remains.
        (Case(UPDATE, {"fused_optimizer": False, "optimizer": "adagrad"}, peaks=PEAKS), (0.0, 0.2)),
        (Case(UPDATE, {"fused_optimizer": False, "optimizer": "adam"}), (0.0, 0.2)),
        # Of a loss and its gradients, 0.2 s: 100 MB read and as many written, and 0.11 s of maths.
        (
            Case(LOSS, {"focal_loss": "reference"}, peaks=PEAKS),
            (0.2 - 0.02 / SLOW - 0.11, 0.2 - 0.02 / FAST),
        ),
        # Its calls are of one image each.
        (
            Case(LOSS, {"focal_loss": "reference", "batch_size": 3}, peaks=PEAKS),
            (max(0.0, 0.2 - 0.06 / SLOW - 0.11), 0.2 - 0.06 / FAST),
        ),
        # A fifth to half of all parts of the step.
        (
            Case(knobs={"malloc": "glibc"}, counters=reallocated(1.25, 2.0)),
            (0.2 * WHOLE_S, 0.5 * WHOLE_S),
        ),
        (
            Case(knobs={"malloc": "glibc"}, counters=reallocated(1.25, 2.0, ("disturbed",))),
            (0.0, 0.5 * WHOLE_S),
        ),
        # The kernel has 0.1 of 0.25 s of a forward pass, whose parts take 0.251 s.
        (Case(knobs={"malloc": "glibc"}, counters=counted(50_000)), (0.0, 0.4 * 0.251)),
    ],
    ids=[
        *("peaks", "recurrent", "no peaks", "frozen", "threads", "malloc"),
        *(
            "update",
            "update under its own peak",
            "update of an unknown optimizer",
            "update, no peaks",
            "loss",
            "loss of three images",
        ),
        *("another malloc", "another malloc, disturbed"),
        "page faults",
    ],
)
def test_intervals(case: Case, seconds: tuple[float, float]) -> None:
    first = advise(_without_fused(case)).advice[0]
    assert (first.low_s, first.high_s) == pytest.approx(seconds)
    assert first.predicted_s == pytest.approx(sum(seconds) / 2)


@pytest.mark.parametrize(
    "layouts",
    ["aBdec16b aBdec24b", "aBCde8c8b aBCde8b8c", "Acdb24a Bcda24b", "ABcd8b8a ABcd8a8b"],
)
def test_weights_are_told_by_their_layouts(layouts: str) -> None:
    """Of groups, and for gradients of inputs, they begin otherwise."""
    before, after = layouts.split()
    case = Case(repacked(f"src:{before} dst:{after}"), {"ipex_optimize": True})
    assert advise(planted(case)).advice[0].rule is Rule.PACKED_WEIGHTS


@pytest.mark.parametrize(
    ("case", "rule", "seconds"),
    [
        # 100 MB are moved in 10 ms at 10 GB/s, and nothing tells how fast AMX would be.
        (
            Case(in_bf16(0.3, WITHOUT, bytes_=1e8), facts=HOLLOW, bf16=True, peaks=PEAKS),
            Rule.HIDDEN_ISA,
            (0.0, 0.29),
        ),
        # Weights then come from the plain layout, at about the roofline's 9 × 4 ms of these 0.1 s.
        (
            Case(repacked("src:ABcd8b8a dst:Acdb24a", "ref:any", 0.004), {"ipex_optimize": True}),
            Rule.PACKED_WEIGHTS,
            (0.0, 0.064),
        ),
        # Where they are most of a step, hardly anything else counts.
        (
            Case(repacked("src:ABcd8b8a dst:Acdb24a") * 5, {"ipex_optimize": True}),
            Rule.PACKED_WEIGHTS,
            (0.45, 0.5),
        ),
        # Those of a thread too many are not known to: a third of all that computes.
        (Case(threads=3), Rule.THREADS, (0.0, 0.482 / 3)),
        # Four logical processors may be two cores.
        (Case(facts=SMT), Rule.THREADS, (0.0, 0.482 / 2)),
        # All of the machine's are twice as many as its cores; and without SMT, each is a core.
        (
            Case(facts={"cores": 4, "logical_cpus": 8, "affinity": tuple(range(8))}),
            Rule.THREADS,
            (0.6 * 0.45 / 2, 0.482 / 2),
        ),
        (
            Case(facts={"cores": 32, "logical_cpus": 32, "affinity": (0, 1, 2, 3)}),
            Rule.THREADS,
            (0.6 * 0.45 / 2, 0.482 / 2),
        ),
        # Depthwise convolutions have no work for tiles; of the clean step, 0.4 s are convolutions.
        (
            Case(in_bf16(0.3, WITHOUT, g=32, ic=32, oc=32), facts=AMX, bf16=True),
            Rule.AMX_UNUSED,
            (0.0, 0.4),
        ),
        # Of 2 threads, 1.1 worked in a loss of 0.2 s, of which the clean step has 10 ms.
        (
            Case(kernels("aten::sort", 0.19, phase="loss"), counters=unevenly(0.22)),
            Rule.IDLE_THREADS,
            (0.0, 0.45 * 0.2),
        ),
        # No phase has a thread and a half to spare of two: one always works.
        (
            Case(kernels("aten::sort", 0.19, phase="loss"), counters=unevenly(0.05)),
            Rule.IDLE_THREADS,
            (0.0, 0.5 * 0.2),
        ),
        # All that computes: not the 2 ms that torch has around oneDNN's convolutions.
        (Case(facts={"denormal_share": 0.5}), Rule.DENORMALS, (0.0, 0.48)),
        # AVX-512 and AMX take denormal factors in bf16 for zero by themselves.
        (
            Case(facts={"denormal_share": 0.5, "isa": ("avx512_bf16",)}, bf16=True),
            Rule.DENORMALS,
            (0.0, 0.03),
        ),
        # Nor do products in fp32 take longer for them on an EPYC.
        (
            Case(facts={"denormal_share": 0.5, "cpu_vendor": "AuthenticAMD"}),
            Rule.DENORMALS,
            (0.0, 0.03),
        ),
    ],
    ids=[
        *("hidden AMX", "packed weights", "mostly packed weights", "a thread more"),
        *("maybe SMT siblings", "all of a host with SMT", "a part of a host without", "AMX unused"),
        *("idle", "idle at most"),
        *("denormals", "denormals in bf16", "denormals on an EPYC"),
    ],
)
def test_intervals_of_units(case: Case, rule: Rule, seconds: tuple[float, float]) -> None:
    (found,) = (advice for advice in advise(planted(case)).advice if advice.rule is rule)
    assert (found.low_s, found.high_s) == pytest.approx(seconds)


@pytest.mark.parametrize("settings", [LIMITED["settings"], (), ("ONEDNN_MAX_CPU_ISA=AVX2",)])
@pytest.mark.parametrize("bf16", [False, True])
def test_a_limit_that_prevents_sigill_is_never_to_be_unset(
    settings: tuple[str, ...], bf16: bool
) -> None:
    """OneDNN dies of SIGILL without it, where a hypervisor hides AMX's tiles."""
    case = Case(
        in_bf16(0.3, WITHOUT, bytes_=1e8),
        facts={**HOLLOW, "settings": settings},
        bf16=bf16,
        peaks=PEAKS,
    )
    found = advise(planted(case)).advice
    assert [str(a.remedy) for a in found if "unset" in str(a.remedy)] == []
    assert Rule.HIDDEN_ISA in [advice.rule for advice in found]


def test_the_limit_is_that_of_the_launcher() -> None:
    assert WITHOUT_AMX == {"ONEDNN_MAX_CPU_ISA": LEFT_TO_ONEDNN}


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (SMT, "threads 1, logical processors 4"),
        ({**SMT, "logical_cpus": 32}, "threads 1, cores 4"),
        ({"logical_cpus": 4, "affinity": (0, 1, 2, 3)}, "threads 1, cores 2"),
        ({**LARGE, "cpu_quota": None}, "threads 1, cores 16"),
        ({**LARGE, "cpu_quota": 40.0}, "threads 1, cores 16"),
        ({**LARGE, "cpu_quota": 2.0}, "threads 1, CPU quota 2"),
    ],
)
def test_evidence_of_threads_says_what_they_are_fewer_than(facts: Facts, told: str) -> None:
    found = advise(planted(Case(threads=1, facts=facts))).advice
    assert [one.evidence for one in found if one.rule is Rule.THREADS] == [told]


@pytest.mark.parametrize(("threads", "quota"), [(16, 4), (32, 20)])
def test_threads_beyond_a_quota_are_too_many(threads: int, quota: int) -> None:
    """Up to it, those beyond the cores are as good as they are without one."""
    facts = {**LARGE, "cpu_quota": float(quota)}
    found = advise(planted(Case(threads=threads, facts=facts))).advice
    (one,) = (one for one in found if one.rule is Rule.THREADS)
    assert one.evidence == f"threads {threads}, CPU quota {quota}"
    assert one.remedy == knob("threads", quota)
    assert one.low_s == 0.0


def test_bf16_is_not_unused_where_products_round_to_it() -> None:
    made = planted(Case(facts=AMX, peaks=PEAKS))
    products = rounded(list(made.primitives))
    others = [row for row in made.kernels if row.place.kernel != "aten::mm"]
    rules = [
        one.rule
        for one in advise(replace(profile([*others, *products]), summary=made.summary)).advice
    ]
    assert Rule.PRECISION not in rules
    made = planted(Case(rounded(convolution("head.cls", 0.1)), facts=AMX, peaks=PEAKS))
    (found,) = (one for one in advise(made).advice if one.rule is Rule.PRECISION)
    assert found.evidence.startswith("3 products run in fp32")


@pytest.mark.parametrize(("seconds", "is_told"), [(0.0096, False), (0.0104, True)])
def test_what_is_predicted_to_save_less_than_a_hundredth_is_not_told(
    seconds: float, is_told: bool
) -> None:
    """Of a step of 0.5 s, ReLU takes twice what is predicted to be saved of it."""
    made = planted(Case(kernels("aten::relu", seconds, module="act")))
    found = [one for one in advise(made).advice if one.rule is Rule.RELU]
    assert bool(found) is is_told
    assert all(one.share >= LEAST_SHARE for one in found)


@pytest.mark.parametrize("text", ["float", "[" * 200_000, f"[{'9' * 6000}]", '{"a": 1}', "[1e400]"])
def test_inputs_that_are_damaged_are_no_fault(text: str) -> None:
    texts = {"dims": text, "dtypes": text, "strides": text, "values": text}
    names = ("aten::mm", "aten::convolution_backward")
    rows = [replace(kernel(name, 0.1, **texts), bytes=2.0**26) for name in names]
    case = Case(
        [*rows, *copies(text, dims=text, strides=text)], {"malloc": "glibc"}, AMX, peaks=PEAKS
    )
    assert advise(planted(case)).advice


def test_evidence_of_idle_threads_has_the_phase_that_idles_most() -> None:
    case = Case(kernels("aten::sort", 0.19, phase="loss"), counters=unevenly(0.22))
    (found,) = advise(planted(case)).advice
    assert found.evidence == (
        "threads sleep for 180 ms of a core in a step, most in loss, where 1.1 of 2 work; those "
        "that spin count as working"
    )


def test_evidence_of_fragmentation_is_of_the_model() -> None:
    rows = [*ADAM, *kernels("aten::neg", 0.3, calls=30000.0, module="head", bytes_=1e3)]
    moved = kernels("aten::exp", 0.01, phase="loss", bytes_=1e9)
    found = advise(planted(Case([*rows, *moved]))).advice
    (told,) = (one.evidence for one in found if one.rule is Rule.FRAGMENTATION)
    assert told == (
        "50.4 kernels per ms; those of the model under 20 µs take 30% of the time; "
        "most bytes to fuse: head 30.0 MB"
    )


def test_lines_have_change_seconds_interval_and_evidence() -> None:
    case = Case(reorders("src:abcd dst:aBcd8b", 0.1), {"memory_format": "contiguous"}, threads=1)
    lines = advice_lines(advise(planted(case)), 1)
    assert lines == [
        "note: peaks are not known: predictions take all of the time as avoidable",
        "predicted to save 238 ms of 582 ms a step, if all is done",
        "−213 ms [135 ms, 291 ms], 36.6%  threads: threads=2",
        "  threads 1, cores 2",
        "and 1 more",
    ]


def test_a_profile_that_is_not_valid_says_so_first() -> None:
    made = planted(Case(threads=1))
    told = {"validity": "DISTURBED", "reasons": ("other processes ran",)}
    found = advise(replace(made, summary=made.summary.model_copy(update=told)))
    assert found.validity == "DISTURBED"
    assert advice_lines(found, 1)[0] == "note: the profile is DISTURBED: other processes ran"


def test_an_imported_log_is_advised_in_words() -> None:
    (row,) = reorders("src:abcd dst:aBcd8b", 0.1)
    assert isinstance(row, PrimitiveRow)
    summary = profile([]).summary.model_copy(update={"origin": None, "steps": None, "step_s": None})
    found = advise(Profile(summary, (), (replace(row, place=Place()),)))
    assert (found.per_step, found.whole_s) == (False, 0.1)
    assert [str(advice.remedy) for advice in found.advice] == ["use channels-last"]
    assert found.notes[0] == "knobs are not known: what could be one is advised in words"


def test_an_empty_profile_gets_no_advice() -> None:
    assert advise(profile([])).advice == ()


NORMS_AND_RELU = Case(
    [*kernels("aten::mul", 0.08, module="net.bn1"), *relu_of("net", 0.1)],
    {"frozen_bn": "mul_add", "malloc": "glibc", "threads": 0},
    threads=1,
    counters=counted(50_000),
)
"""A step of 0.662 s with one thread of two; malloc takes 0.4 of the forward pass of 0.381 s."""
NORM_IN_RELU = KernelRow(
    place=Place(phase="forward", module="net.bn1", op="aten::relu", kernel="aten::mul"),
    calls=1,
    self_s=0.1,
    total_s=0.1,
)
ALONE: Mapping[str, tuple[Case, Mapping[str, tuple[float, float]]]] = {
    "malloc beside a thread too few": (
        Case(knobs={"malloc": "glibc"}, threads=1, counters=counted(50_000)),
        {"threads=2": (0.135, 0.241), "malloc=glibc-tuned": (0.0, 0.1004)},
    ),
    "two rules of one change": (
        NORMS_AND_RELU,
        {
            "threads=2": (0.135, 0.331),
            "frozen_bn=fused": (0.0, 0.18),
            "malloc=glibc-tuned": (0.0, 0.4 * 0.381),
        },
    ),
    "two rules of one change that see the same time": (
        Case([*kernels("ReluBackward0", 0.1, module="net.bn1"), NORM_IN_RELU]),
        {"fuse it into the operation before": (0.0, 0.2)},
    ),
    "no advice": (Case(), {}),
}


@pytest.mark.parametrize(("case", "seconds"), ALONE.values(), ids=ALONE)
def test_what_is_to_be_proven_is_predicted_of_each_change_alone(
    case: Case, seconds: Mapping[str, tuple[float, float]]
) -> None:
    made = planted(case)
    found = predict_alone(made)
    assert {str(one.remedy): (one.low_s, one.high_s) for one in found} == {
        name: pytest.approx(interval) for name, interval in seconds.items()
    }
    whole_s = advise(made).whole_s
    for one in found:
        assert one.share == pytest.approx(one.predicted_s / whole_s)
    assert [one.predicted_s for one in found] == sorted(
        (one.predicted_s for one in found), reverse=True
    )


def test_a_change_of_two_rules_is_predicted_before_the_list_is_cut() -> None:
    """Either rule alone would come after malloc."""
    first, second, _ = predict_alone(planted(NORMS_AND_RELU))
    assert (str(first.remedy), str(second.remedy)) == ("threads=2", "frozen_bn=fused")
    assert second.rules == (Rule.NORMS, Rule.RELU)


def drawn() -> st.SearchStrategy[Rows]:
    """Return some rows of all faults, each any number of times as long."""
    rows: Sequence[KernelRow | PrimitiveRow] = [
        row for case, _, _ in FAULTS.values() for row in case.rows
    ]
    return st.lists(st.builds(_as_long, st.sampled_from(rows), up_to(100)), max_size=15)


def _as_long(row: KernelRow | PrimitiveRow, factor: float) -> KernelRow | PrimitiveRow:
    if isinstance(row, PrimitiveRow):
        return replace(row, seconds=row.seconds * factor)
    return replace(row, self_s=row.self_s * factor, primitive_s=row.primitive_s * factor)


FAULTY_KNOBS = {name: of for case, _, _ in FAULTS.values() for name, of in case.knobs.items()}


@given(
    drawn(),
    st.sets(st.sampled_from(sorted(FAULTY_KNOBS))),
    st.integers(1, 4),
    st.one_of(st.none(), up_to(10)),
    st.floats(0.1, 2.0),
    st.sampled_from([None, PEAKS, EMULATED]),
)
def test_all_advice_together_saves_no_more_than_the_step(
    rows: Rows,
    wrong: set[str],
    threads: int,
    load_s: float | None,
    of_step: float,
    peaks: Peaks | None,
) -> None:
    knobs = {name: FAULTY_KNOBS[name] for name in wrong}
    made = planted(Case(rows, knobs, {**AMX}, threads, load_s, peaks=peaks))
    own_s = sum(part.seconds for part in parts_of(made))
    told = {"step_s": own_s * of_step}  # ops on several threads come to more than the step
    altered = replace(made, summary=made.summary.model_copy(update=told))
    found = advise(altered)
    assert sum(advice.high_s for advice in found.advice) <= found.whole_s * (1 + 1e-9)
    assert _is_ranked(found)
    about_the_step = [one.high_s for one in found.advice if one.rule is not Rule.LOADING]
    assert altered.summary.step_s
    assert sum(about_the_step) <= altered.summary.step_s * (1 + 1e-9)
    least_s = LEAST_SHARE * found.whole_s * (1 - 1e-9)
    assert all(change.predicted_s >= least_s for change in predictions_of(found.advice))
    assert all(advice.predicted_s > 0 for advice in found.advice)
    predictions = predict_alone(altered)
    alone = {one.remedy: one for one in predictions}
    assert len(alone) == len(predictions)
    assert alone.keys() == {advice.remedy for advice in found.advice}
    assert all(one.high_s <= found.whole_s * (1 + 1e-9) for one in alone.values())
    assert all(advice.high_s <= alone[advice.remedy].high_s * (1 + 1e-9) for advice in found.advice)


def _is_ranked(found: Advised) -> bool:
    seconds = [advice.predicted_s for advice in found.advice]
    return seconds == sorted(seconds, reverse=True)
