"""Ranks on generated hosts: sockets, sub-NUMA clusters, hyper-threads, cores that are offline."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host.rank_placement import CannotPlace, domains_of, place_ranks


@dataclass(frozen=True)
class Topology:
    """The cores that are online, and all of each socket and node."""

    cores: frozenset[int]
    sockets: dict[int, frozenset[int]]
    nodes: dict[int, frozenset[int]]


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Return 1 to 4 sockets with 1, 2 or 4 NUMA nodes each (SNC), or all in one node; hyper-threads
    numbered after all cores, as Linux does; some cores are offline."""
    sockets, clusters = draw(st.integers(1, 4)), draw(st.sampled_from([0, 1, 2, 4]))
    cores = draw(st.integers(1, 6)) * max(1, clusters)
    smt = draw(st.integers(1, 2))
    one_level = sockets * cores
    owner = {
        core + level * one_level: divmod(core, cores)
        for core in range(one_level)
        for level in range(smt)
    }
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
    online = draw(st.sets(st.sampled_from(sorted(owner)), min_size=1))
    return Topology(frozenset(online), by_socket, by_node)


def placed(host: Topology, ranks: int, threads: int) -> tuple[tuple[int, ...], ...]:
    return place_ranks(host.cores, host.sockets, host.nodes, ranks, threads)


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
def test_no_domain_has_a_rank_more_than_one_with_room_for_it(
    host: Topology, ranks: int, threads: int
) -> None:
    domains = domains_of(host.cores, host.sockets, host.nodes)
    try:
        found = placed(host, ranks, threads)
    except CannotPlace:
        return
    counts = [sum(rank[0] in domain for rank in found) for domain in domains]
    has_room = [n for n, domain in zip(counts, domains, strict=True) if len(domain) // threads > n]
    assert max(counts) <= min(has_room, default=ranks) + 1


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
    assert place_ranks({3, 1, 2, 0}, {}, {0: frozenset()}, 2, 2) == ((0, 1), (2, 3))
