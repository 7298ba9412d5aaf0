"""Clauses that no known device matches are named, with the word that was meant."""

from __future__ import annotations

import pytest

from controller.contracts.device import Device, DeviceKind
from controller.scheduling.selector import clauses_of
from controller.scheduling.unmatched import NAMED, unmatched_clauses

SERVER = Device(
    id="cpu-1",
    kind=DeviceKind.CPU_HOST,
    virtual=False,
    labels={"rack": "b2"},
    facts={"cores": 32, "isa": ("avx2", "amx_bf16"), "hypervisor": True},
)
PHONE = Device(id="SERIAL1", kind=DeviceKind.ANDROID, virtual=True, facts={"cores": 8})
FLEET = [SERVER, PHONE]
KINDS = 'no device can match kind == "cpu-host". Did you mean cpu_host? Known: cpu_host, android.'


@pytest.mark.parametrize(
    "selector",
    [
        "any",
        "kind == cpu_host",
        "kind != android and cores >= 8",
        "isa has avx2 or device == SERIAL1",
        "not (rack == b2)",
        "virtual == true and virtual == false",
        "hypervisor == true",
    ],
)
def test_what_a_device_matches_is_not_named(selector: str) -> None:
    assert unmatched_clauses([selector], FLEET) == []


@pytest.mark.parametrize(
    ("selector", "line"),
    [
        (
            'kind == "cpu-host"',
            'matches kind == "cpu-host". Did you mean cpu_host? Known: "android", "cpu_host".',
        ),
        ("kind != cpu-host", 'matches kind != "cpu-host". Did you mean cpu_host?'),
        ("not kind == cpu-host", 'matches kind == "cpu-host". Did you mean cpu_host?'),
        ("coress >= 8", "has coress. Did you mean cores?"),
        ("rakc == b2", "has rakc. Did you mean rack?"),
        ("knid == android", "has knid. Did you mean kind?"),
        ("memory_byte > 1", "has memory_byte. Did you mean memory_bytes?"),
        ("nonsense == 1", "has nonsense."),
        ("soc == x", "has soc."),
        ("rack == b22", 'matches rack == "b22". Did you mean b2? Known: "b2".'),
        ("cores >= 64", "matches cores >= 64. Known: 32, 8."),
        ("cores == many", 'matches cores == "many". Known: 32, 8.'),
        ("isa has amx_bf61", 'matches isa has "amx_bf61". Did you mean amx_bf16?'),
        ("isa == avx2", 'matches isa == "avx2". Ask a list with `has`.'),
        ("cores has 8", "matches cores has 8. Known: 32, 8."),
        ("virtual == yes", 'matches virtual == "yes". Known: false, true.'),
    ],
)
def test_what_none_matches_is_named(selector: str, line: str) -> None:
    (found,) = unmatched_clauses([selector], FLEET)
    assert found.startswith(f"no known device {line}")


@pytest.mark.parametrize(
    ("selector", "lines"),
    [
        ("kind == cpu-host", [KINDS]),
        ("coress >= 8", ["no fact of devices is called coress. Did you mean cores?"]),
        ("cores >= 8 and kind == android and rack == b2", []),
    ],
)
def test_without_devices_only_misspelt_names_and_kinds_are_named(
    selector: str, lines: list[str]
) -> None:
    assert unmatched_clauses([selector], []) == lines


def test_a_clause_is_named_once_and_in_order() -> None:
    found = unmatched_clauses(["b == 1 and a == 1", "a == 1"], FLEET)
    assert found == ["no known device has b.", "no known device has a."]


def test_of_many_values_some_are_named() -> None:
    fleet = [SERVER.model_copy(update={"id": f"cpu-{n}"}) for n in range(NAMED + 3)]
    (found,) = unmatched_clauses(["device == nothing"], fleet)
    assert found.endswith(" and 3 more.")


def test_clauses_of_a_selector() -> None:
    text = '(a == 1 or not b has "x") and any and c != true'
    assert [str(clause) for clause in clauses_of(text)] == ["a == 1", 'b has "x"', "c != true"]
    assert [str(clause) for clause in clauses_of("a > 1")] == ["a > 1"]
    assert clauses_of("any") == []
