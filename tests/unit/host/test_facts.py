from __future__ import annotations

import os
import re
from pathlib import Path

from agents.host.facts import agent_id, boot_id, cpu_device, cpuset, host_facts, machine_id
from controller.contracts.device import Agent, Device, DeviceKind
from controller.scheduling.selector import parse_selector


def test_the_facts_of_this_host_are_sane() -> None:
    facts = host_facts()

    cores, cpus, memory = facts["cores"], facts["logical_cpus"], facts["memory_bytes"]
    assert isinstance(cores, int)
    assert isinstance(cpus, int)
    assert isinstance(memory, int)
    assert 1 <= cores <= cpus
    assert memory > 2**28
    assert isinstance(facts["isa"], tuple)
    assert facts["isa"]
    assert facts["cpu_model"]
    assert facts["architecture"] == os.uname().machine
    assert facts["kernel"] == os.uname().release
    assert facts["sockets"] in range(1, 65)
    assert facts["numa_nodes"] in range(1, 65)
    assert isinstance(facts["hypervisor"], bool)


def test_a_cpuset_is_a_fact_only_if_it_leaves_cpus_out() -> None:
    assert cpuset({8, 0, 1}, 12) == "0-1,8"
    assert cpuset({0, 1, 2, 3}, 4) is None
    facts = host_facts()
    used, online = len(os.sched_getaffinity(0)), facts["logical_cpus"]
    assert isinstance(online, int)
    assert ("cpuset" in facts) is (used < online)


def test_this_host_is_a_device_that_selectors_understand() -> None:
    device = cpu_device("some-machine", {"rack": "7"})

    assert device.kind is DeviceKind.CPU_HOST
    assert not device.virtual
    assert device.host_cores == os.sched_getaffinity(0)
    assert Device.model_validate_json(device.model_dump_json()) == device
    selector = parse_selector("kind == cpu_host and cores >= 1 and rack == '7'".replace("'", '"'))
    assert selector.objection(device) is None


def test_ids_are_stable_and_do_not_give_the_machine_away() -> None:
    assert agent_id("secret") == agent_id("secret") != agent_id("other")
    assert cpu_device("secret", {}).id == cpu_device("secret", {"a": "b"}).id
    assert "secret" not in agent_id("secret") + cpu_device("secret", {}).id
    assert re.fullmatch(r"host-[0-9a-f]{8}", agent_id("secret"))


def test_a_machine_keeps_its_id(tmp_path: Path) -> None:
    fallback = tmp_path / "deep" / "machine-id"
    first = machine_id(fallback)
    assert first
    assert machine_id(fallback) == first
    known = Path("/etc/machine-id")
    if known.exists() and known.read_text().strip():
        assert first == known.read_text().strip()
        assert not fallback.exists()
    else:
        assert first == fallback.read_text().strip()


def test_the_boot_is_the_same_until_the_next_one() -> None:
    boot = boot_id()
    assert boot == boot_id()
    assert boot
    agent = Agent(id="host-1", incarnation="first", version="1", host="host-1", boot_id=boot)
    assert agent.boot == f"host-1 (boot {boot})"
