"""Which cores the ranks of a data-parallel run get. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

Groups = Mapping[int, Collection[int]]
"""Number of a socket or a NUMA node → its logical CPUs."""
Domains = list[list[int]]
"""The cores that share one socket and one NUMA node, ascending; those of the lowest core first."""
Siblings = Collection[Collection[int]]
"""The logical CPUs of each physical core."""


class CannotPlace(ValueError):
    """Ranks can't be placed: what was asked for, and what to do."""

    def __init__(self, seen: str, remedy: str) -> None:
        super().__init__(seen, remedy)
        self.seen, self.remedy = seen, remedy


def place_ranks(
    cores: Collection[int],
    sockets: Groups,
    nodes: Groups,
    siblings: Siblings,
    ranks: int,
    threads: int,
) -> tuple[tuple[int, ...], ...]:
    """Return the cores of each rank: `threads` each, neighbours in one socket and NUMA node.

    The sockets get equal numbers of ranks, as far as they have the cores, and so do the nodes of a
    socket, so that the memory of all of them is used; in a domain, ranks follow each other.
    Neighbours are cores between which no other one of `cores` is in the domain, apart from
    siblings: see `_shared_out`.

    cores: the logical CPUs to run on. siblings: one of none has a physical core of its own.
    threads: of each rank; 0 for the most that fit. Raises CannotPlace.
    """
    if ranks * max(1, threads) > len(cores):
        raise CannotPlace(
            f"ranks={ranks} x threads={max(1, threads)} is more than the {len(cores)} cores to run "
            "on",
            "Lower the knobs ranks or threads, or add cores with the knob cores.",
        )
    domains = domains_of(cores, sockets, nodes)
    width = threads or _widest(domains, ranks)
    if _room(domains, width) < ranks:
        sizes = ", ".join(str(len(domain)) for domain in domains)
        raise CannotPlace(
            f"ranks={ranks} x threads={width} puts a rank across sockets or NUMA nodes, which have "
            f"{sizes} of the cores",
            "Lower the knobs ranks or threads.",
        )
    on = [_group_of(domain[0], sockets) for domain in domains]
    counts = _spread([len(domain) // width for domain in domains], on, ranks)
    return tuple(
        rank
        for domain, count in zip(domains, counts, strict=True)
        for rank in _shared_out(_physical_cores(domain, siblings), count, width)
    )


def domains_of(cores: Collection[int], sockets: Groups, nodes: Groups) -> Domains:
    """Return the domains of some cores; those of unknown socket or node are taken to share one."""
    found = defaultdict[tuple[int, int], list[int]](list)
    for core in sorted(cores):
        found[_group_of(core, sockets), _group_of(core, nodes)].append(core)
    return list(found.values())


def _physical_cores(domain: Sequence[int], siblings: Siblings) -> list[list[int]]:
    """Return the logical CPUs of a domain by physical core, that with the lowest one first."""
    lowest = {cpu: min(core) for core in siblings for cpu in core}
    found: dict[int, list[int]] = {}
    for cpu in domain:
        found.setdefault(lowest.get(cpu, cpu), []).append(cpu)
    return list(found.values())


def _shared_out(cores: Sequence[Sequence[int]], ranks: int, threads: int) -> list[tuple[int, ...]]:
    """Return the logical CPUs of each rank in a domain that has room for them.

    One thread on a physical core if there are enough of them: two threads on one are far slower.
    Else ranks get whole physical cores, as long as there are any; what they leave is shared.

    cores: the logical CPUs of each physical core.
    """
    firsts = [core[0] for core in cores]
    if ranks * threads <= len(firsts):
        return _slices(firsts, ranks, threads)
    whole = sorted(_on_whole_cores(cores, threads)[:ranks])
    taken = {cpu for own in whole for cpu in own}
    # What nobody has a part of comes first: of the rest, a rank shares a core.
    left = sorted(cores, key=lambda core: not taken.isdisjoint(core))
    rest = [cpu for core in left for cpu in core if cpu not in taken]
    return [*whole, *_slices(rest, ranks - len(whole), threads)]


def _on_whole_cores(cores: Sequence[Sequence[int]], threads: int) -> list[tuple[int, ...]]:
    """Return the logical CPUs of as many ranks as find room without sharing a physical core."""
    found, free = [], list(cores)
    while len(own := _from_whole_cores(free, threads)) == threads:
        found.append(tuple(sorted(own)))
    return found


def _from_whole_cores(free: list[Sequence[int]], threads: int) -> list[int]:
    """Return logical CPUs of cores, which are taken out of those free; fewer if these have not
    enough. Cores of many CPUs are taken first, so that none is left of a rank's last core."""
    own = list[int]()
    while free and len(own) < threads:
        missing = threads - len(own)
        core = max((core for core in free if len(core) <= missing), key=len, default=free[0])
        free.remove(core)
        own += core[:missing]
    return own


def _slices(cpus: Sequence[int], ranks: int, threads: int) -> list[tuple[int, ...]]:
    return [tuple(sorted(cpus[place * threads : (place + 1) * threads])) for place in range(ranks)]


def _group_of(core: int, groups: Groups) -> int:
    return next((number for number, members in groups.items() if core in members), -1)


def _room(domains: Domains, threads: int) -> int:
    """Return how many ranks of some threads the domains have room for."""
    return sum(len(domain) // threads for domain in domains)


def _widest(domains: Domains, ranks: int) -> int:
    """Return the most threads with which all ranks find room; there are no fewer cores than
    ranks."""
    most = sum(map(len, domains)) // ranks
    return next(threads for threads in range(most, 0, -1) if _room(domains, threads) >= ranks)


def _spread(rooms: Sequence[int], sockets: Sequence[int], ranks: int) -> list[int]:
    """Return how many ranks each domain gets: one by one to the socket with the fewest, and there
    to the domain with the fewest.

    sockets: of each domain.
    """
    counts, of_socket = [0] * len(rooms), Counter[int]()
    for _ in range(ranks):
        free = (place for place, room in enumerate(rooms) if counts[place] < room)
        chosen = min(free, key=lambda place: (of_socket[sockets[place]], counts[place]))
        counts[chosen] += 1
        of_socket[sockets[chosen]] += 1
    return counts
