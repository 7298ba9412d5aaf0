"""How ranks find each other: by a file on one host, by a TCP port of the first of several hosts."""

from __future__ import annotations

import resource
import socket
from datetime import timedelta
from typing import Any, Final

import torch
from torch import distributed

from agents.ranks.gradients import exchanging
from agents.ranks.protocol import FarRankFigures, RankStep
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from controller.contracts.wire import HostShare, RankPlace

_BYTES_PER_KIB: Final = 1024


def join(place: RankPlace, share: HostShare | None, deadline_s: float) -> None:
    """Meet the other ranks; returns once all are there. Raises WorkerFault.

    Nothing that listens here outlives this process.
    """
    limit = timedelta(seconds=deadline_s)
    with exchanging():
        if share is None:
            store = distributed.FileStore(  # type: ignore[attr-defined]
                place.meeting_point, place.ranks
            )
        else:
            store = _shared_store(place, share, limit)
        distributed.init_process_group(
            "gloo", store=store, rank=place.rank, world_size=place.ranks, timeout=limit
        )


def _shared_store(place: RankPlace, share: HostShare, limit: timedelta) -> Any:  # noqa: ANN401
    """Return the store at the first host, which its first rank serves at the host's address."""
    address = share.hosts[0].address
    serves = place.rank == 0
    return distributed.TCPStore(  # type: ignore[attr-defined]
        address,
        share.port,
        place.ranks,
        serves,
        limit,
        master_listen_fd=_listening(address, share.port) if serves else None,
    )


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
