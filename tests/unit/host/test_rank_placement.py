"""Ranks on generated hosts: sockets, sub-NUMA clusters, hyper-threads, cores that are offline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host.rank_placement import CannotPlace, domains_of, place_ranks


@dataclass(frozen=True)
class Topology:
    """The cores that are online, and all of each socket and node, and of each physical core."""

    cores: frozenset[int]
    sockets: dict[int, frozenset[int]]
    nodes: dict[int, frozenset[int]]
    siblings: tuple[frozenset[int], ...] = ()


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Return 1 to 4 sockets with 1, 2 or 4 NUMA nodes each (SNC), or all in one node; hyper-threads
    numbered after all cores, as most servers do, or after their own; all or some are online."""
    sockets, clusters = draw(st.integers(1, 4)), draw(st.sampled_from([0, 1, 2, 4]))
    cores = draw(st.integers(1, 6)) * max(1, clusters)
    smt = draw(st.integers(1, 2))
    one_level = sockets * cores
    step, level_step = draw(st.sampled_from([(1, one_level), (smt, 1)]))
    siblings = tuple(
        frozenset(core * step + level * level_step for level in range(smt))
        for core in range(one_level)
    )
    owner = {cpu: divmod(core, cores) for core, cpus in enumerate(siblings) for cpu in cpus}
    by_socket = {
        s: frozenset(cpu for cpu, (socket, _) in owner.items() if socket == s)
        for s in range(sockets)
    }
    node_of = {
        cpu: socket * clusters + place * clusters // cores if clusters else 0
        for cpu, (socket, place) in owner.items()
    }
    by_node = {
        node: frozenset(cpu for cpu, at in node_of.items() if at == node)
        for node in set(node_of.values())
    }
    some = draw(st.sets(st.sampled_from(sorted(owner)), min_size=1))
    online = draw(st.sampled_from([some, owner.keys()]))
    return Topology(frozenset(online), by_socket, by_node, siblings)


def placed(host: Topology, ranks: int, threads: int) -> tuple[tuple[int, ...], ...]:
    """Place ranks where each logical CPU is taken for a physical core."""
    return place_ranks(host.cores, host.sockets, host.nodes, (), ranks, threads)


def placed_by_core(host: Topology, ranks: int, threads: int) -> tuple[tuple[int, ...], ...]:
    return place_ranks(host.cores, host.sockets, host.nodes, host.siblings, ranks, threads)


@given(topologies(), st.integers(1, 12), st.integers(0, 12))
def test_every_rank_has_cores_of_its_own_in_one_socket_and_node(
    host: Topology, ranks: int, threads: int
) -> None:
    domains = domains_of(host.cores, host.sockets, host.nodes)
    room = sum(len(domain) // max(1, threads) for domain in domains)
    if room < ranks:
        with pytest.raises(CannotPlace, match=f"ranks={ranks} x threads={max(1, threads)} "):
            placed(host, ranks, threads)
        return
    found = placed(host, ranks, threads)
    assert len(found) == ranks
    taken = [core for rank in found for core in rank]
    assert len(taken) == len(set(taken))
    assert set(taken) <= host.cores
    assert {len(rank) for rank in found} == {threads or len(found[0])}
    for rank in found:
        assert sum(set(rank) <= members for members in host.sockets.values()) == 1
        assert sum(set(rank) <= members for members in host.nodes.values()) == 1
        domain = next(domain for domain in domains if rank[0] in domain)
        assert [domain.index(b) - domain.index(a) for a, b in pairwise(rank)] == [1] * (
            len(rank) - 1
        )


@given(topologies(), st.integers(1, 12))
def test_no_threads_given_are_the_most_that_fit(host: Topology, ranks: int) -> None:
    if ranks > len(host.cores):
        with pytest.raises(CannotPlace, match="is more than the"):
            placed(host, ranks, 0)
        return
    threads = len(placed(host, ranks, 0)[0])
    assert placed(host, ranks, threads) == placed(host, ranks, 0)
    with pytest.raises(CannotPlace):
        placed(host, ranks, threads + 1)


@given(topologies(), st.integers(1, 12), st.integers(1, 12))
def test_no_socket_or_node_of_one_has_a_rank_more_than_one_with_room_for_it(
    host: Topology, ranks: int, threads: int
) -> None:
    domains = domains_of(host.cores, host.sockets, host.nodes)
    try:
        found = placed(host, ranks, threads)
    except CannotPlace:
        return
    by_socket = [
        [domain for domain in domains if domain[0] in members] for members in host.sockets.values()
    ]
    for parts in (*([[domain] for domain in inside] for inside in by_socket), by_socket):
        counts = [sum(rank[0] in cpus for rank in found for cpus in part) for part in parts]
        rooms = [sum(len(domain) // threads for domain in part) for part in parts]
        has_room = [n for n, room in zip(counts, rooms, strict=True) if room > n]
        assert max(counts, default=0) <= min(has_room, default=ranks) + 1


def test_sockets_come_before_their_nodes() -> None:
    """Two sockets of four nodes each (NPS4): half the memory would be idle on one of them."""
    sockets = {s: range(32 * s, 32 * s + 32) for s in range(2)}
    nodes = {n: range(8 * n, 8 * n + 8) for n in range(8)}
    for ranks in range(1, 9):
        found = place_ranks(range(64), sockets, nodes, (), ranks, 0)
        assert len({rank[0] // 8 for rank in found}) == ranks, "each has a node of its own"
        assert sum(rank[0] < 32 for rank in found) == (ranks + 1) // 2


@given(topologies(), st.integers(1, 12), st.integers(0, 12))
def test_no_physical_core_has_two_threads_while_another_has_none(
    host: Topology, ranks: int, threads: int
) -> None:
    try:
        plain = placed(host, ranks, threads)
    except CannotPlace as refused:
        with pytest.raises(CannotPlace, match=re.escape(refused.seen)):
            placed_by_core(host, ranks, threads)
        return
    found = placed_by_core(host, ranks, threads)
    assert [len(rank) for rank in found] == [len(rank) for rank in plain]
    taken = [cpu for rank in found for cpu in rank]
    assert len(taken) == len(set(taken))
    for domain in map(set, domains_of(host.cores, host.sockets, host.nodes)):
        inside = [rank for rank in found if domain & set(rank)]
        assert all(domain >= set(rank) for rank in inside), "in one socket and node"
        assert len(inside) == sum(rank[0] in domain for rank in plain), "as many as without SMT"
        cores = [core & domain for core in host.siblings if core & domain]
        used = [len(core & set(taken)) for core in cores]
        if sum(map(len, inside)) <= len(cores):
            assert max(used, default=0) <= 1


@pytest.mark.parametrize(
    "siblings", [((0, 1), (2, 3), (4, 5), (6, 7)), ((0, 4), (1, 5), (2, 6), (3, 7))]
)
@pytest.mark.parametrize(
    ("ranks", "threads", "shared"),
    [(2, 1, 0), (4, 1, 0), (2, 2, 0), (1, 4, 0), (2, 4, 4), (4, 2, 4), (3, 2, 3), (2, 3, 2)],
)
def test_siblings_are_used_last_and_by_one_rank(
    siblings: tuple[tuple[int, int], ...], ranks: int, threads: int, shared: int
) -> None:
    """shared: how many physical cores have two threads, which are one rank's."""
    found = place_ranks(range(8), {}, {}, siblings, ranks, threads)
    assert sum(set(core) <= set(rank) for core in siblings for rank in found) == shared
    assert all(sum(bool(set(core) & set(rank)) for rank in found) <= 1 for core in siblings)


def test_ranks_share_a_physical_core_if_only_that_makes_room() -> None:
    siblings = ((0, 3), (1, 4), (2, 5))
    assert place_ranks(range(6), {}, {}, siblings, 2, 3) == ((0, 1, 3), (2, 4, 5))
    assert place_ranks({0, 3, 1}, {}, {}, siblings, 3, 1) == ((0,), (1,), (3,))


@pytest.mark.parametrize(
    ("cpus", "ranks", "threads", "shared"),
    [
        (range(16), 9, 1, 1),
        (range(16), 16, 1, 8),
        (range(16), 3, 5, 1),
        ((0, 1, 2, 3, 8, 9), 2, 3, 0),  # two cores with both threads, two with one
        ((0, 8, 1, 9, 2, 10, 3, 11), 5, 1, 1),
    ],
)
def test_as_few_cores_are_shared_as_can_be(
    cpus: Sequence[int], ranks: int, threads: int, shared: int
) -> None:
    siblings = tuple((core, core + 8) for core in range(8))
    found = place_ranks(cpus, {}, {}, siblings, ranks, threads)
    assert sorted({cpu for rank in found for cpu in rank}) == sorted(c for r in found for c in r)
    owners = [sum(bool(set(core) & set(rank)) for rank in found) for core in siblings]
    assert sum(count > 1 for count in owners) == shared


TWO_SOCKETS = Topology(
    frozenset(range(8)),
    {0: frozenset(range(4)), 1: frozenset(range(4, 8))},
    {0: frozenset(range(4)), 1: frozenset(range(4, 8))},
)


@pytest.mark.parametrize(
    ("ranks", "threads", "expected"),
    [
        (1, 4, ((0, 1, 2, 3),)),
        (2, 2, ((0, 1), (4, 5))),
        (2, 4, ((0, 1, 2, 3), (4, 5, 6, 7))),
        (3, 2, ((0, 1), (2, 3), (4, 5))),
        (3, 0, ((0, 1), (2, 3), (4, 5))),
        (2, 0, ((0, 1, 2, 3), (4, 5, 6, 7))),
    ],
)
def test_two_sockets(ranks: int, threads: int, expected: tuple[tuple[int, ...], ...]) -> None:
    assert placed(TWO_SOCKETS, ranks, threads) == expected


@pytest.mark.parametrize(
    ("ranks", "threads", "said"),
    [
        (1, 5, "ranks=1 x threads=5 puts a rank across sockets or NUMA nodes, which have 4, 4 of"),
        (2, 3, None),
        (3, 3, "ranks=3 x threads=3 is more than the 8 cores to run on"),
        (9, 0, "ranks=9 x threads=1 is more than the 8 cores"),
    ],
)
def test_what_is_refused(ranks: int, threads: int, said: str | None) -> None:
    if said is None:
        assert placed(TWO_SOCKETS, ranks, threads)
        return
    with pytest.raises(CannotPlace, match=said):
        placed(TWO_SOCKETS, ranks, threads)


def test_cores_of_a_host_that_tells_neither_sockets_nor_nodes_share_one() -> None:
    assert place_ranks({3, 1, 2, 0}, {}, {0: frozenset()}, (), 2, 2) == ((0, 1), (2, 3))
