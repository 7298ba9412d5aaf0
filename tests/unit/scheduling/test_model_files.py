"""What a plan says of hosts that lack models or data sets; of no host more than it has said."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from agents.inference.stored_files import StoredFiles
from controller.cli.host_files import known_hosts_without, this_host_without, with_host_files
from controller.contracts.catalog import Catalog, load_catalog
from controller.contracts.device import DeviceState, RegisteredAgent, RegisteredDevice
from controller.contracts.sweep import Sweep
from controller.scheduling.expansion import cells_of
from controller.scheduling.model_files import (
    HERE,
    HostFiles,
    Needed,
    hosts_without,
    needed_files,
)
from controller.scheduling.planning import plan_sweep
from models.mobile.store import Store
from tests.support import builders

INT8 = "edsr/models/int8"
TINY, TRUTH = "edsr/tiny/samples", "edsr/full/truth"
MODEL_MD5 = "md5:18ce6df0e4603f4b4ee5d04193708d9c"
TINY_MD5 = "md5:134e9f96e4bbd5e925093e30a4433548"
TINY_TRUTH, TINY_TRUTH_MD5 = "edsr/tiny/truth", "md5:c8eac83e32d163552ca8e317c2dd57c3"


@cache
def shipped() -> Catalog:
    return load_catalog()


def sweep(**changes: object) -> Sweep:
    keys = {"name": "x", "workload": "edsr", "stack": "litert", "scenario": "offline"}
    return Sweep.model_validate(
        {**keys, "knobs": {"numerics": "int8", "dataset": "tiny"}} | changes
    )


@pytest.mark.parametrize(
    ("changes", "files"),
    [
        ({}, {INT8: MODEL_MD5, TINY: TINY_MD5, TINY_TRUTH: TINY_TRUTH_MD5}),
        (
            {"knobs": {"numerics": "int8", "dataset": "full"}},
            {INT8: MODEL_MD5, "edsr/full/samples": None, TRUTH: None},
        ),
        ({"workload": "edsr_surrogate", "knobs": {}}, {}),
        (
            {
                "workload": "retinanet_resnext50",
                "stack": "torch",
                "scenario": "training",
                "knobs": {},
            },
            {},
        ),
    ],
    ids=["published", "pinned", "surrogate", "training"],
)
def test_the_files_that_a_cell_needs(changes: dict[str, object], files: dict[str, str]) -> None:
    (cell,) = cells_of(sweep(**changes), shipped())
    assert needed_files(cell, shipped()) == files


NEEDS = {INT8: MODEL_MD5, TRUTH: None}


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ({"host-1": [MODEL_MD5, TRUTH, "md5:another"]}, None),
        (
            {"host-1": [MODEL_MD5]},
            f"xeon-3: lacks {TRUTH} (there, run `benchfarm models fetch edsr`)",
        ),
        (
            {"host-1": [INT8]},  # a key is no checksum
            f"xeon-3: lacks {INT8}, {TRUTH} (there, run `benchfarm models fetch edsr`)",
        ),
        (
            {"host-1": ()},
            f"xeon-3: lacks {INT8}, {TRUTH} (there, run `benchfarm models fetch edsr`)",
        ),
        ({"host-2": ()}, f"xeon-3: unknown whether it has {INT8}, {TRUTH}"),
        ({}, f"xeon-3: unknown whether it has {INT8}, {TRUTH}"),
    ],
    ids=["all", "one lacks", "key for a checksum", "empty", "only another host", "farm is down"],
)
def test_what_is_said_of_a_host(stored: dict[str, list[str]], said: str | None) -> None:
    found = hosts_without([("host-1", NEEDS)], {"host-1": "xeon-3"}, stored)
    assert [host.line for host in found] == ([said] if said else [])


def test_a_file_of_a_program_is_added_and_not_fetched() -> None:
    needs: list[tuple[str, Needed]] = [("host-1", {"vendor/files/program": None})]
    (host,) = hosts_without(needs, {}, {"host-1": ()})
    line = "host-1: lacks vendor/files/program (there, run `benchfarm models add PATH`)"
    assert host.line == line


def test_a_host_of_many_phones_has_one_line_which_is_short() -> None:
    many: Needed = {f"edsr/models/n{number}": None for number in range(6)}
    more: Needed = {**many, INT8: MODEL_MD5}
    needs = [("host-1", many), ("host-1", more), ("host-2", {INT8: MODEL_MD5})]
    found = hosts_without(needs, {}, {"host-1": (), "host-2": [MODEL_MD5]})
    assert [(host.agent_id, len(host.lacking)) for host in found] == [("host-1", 7)]
    assert found[0].line.startswith("host-1: lacks edsr/models/n0, edsr/models/n1, ")
    assert "n3 and 3 more (there" in found[0].line


def test_a_plan_asks_for_stores_only_if_its_cells_need_files() -> None:
    phones = [(builders.phone(name), DeviceState.READY) for name in ("a", "b")]

    def plan_of(given: Sweep) -> tuple[HostFiles, ...]:
        cells = cells_of(given, shipped())
        found = plan_sweep(given, cells, phones, shipped(), ())
        owners = {"a": "host-1", "b": "host-2"}
        asked.clear()
        stored = {"host-1": [MODEL_MD5, TINY_MD5, TINY_TRUTH_MD5]}

        def ask() -> dict[str, list[str]]:
            asked.append(True)
            return stored

        return with_host_files(found, owners, {}, ask).without_files

    asked: list[bool] = []
    (unknown,) = plan_of(sweep(run_on="each"))
    assert (unknown.agent_id, unknown.known, asked) == ("host-2", False, [True])
    assert (plan_of(sweep(workload="edsr_surrogate", knobs={}, run_on="each")), asked) == ((), [])


def test_a_sweep_s_file_alone_tells_which_known_hosts_lack_files() -> None:
    agents = [
        RegisteredAgent(agent=builders.agent(id_), online=id_ == "host-1", since=0)
        for id_ in ("host-1", "host-2")
    ]
    phones = [
        RegisteredDevice(device=builders.phone(name), agent_id=agent, online=True, since=0)
        for name, agent in (("a", "host-1"), ("b", "host-2"))
    ]
    given = sweep(run_on="each")
    cells = cells_of(given, shipped())
    stored = {"host-1": [MODEL_MD5]}
    found = known_hosts_without(given, cells, shipped(), (agents, phones), lambda: stored)
    assert [host.line for host in found] == [
        f"host-1: lacks {TINY}, {TINY_TRUTH} (there, run `benchfarm models fetch edsr`)",
        f"host-2: unknown whether it has {INT8}, {TINY}, {TINY_TRUTH}",
    ]
    every = [MODEL_MD5, TINY_MD5, TINY_TRUTH_MD5]
    stored = {"host-1": every, "host-2": every}
    assert known_hosts_without(given, cells, shipped(), (agents, phones), lambda: stored) == ()


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (
            {HERE: [MODEL_MD5]},
            f"this host: lacks {TINY}, {TINY_TRUTH} (run `benchfarm models fetch edsr`)",
        ),
        ({HERE: [MODEL_MD5, TINY_MD5, TINY_TRUTH_MD5]}, None),
        ({}, f"this host: unknown whether it has {INT8}, {TINY}, {TINY_TRUTH}"),
    ],
    ids=["some", "all", "unreadable"],
)
def test_without_a_known_host_it_is_this_one(
    stored: dict[str, list[str]], said: str | None
) -> None:
    cells = cells_of(sweep(stack=["litert", "tflite"]), shipped())
    found = this_host_without(cells, shipped(), lambda: stored)
    assert [host.line for host in found] == ([said] if said else [])


def test_this_host_is_looked_at_only_if_files_are_needed() -> None:
    cells = cells_of(sweep(workload="edsr_surrogate", knobs={}), shipped())

    def ask() -> dict[str, list[str]]:
        raise AssertionError("no file is needed")

    assert this_host_without(cells, shipped(), ask) == ()


def test_an_agent_tells_what_is_in_its_store(tmp_path: Path) -> None:
    told = StoredFiles(tmp_path / "models")
    assert told() == (), "nothing was ever added"
    file = tmp_path / "net"
    file.write_bytes(b"x")
    store = Store(tmp_path / "models")
    added = store.add(file)
    store.pin(TRUTH, added["sha256"])
    assert told() == (*sorted(added.values()), TRUTH)
    (tmp_path / "models" / "objects" / ".half-written").write_bytes(b"x")
    assert told() == (*sorted(added.values()), TRUTH)


def test_a_store_that_cannot_be_read_is_unknown_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "objects").write_text("a file where a folder belongs")
    told = StoredFiles(tmp_path)
    assert (told(), told()) == (None, None)
    assert len(caplog.records) == 1
    other = tmp_path / "other"
    for number in range(5000):
        (other / "pins" / "w" / "d").mkdir(parents=True, exist_ok=True)
        (other / "pins" / "w" / "d" / f"p{number}").touch()
    assert StoredFiles(other)() is None, "too much to tell"
