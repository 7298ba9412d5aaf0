"""What people type for devices, sweeps and runs, and what they are told if nothing is meant."""

from __future__ import annotations

import re

import pytest

from controller.contracts.device import (
    DeviceLife,
    RegisteredAgent,
    RegisteredDevice,
    shown_names,
)
from controller.contracts.device_names import shown_name
from controller.contracts.errors import NotFound, UserError
from controller.contracts.records import ADMIN, SweepRecord
from controller.scheduling.references import (
    SweepReferent,
    find_agent,
    find_device,
    find_run,
    find_sweep,
)
from tests.support import builders

PHONE = "R5CT30ABC"


def known(id_: str, host: str = "", name: str | None = None) -> RegisteredDevice:
    facts = {"hostname": host} if host else {}
    device = builders.cpu(id_, facts=dict(facts))
    life = DeviceLife(name=name)
    return RegisteredDevice(device=device, agent_id="a", online=True, since=0.0, life=life)


FLEET = (
    known("cpu-67b5a1c3", "xeon-3.lab.example"),
    known("cpu-68000000", "xeon-4"),
    known("cpu-70000000", "xeon-40", "left"),
    known(PHONE),
    known("R5CT", name="bench-phone"),
)


@pytest.mark.parametrize(
    ("id_", "facts", "given", "shown"),
    [
        ("cpu-67b5a1c3", {"hostname": "xeon-3"}, None, "xeon-3 · cpu-67b5…"),
        ("cpu-67b5a1c3", {"hostname": "xeon-3.lab.example"}, None, "xeon-3 · cpu-67b5…"),
        ("cpu-67b5a1c3", {"hostname": "10.0.0.3"}, None, "10.0.0.3 · cpu-67b5…"),
        ("cpu-67b5a1c3", {"hostname": "x" * 4000}, None, f"{'x' * 31}… · cpu-67b5…"),
        ("cpu-67b5a1c3", {"hostname": "xeon-3"}, "left", "left"),
        ("cpu-67b5a1c3", {}, None, "cpu-67b5a1c3"),
        (PHONE, {"model": "SM"}, None, PHONE),
        ("cpu-1", {"hostname": "xeon-3"}, None, "xeon-3 · cpu-1"),
    ],
)
def test_a_device_is_shown_by_its_name_else_its_host_and_short_id(
    id_: str, facts: dict[str, object], given: str | None, shown: str
) -> None:
    assert shown_name(id_, facts, given) == shown


def test_copies_of_a_host_are_never_shown_alike() -> None:
    twins = [known(id_, "clone").labelled for id_ in ("cpu-67b5a1c3", "cpu-67b5ffff", "cpu-1")]
    assert shown_names(twins) == {
        "cpu-67b5a1c3": "clone · cpu-67b5a1c3",
        "cpu-67b5ffff": "clone · cpu-67b5ffff",
        "cpu-1": "clone · cpu-1",
    }


@pytest.mark.parametrize(
    ("given", "id_"),
    [
        ("cpu-67b5a1c3", "cpu-67b5a1c3"),
        ("cpu-67", "cpu-67b5a1c3"),
        ("cpu-67b5…", "cpu-67b5a1c3"),
        ("xeon-3 · cpu-67b5…", "cpu-67b5a1c3"),
        ("xeon-3", "cpu-67b5a1c3"),
        ("xeon-3.lab.example", "cpu-67b5a1c3"),
        ("xeon-4", "cpu-68000000"),  # whole, though xeon-40 begins with it
        ("left", "cpu-70000000"),
        ("le", "cpu-70000000"),
        ("R5CT", "R5CT"),  # whole, though another id begins with it
        ("bench", "R5CT"),
        ("R5CT3", PHONE),
    ],
)
def test_a_device_is_found_by_id_name_host_or_beginning(given: str, id_: str) -> None:
    assert find_device(given, FLEET) == id_


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ("cpu-6", UserError, "could be xeon-3 · cpu-67b5… (cpu-67b5a1c3), xeon-4 · cpu-6800…"),
        ("xeon", UserError, "xeon-3 · cpu-67b5… (cpu-67b5a1c3), xeon-4"),
        ("cpu-67b5a1d3", NotFound, "Did you mean cpu-67b5a1c3? Known: xeon-3 · cpu-67b5…"),
        ("lefft", NotFound, "Did you mean left?"),
        ("", NotFound, "its id is empty"),
        ("…", NotFound, "there is no such device"),
        ("zzz", NotFound, "there is no such device. Known: "),
    ],
)
def test_what_is_ambiguous_or_unknown_says_what_it_could_be(
    given: str, kind: type[UserError], words: str
) -> None:
    with pytest.raises(UserError) as caught:
        find_device(given, FLEET)
    assert type(caught.value) is kind
    assert words in str(caught.value)


def hosted(id_: str, host: str) -> RegisteredAgent:
    agent = builders.agent(id_).model_copy(update={"host": host})
    return RegisteredAgent(agent=agent, online=True, since=0.0)


AGENTS = (
    hosted("host-052de4e3", "xeon-3.lab.example"),
    hosted("host-06000000", "xeon-4"),
    hosted("host-07000000", "xeon-40"),
    hosted("a", "clone"),
    hosted("host-09000000", "clone"),
)


@pytest.mark.parametrize(
    ("given", "id_"),
    [
        ("host-05", "host-052de4e3"),
        ("xeon-3", "host-052de4e3"),
        ("xeon-3.lab.example", "host-052de4e3"),
        ("xeon-4", "host-06000000"),
        ("a", "a"),
    ],
)
def test_an_agent_is_found_by_id_or_host(given: str, id_: str) -> None:
    assert find_agent(given, AGENTS, FLEET) == id_


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("xeon", "could be host-052de4e3 on xeon-3.lab.example, host-06000000 on xeon-4"),
        ("clone", "could be a on clone, host-09000000 on clone. Type more of its id."),
        ("xeon-5", "there is no such agent. Did you mean xeon-"),
        ("left", "it is a device of agent a. Name a; for the device alone, run `benchfarm device"),
        (PHONE, f"benchfarm device maintain {PHONE} --for 2h"),
        ("", "its id is empty. Run `benchfarm agent list`"),
        ("cpu-6", "there is no such agent. Known: host-052de4e3 on xeon-3.lab.example"),
    ],
)
def test_what_names_no_agent_or_several_is_refused(given: str, words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        find_agent(given, AGENTS, FLEET)


def test_an_error_names_few_of_many() -> None:
    many = [known(f"cpu-{number:08}") for number in range(30)]
    with pytest.raises(UserError, match=r"cpu-00000004 and 25 more\. Type more"):
        find_device("cpu", many)


SWEEPS = (
    SweepReferent("quick-11111111", "quick", ADMIN),
    SweepReferent("quick-33333333", "quick", "ann"),
    SweepReferent("quick-22222222", "quick", "ann"),
    SweepReferent("quick2-44444444", "quick2", "ben"),
)


@pytest.mark.parametrize(
    ("user", "given", "id_", "note"),
    [
        (ADMIN, "quick", "quick-11111111", "is quick-11111111, the newest of 3"),
        ("ann", "quick", "quick-22222222", "is quick-22222222, the newest of 2"),
        (ADMIN, "quick2", "quick2-44444444", "is quick2-44444444 of ben"),
        (ADMIN, "quick-3", "quick-33333333", ""),
        ("ann", "quick-22222222", "quick-22222222", ""),
    ],
)
def test_a_sweeps_name_is_the_users_newest_and_says_which(
    user: str, given: str, id_: str, note: str
) -> None:
    found = find_sweep(given, SWEEPS, user)
    assert found.id == id_
    assert found.note == (note and f"sweep {given} {note}")


def test_the_newest_of_a_name_is_the_last_submitted_whatever_the_clock_said() -> None:
    """The head's clock was ahead at the first one, and is corrected."""
    named = [
        SweepRecord(
            sweep_id=f"quick-{n}",
            sweep=builders.sweep(name="quick"),
            generation=n,
            submitted_at=submitted_at,
        )
        for n, submitted_at in enumerate((9e9, 1000.0, 1000.0))
    ]
    assert find_sweep("quick", map(SweepReferent.of, named), ADMIN).id == "quick-2"


@pytest.mark.parametrize(
    ("user", "given", "words"),
    [
        (ADMIN, "qui", "it could be quick2-44444444, quick-22222222, quick-33333333"),
        ("ann", "quick2", "there is no such sweep. Did you mean quick? Known: quick-22222222"),
        ("ben", "quick-2", "Known: quick2-44444444."),
        ("zoe", "quick", "Known: none yet."),
    ],
)
def test_nobody_finds_or_is_shown_another_users_sweeps(user: str, given: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        find_sweep(given, SWEEPS, user)
    assert words in str(caught.value)


def test_a_run_is_found_by_its_beginning() -> None:
    assert find_run("ab", ["abc", "b"]) == "abc"
    with pytest.raises(UserError, match="it could be abc, abd"):
        find_run("ab", ["abc", "abd"])
