"""What is stored of two sides, compared: verdicts, the choice of results, unlike environments."""

from __future__ import annotations

import pytest

from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.device import DeviceKind
from controller.contracts.errors import NotFound, UserError
from controller.contracts.facts import Equal, FactKind, OwnFact
from controller.contracts.pair import Pair
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Measurement, Validity
from controller.contracts.sweep import PairedCandidate, Side
from controller.contracts.units import Unit
from controller.reports.comparability import difference
from controller.reports.comparison import compare_pairs, compare_runs
from controller.reports.result_selection import Wanted, choose, stray_knob
from controller.reports.sides import sides_of

CATALOG = load_catalog()
HOST: Environment = {"cpu_model": "Xeon", "kernel": "6.1", "torch": "2.13.0", "threads": 2}


def stored(
    seconds: float = 1.0,
    *,
    run_id: str = "r",
    stack: str = "torch",
    versus: PairedCandidate | None = None,
    pairs: tuple[Pair, ...] = (),
    environment: Environment | None = None,
    device: str = "cpu-1",
    validity: Validity = Validity.VALID,
    **knobs: Scalar,
) -> StoredResult:
    name = "step_time_a" if versus else "step_time"
    return StoredResult(
        run_id=run_id,
        sweep_id="s",
        cell_key="k",
        repeat=0,
        attempt=1,
        device=device,
        device_kind=DeviceKind.CPU_HOST,
        virtual=False,
        workload="w",
        stack=stack,
        scenario="training",
        knobs={"precision": "fp32", "size": 256, **knobs},
        versus=versus,
        started_at=0.0,
        counted=True,
        validity=validity,
        reasons=() if validity is Validity.VALID else ("too loud",),
        metrics={name: Measurement.of_samples((seconds, seconds * 1.01), Unit.SECONDS)},
        environment={**HOST, **(environment or {})},
        artefacts={},
        pairs=pairs,
    )


def paired(ratio: float = 1.5, count: int = 12, run_id: str = "p", **knobs: Scalar) -> StoredResult:
    """Return a comparison of fp32 with bf16, which takes 1 / ratio of the time."""
    pairs = tuple(
        Pair(a=(1.0 + n % 3 / 1000,), b=((1.0 + n % 3 / 1000) / ratio,), a_first=n % 2 == 0)
        for n in range(count)
    )
    shared: dict[str, Scalar] = {"precision": "fp32", "size": 256, **knobs}
    versus = PairedCandidate(stack="torch", knobs={**shared, "precision": "bf16"})
    result = stored(run_id=run_id, versus=versus, pairs=pairs)
    return result.model_copy(update={"knobs": shared})


def wanted(
    a: str = "torch:precision=fp32",
    b: str = "torch:precision=bf16",
    device: str | None = None,
    **knobs: Scalar,
) -> Wanted:
    return Wanted(
        Side.model_validate(a), Side.model_validate(b), "w", "training", knobs, device
    )  # fmt: skip


def test_pairs_are_compared_with_what_both_sides_share_beside() -> None:
    found = compare_pairs([paired(1.5)], CATALOG)
    assert (found.a, found.b) == ("torch:precision=fp32", "torch:precision=bf16")
    assert found.ratio == pytest.approx(1.5)
    assert found.ratio_low is not None
    assert found.ratio_high is not None
    assert found.ratio_low <= 1.5 <= found.ratio_high
    assert found.verdict.startswith("B is 1.50× faster")
    assert (found.outcome, found.asked_width) == ("b_faster", 0.03)
    assert (found.pairs, found.metric, found.knobs) == (12, "step_time", {"size": 256})
    assert found.value_b == pytest.approx(found.value_a / 1.5)
    assert found.environment == HOST


def paired_knobs(
    workload: str, a: dict[str, Scalar], b: dict[str, Scalar], ratio: float, **told: Measurement
) -> StoredResult:
    """Return a comparison in which side B's step takes 1 / ratio of the time."""
    result = paired(ratio)
    assert result.versus
    return result.model_copy(
        update={
            "workload": workload,
            "knobs": a,
            "versus": result.versus.model_copy(update={"knobs": b}),
            "metrics": {**result.metrics, **told},
        }
    )


def test_steps_of_unlike_batches_are_compared_by_samples_per_second() -> None:
    """B's step has twice the samples and takes 1.6 times as long: it trains faster."""
    rate = Measurement(value=2.0, unit=Unit.IMAGES_PER_SECOND)
    small: dict[str, Scalar] = {"batch_size": 2}
    large: dict[str, Scalar] = {"batch_size": 4}
    one = paired_knobs("resnet18", small, large, 1 / 1.6, throughput_a=rate)
    found = compare_pairs([one], CATALOG)
    assert found.outcome == "b_faster"
    assert found.ratio == pytest.approx(2 / 1.6)
    assert found.ratio_low is not None
    assert found.ratio_high is not None
    assert found.ratio_low <= 1.25 <= found.ratio_high
    assert (found.metric, found.unit) == ("throughput", Unit.IMAGES_PER_SECOND)
    assert found.value_b == pytest.approx(found.value_a * 1.25)
    assert found.verdict.startswith("B is 1.25")
    assert found.verdict.endswith("; by images/s, since batch_size is 2 and 4")
    assert found.other_work == ()
    turned = compare_pairs([one], CATALOG, (sides_of(one)[1], sides_of(one)[0]))
    assert turned.ratio == pytest.approx(0.8)
    assert turned.verdict.startswith("A is 1.25")


def test_separate_runs_of_unlike_batches_are_compared_by_samples_per_second() -> None:
    ours = [stored(seconds, batch_size=2) for seconds in (1.0, 1.01)]
    theirs = [stored(seconds, batch_size=4) for seconds in (1.6, 1.61)]
    found = compare_runs(ours, theirs, "step_time", CATALOG)
    assert found.ratio == pytest.approx(1.25, rel=0.01)
    assert (found.metric, found.unit) == ("throughput", Unit.SAMPLES_PER_SECOND)
    assert found.value_a == pytest.approx(2, rel=0.02)


def test_a_metric_that_is_of_no_step_is_compared_whatever_the_batch() -> None:
    one = paired_knobs("resnet18", {"batch_size": 2}, {"batch_size": 4}, 1.5)
    same = {"metrics": {"latency_a": one.metrics["step_time_a"]}}
    found = compare_pairs([one.model_copy(update=same)], CATALOG)
    assert found.metric == "latency"
    assert found.ratio == pytest.approx(1.5)
    assert "batch_size" not in found.verdict


def test_other_work_is_said_in_the_verdict() -> None:
    knobs: dict[str, Scalar] = {"image_size": 128, "num_classes": 91, "batch_size": 2}
    larger = {**knobs, "image_size": 256, "batch_size": 4}
    one = paired_knobs("retinanet_resnext50", knobs, larger, 0.5)
    loud = {"validity": Validity.DISTURBED, "reasons": ("too loud",)}
    found = compare_pairs([one.model_copy(update=loud)], CATALOG)
    assert found.other_work == ("image_size",)
    assert found.verdict.endswith(
        "; by samples/s, since batch_size is 2 and 4; other work: image_size is 128 and 256"
        "; DISTURBED: the machine was not quiet"
    )


@pytest.mark.parametrize(
    ("knob", "a", "b"),
    [
        ("skip_frozen", False, True),
        ("frozen_bn", "mul_add", "fused"),
        ("precision", "fp32", "bf16"),
        ("memory_format", "contiguous", "channels_last"),
        ("threads", 1, 2),
        ("ranks", 1, 2),
    ],
)
def test_how_a_step_is_computed_is_no_other_work(knob: str, a: Scalar, b: Scalar) -> None:
    one = paired_knobs("retinanet_resnext50", {knob: a}, {knob: b}, 1.5)
    found = compare_pairs([one], CATALOG)
    assert (found.other_work, found.metric) == ((), "step_time")
    assert "other work" not in found.verdict


def test_several_comparisons_are_taken_together_whichever_way_round() -> None:
    one = paired(1.5, run_id="1")
    other = one.model_copy(
        update={
            "run_id": "2",
            "knobs": {"precision": "bf16", "size": 256},
            "versus": PairedCandidate(stack="torch", knobs={"precision": "fp32", "size": 256}),
            "pairs": tuple(pair.swapped() for pair in one.pairs),
        }
    )
    chosen = choose([one, other], wanted())
    found = compare_pairs(chosen.paired, CATALOG, chosen.sides)
    assert found.ratio == pytest.approx(1.5)
    assert (found.pairs, found.runs) == (24, ("1", "2"))
    turned = choose([one, other], wanted("torch:precision=bf16", "torch:precision=fp32"))
    back = compare_pairs(turned.paired, CATALOG, turned.sides)
    assert back.ratio == pytest.approx(1 / 1.5)
    assert back.a == "torch:precision=bf16"


def test_separate_runs_are_compared_by_their_medians() -> None:
    ours = [stored(1.0), stored(1.02)]
    theirs = [stored(0.5, precision="bf16"), stored(0.51, precision="bf16")]
    found = compare_runs(ours, theirs, "step_time", CATALOG)
    assert found.ratio == pytest.approx(2.0)
    assert (found.pairs, found.b) == (0, "torch:precision=bf16")
    assert found.verdict.startswith("B is 2.00× faster")
    assert found.asked_width is None
    assert compare_runs(ours[:1], theirs, "step_time", CATALOG).ratio_low is None


def test_runs_that_have_no_speed_are_not_compared() -> None:
    scored = stored(run_id="scored").model_copy(update={"metrics": {}})
    for ours, theirs in (([stored()], [scored]), ([scored], [stored()])):
        with pytest.raises(UserError, match=r"run scored has no step_time"):
            compare_runs(ours, theirs, "step_time", CATALOG)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_value_that_is_not_positive_has_no_ratio(seconds: float) -> None:
    for ours, theirs in (([stored(seconds)], [stored()]), ([stored()], [stored(seconds)])):
        with pytest.raises(UserError, match=r"step_time of side [AB]: a value is not positive"):
            compare_runs(ours, theirs, "step_time", CATALOG)


def test_interleaved_results_are_preferred_and_only_valid_ones_taken() -> None:
    alone = [stored(1.0), stored(0.5, precision="bf16")]
    loud = paired().model_copy(update={"validity": Validity.INVALID})
    late = paired().model_copy(update={"counted": False})
    assert choose([*alone, paired(), loud, late], wanted()).paired == (paired(),)
    chosen = choose([*alone, loud, late], wanted())
    assert (chosen.paired, chosen.a, chosen.b) == ((), (alone[0],), (alone[1],))


def test_a_disturbed_pair_is_taken_only_without_a_valid_one_and_its_verdict_says_so() -> None:
    loud = paired().model_copy(update={"validity": Validity.DISTURBED, "reasons": ("too loud",)})
    assert choose([loud, paired()], wanted()).paired == (paired(),)
    assert choose([loud], wanted()).paired == (loud,)
    found = compare_pairs([loud], CATALOG)
    assert (found.validity, found.reasons) == (Validity.DISTURBED, ("too loud",))
    assert found.verdict.endswith("; DISTURBED: the machine was not quiet")
    broken = loud.model_copy(update={"validity": Validity.INVALID})
    assert compare_pairs([loud, broken], CATALOG).validity is Validity.INVALID


def test_disturbed_runs_are_not_compared() -> None:
    loud = stored(1.0).model_copy(update={"validity": Validity.DISTURBED})
    with pytest.raises(NotFound):
        choose([loud, stored(0.5, precision="bf16")], wanted())


def test_nothing_stored_is_said_with_what_was_looked_for() -> None:
    with pytest.raises(NotFound, match=r"side B.*with stack torch precision=bf16 on cpu-1"):
        choose([stored()], wanted(device="cpu-1"))


def test_a_side_that_could_mean_several_cells_is_refused() -> None:
    results = [stored(), stored(size=512), stored(precision="bf16")]
    with pytest.raises(
        UserError, match=r"side A: several cells.*size 256 and 512.*--knob size=256"
    ):
        choose(results, wanted())
    assert choose(results, wanted(size=256)).a == (results[0],)
    with pytest.raises(UserError, match="several cells"):
        choose([paired(), paired(size=512)], wanted())


def test_a_knob_nobody_asked_about_must_not_differ() -> None:
    chosen = choose([stored(), stored(size=512, precision="bf16")], wanted())
    assert stray_knob(chosen, wanted()) == "size differs: 256 and 512"
    asked = wanted("torch:size=256,precision=fp32", "torch:precision=bf16")
    assert stray_knob(choose([stored(), stored(size=512, precision="bf16")], asked), asked) is None


@pytest.mark.parametrize(
    ("fact", "value", "said"),
    [
        ("cpu_model", "EPYC", "cpu_model differs: Xeon and EPYC"),
        ("kernel", None, "kernel differs: 6.1 and unknown"),
        ("governor", "powersave", "governor differs: unknown and powersave"),
        ("torch", "2.8.0", "torch differs: 2.13.0 and 2.8.0"),
        ("onednn_isa", "AVX2", "onednn_isa differs: unknown and AVX2"),
        ("kernels", "reference", "kernels differs: unknown and reference"),
        ("workload_package", "my-farm 2.0", "workload_package differs: unknown and my-farm 2.0"),
        ("scenario_package", "my-farm 2.0", "scenario_package differs: unknown and my-farm 2.0"),
        ("stack_package", "my-farm 2.0", "stack_package differs: unknown and my-farm 2.0"),
    ],
)
def test_unlike_environments_are_told_by_the_fact_that_differs(
    fact: str, value: Scalar | None, said: str
) -> None:
    other = stored(precision="bf16", environment={fact: value})
    assert difference([stored()], [other], {}) == said
    assert difference([stored()], [stored(precision="bf16")], {}) is None


def test_another_device_is_another_environment() -> None:
    assert difference([stored()], [stored(device="cpu-2")], {}) == "device differs: cpu-1 and cpu-2"


def test_stacks_may_differ_in_software_and_sides_in_how_they_are_launched() -> None:
    ipex = stored(stack="ipex", environment={"torch": "2.8.0"})
    assert difference([stored()], [ipex], {}) is None
    threads = stored(environment={"threads": 1})
    assert difference([stored()], [threads], {}) is None
    assert difference([stored(), threads], [stored()], {}) == "threads differs: 2 and 1"
    tuned = stored(environment={"settings": ("GLIBC_TUNABLES=x",)})
    assert difference([stored(), tuned], (), {}) == "settings differs: unknown and GLIBC_TUNABLES=x"


def test_variants_of_an_operator_may_be_compared() -> None:
    avx2, scalar = (
        stored(environment={"kernels": v}).model_copy(update={"scenario": "kernel"})
        for v in ("avx2", "scalar")
    )
    assert difference([avx2], [scalar], {}) is None


def test_paired_results_have_to_agree_side_by_side() -> None:
    one, two = (paired().model_copy(update={"environment": {"b.torch": v}}) for v in ("1", "2"))
    assert difference([one, two], (), {}) == "b.torch differs: 1 and 2"
    assert difference([one, one], (), {}) is None


def test_facts_that_a_manifest_declares_are_compared_too() -> None:
    def own(equal: Equal | None) -> dict[str, OwnFact]:
        return {"driver": OwnFact(kind=FactKind.IDENTITY, means="the driver", equal=equal)}

    one, two = (stored(environment={"driver": version}) for version in ("1", "2"))
    lacking = stored()
    other = stored(stack="ipex", environment={"driver": "2"})
    assert difference([one], [two], own(None)) is None
    assert difference([one], [two], own(Equal.STACK)) == "driver differs: 1 and 2"
    assert difference([one], [lacking], own(Equal.STACK)) == "driver differs: 1 and unknown"
    assert difference([one], [other], own(Equal.STACK)) is None
    assert difference([one], [two], own(Equal.SIDE)) is None
    assert difference([one, two], [one], own(Equal.SIDE)) == "driver differs: 1 and 2"
    a, b = (paired().model_copy(update={"environment": {"b.driver": v}}) for v in ("1", "2"))
    assert difference([a, b], (), own(Equal.STACK)) == "b.driver differs: 1 and 2"
