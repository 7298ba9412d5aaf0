"""How ranks find each other: by a file on one host, by a TCP port of the first of several hosts."""

from __future__ import annotations

import math
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import torch
from torch import distributed

from agents.ranks.gradients import exchanging
from agents.ranks.protocol import FarRankFigures, RankStep
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from controller.contracts.wire import HostShare, RankPlace

MEETING_S: Final = 900.0
"""How long ranks wait for those of other hosts: longer than a host waits for cores that other users
hold (agents/host/cores.py)."""
_MET: Final = "all ranks have met"
_LOOK_S: Final = 0.5
"""How often a rank looks whether the first one listens."""
_ANSWER_S: Final = 5.0
"""How long it may take to connect."""
_LEAST_S: Final = 1.0
"""What a rank that connects late has at least for meeting the others."""
_BYTES_PER_KIB: Final = 1024


def join(
    place: RankPlace, share: HostShare | None, deadline_s: float, meeting_s: float = MEETING_S
) -> None:
    """Meet the other ranks; returns once all are there. Raises WorkerFault.

    meeting_s: longest wait for other hosts, if it is less than half the deadline. Two farms may
    hold the cores for which the other one's ranks wait, so that none of them ever come.

    Nothing that listens here outlives this process.
    """
    backend = "gloo"
    if share is None:
        store = distributed.FileStore(  # type: ignore[attr-defined]
            place.meeting_point, place.ranks
        )
    else:
        within_s = min(meeting_s, deadline_s / 2)
        with _meeting(share, within_s):
            store = _shared_store(place, share, within_s)
        backend = _gloo_at(share.hosts[share.index].address)
    limit = timedelta(seconds=deadline_s)
    with exchanging():
        distributed.init_process_group(
            backend, store=store, rank=place.rank, world_size=place.ranks, timeout=limit
        )


@contextmanager
def _meeting(share: HostShare, within_s: float) -> Iterator[None]:
    """Meet the ranks of other hosts in this context; raises WorkerFault if they don't come."""
    began_s = time.monotonic()
    try:
        with exchanging():
            yield
    except WorkerFault as fault:
        if time.monotonic() - began_s < within_s:  # a rank was lost, or this one can't listen
            raise
        names = ", ".join(host.name for host in share.hosts)
        message = (
            f"the ranks of the hosts {names} did not meet within {within_s:g} s at "
            f"{share.hosts[0].address}, port {share.port}: a host waits for its cores, or "
            "the port is closed. Look at `benchfarm device list` for who holds the cores, and "
            "open all TCP ports between the hosts."
        )
        failure = Failure(blame=Blame.HARNESS, kind="rendezvous", message=message)
        raise WorkerFault(failure) from fault


def _shared_store(place: RankPlace, share: HostShare, within_s: float) -> Any:  # noqa: ANN401
    """Return the store at the first host, which its first rank serves at the host's address, when
    all ranks are there: what follows may take until the deadline."""
    end_s = time.monotonic() + within_s
    address = share.hosts[0].address
    serves = place.rank == 0
    if not serves:  # torch waits up to twice as long as it is told for one that does not listen
        _wait_for_listener(address, share.port, end_s)
    store = distributed.TCPStore(  # type: ignore[attr-defined]
        address,
        share.port,
        place.ranks,
        serves,
        _left(end_s),
        master_listen_fd=_listening(address, share.port) if serves else None,
    )
    if serves:  # it alone has waited for the others
        store.set(_MET, "")
    else:
        store.wait([_MET], _left(end_s))
    return store


def _wait_for_listener(address: str, port: int, end_s: float) -> None:
    """Return once a connection is accepted; raises RuntimeError if none is until end_s."""
    while True:
        timeout_s = min(_ANSWER_S, _left(end_s).total_seconds())
        try:
            socket.create_connection((address, port), timeout_s).close()
        except OSError as error:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise RuntimeError(f"{address}, port {port}: {error}") from error
            time.sleep(min(_LOOK_S, left_s))
        else:
            return


def _left(end_s: float) -> timedelta:
    """Return the time until end_s in whole milliseconds, as torch counts: never less."""
    left_s = max(_LEAST_S, end_s - time.monotonic())
    return timedelta(milliseconds=math.ceil(left_s * 1000))


def _gloo_at(address: str) -> str:
    """Return the name of a gloo that listens at one address of this host only: by itself it would
    at the first one of the interface, which other hosts may not reach."""
    gloo = distributed.ProcessGroupGloo

    def made(store: Any, rank: int, ranks: int, limit: timedelta) -> Any:  # noqa: ANN401
        options = gloo._Options()  # type: ignore[attr-defined]
        options._devices = [gloo.create_device(hostname=address)]
        options._timeout = limit
        return gloo(store, rank, ranks, options)

    name = "gloo_at_address"
    distributed.Backend.register_backend(name, made, devices=["cpu"])
    return name


def _listening(address: str, port: int) -> int:
    """Return a socket that listens at one address only; raises WorkerFault."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family).detach()
    except OSError as error:
        message = f"ranks cannot meet at {address}, port {port}: {error}"
        failure = Failure(blame=Blame.HARNESS, kind="rendezvous", message=message)
        raise WorkerFault(failure) from None


def with_far_ranks(step: RankStep, place: RankPlace) -> RankStep:
    """Exchange what a step took with all ranks; return this rank's message. Raises WorkerFault.

    So no rank goes on before all have done the step.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_PER_KIB
    own = (step.loss, step.seconds, step.computed_s, step.exchanged_s, float(peak))
    rows = [torch.zeros(len(own), dtype=torch.float64) for _ in range(place.ranks)]
    with exchanging():
        distributed.all_gather(rows, torch.tensor(own, dtype=torch.float64))
    first = place.rank - place.rank % place.local
    if place.rank != first:
        return step
    far = [*rows[:first], *rows[first + place.local :]]
    return step.model_copy(update={"elsewhere": tuple(_figures(row) for row in far)})


def _figures(row: torch.Tensor) -> FarRankFigures:
    loss, seconds, computed_s, exchanged_s, peak = row.tolist()
    return FarRankFigures(
        loss=loss,
        seconds=seconds,
        computed_s=computed_s,
        exchanged_s=exchanged_s,
        peak_memory_bytes=peak,
    )
