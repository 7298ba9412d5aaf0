from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.device import Device, DeviceKind
from controller.contracts.manifests import StackManifest
from controller.metrics.baselines import baseline_devices, baseline_stacks
from controller.metrics.newest import ResultKey


def key(device: str, stack: str = "torch", precision: str = "fp32", work: str = "0f") -> ResultKey:
    return ResultKey(device, "retinanet", stack, "training", precision, work)


def device(name: str, *, virtual: bool = False, labelled: bool = False) -> tuple[str, Device]:
    labels = {"baseline": "yes"} if labelled else {}
    return name, Device(id=name, kind=DeviceKind.CPU_HOST, virtual=virtual, labels=labels)


def names(keys: Iterator[ResultKey]) -> list[str]:
    return [found.device for found in keys]


def test_the_device_its_owner_labelled_is_the_baseline() -> None:
    devices = dict((device("a"), device("b", virtual=True, labelled=True)))
    assert names(baseline_devices([key("a"), key("b")], devices)) == ["b"]


def test_a_label_that_says_no_makes_no_baseline() -> None:
    devices = dict((device("a"), device("b")))
    devices["b"] = devices["b"].model_copy(update={"labels": {"baseline": "no"}})
    assert names(baseline_devices([key("a"), key("b")], devices)) == ["a"]


def test_else_it_is_the_first_real_one_by_name() -> None:
    devices = dict((device("c"), device("a", virtual=True), device("b")))
    assert names(baseline_devices([key("c"), key("a"), key("b")], devices)) == ["b"]


def test_every_stack_and_precision_has_a_baseline_device_of_its_own() -> None:
    devices = dict((device("a"), device("b"), device("c")))
    keys = [key("a"), key("b"), key("b", "ipex"), key("c", "ipex"), key("c", "ipex", "bf16")]
    assert list(baseline_devices(keys, devices)) == [key("a"), key("b", "ipex")]


STACKS = {
    name: StackManifest(
        name=name,
        title="",
        device_kinds=(DeviceKind.CPU_HOST,),
        backend=f"agents.{name}:Backend",
        baseline=baseline,
    )
    for name, baseline in (("ipex", False), ("torch", True))
}


def test_the_stack_whose_manifest_says_so_is_the_baseline_in_fp32() -> None:
    keys = [key("a", "ipex"), key("a", "torch", "bf16"), key("a", "torch", "fp32")]
    assert list(baseline_stacks(keys, STACKS)) == [key("a", "torch", "fp32")]


def test_a_device_that_lacks_it_compares_with_the_first_stack_by_name() -> None:
    keys = [key("a", "tflite"), key("a", "ipex", "int8"), key("a", "ipex", "bf16")]
    assert list(baseline_stacks(keys, STACKS)) == [key("a", "ipex", "bf16")]


def test_what_stands_alone_is_compared_with_nothing() -> None:
    assert list(baseline_stacks([key("a"), key("b")], STACKS)) == []
    assert list(baseline_devices([key("a")], dict((device("a"),)))) == []


def test_unlike_work_is_no_baseline() -> None:
    keys = [key("a", work="1e"), key("a", "ipex"), key("b", work="2d"), key("b", "ipex", work="1e")]
    assert list(baseline_stacks(keys, STACKS)) == []
    assert list(baseline_devices(keys, dict((device("a"), device("b"))))) == []
