"""The administrator's part of the HTTP interface.

POST /v1/admin/devices/{id}/quarantine   Reason → ChangedDevice
POST /v1/admin/devices/{id}/release      ReleaseRequest → ChangedDevice
POST /v1/admin/devices/{id}/probe        Reason → ChangedDevice
POST /v1/admin/devices/{id}/book         BookRequest → NewBooking
POST /v1/admin/devices/{id}/label        LabelRequest → ChangedDevice
POST /v1/admin/devices/{id}/rename       RenameRequest → ChangedDevice
POST /v1/admin/devices/{id}/forget       Reason → ChangedDevice
GET  /v1/admin/held-up                   → HeldUpList
GET  /v1/admin/files                     → StoredFiles
POST /v1/admin/agents/{id}/revoke        Reason → Count
POST /v1/admin/agents/{id}/admit         Reason → Count
POST /v1/admin/agents/{id}/drain         Reason → ChangedDrain
POST /v1/admin/agents/{id}/undrain       Reason → ChangedDrain
GET  /v1/admin/agents/{id}/drain         → AgentDrain
POST /v1/admin/tokens                    TokenRequest → NewToken
POST /v1/admin/tokens/revoke             TokenRequest → TokenList
GET  /v1/admin/tokens                    → TokenList

A device's id may be its name or the beginning of one of them, as `references` reads it; so may an
agent's that is to be drained, or its host's.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from controller.contracts.administration import (
    ADMINISTRATION,
    FILES,
    HELD_UP,
    BookRequest,
    ChangedDevice,
    Count,
    HeldUpList,
    LabelRequest,
    NewBooking,
    NewTokenRequest,
    Reason,
    ReleaseRequest,
    RenameRequest,
    StoredFiles,
    TokenList,
    TokenRequest,
)
from controller.contracts.device import Booking
from controller.contracts.records import ADMIN
from controller.runtime.access import Access
from controller.runtime.farm import Farm
from controller.runtime.http_json import answer, read_body
from controller.scheduling.device_life import (
    Booked,
    DeviceEvent,
    Forgotten,
    Labelled,
    ProbeWanted,
    Quarantined,
    Released,
    Renamed,
)


def administration_routes(farm: Farm, access: Access) -> list[web.RouteDef]:
    """Return the routes; their caller has been authorised before."""
    routes = _Administration(farm, access)
    device, agent = f"{ADMINISTRATION}devices/{{id}}/", f"{ADMINISTRATION}agents/{{id}}/"
    return [
        web.post(f"{device}quarantine", routes.quarantine),
        web.post(f"{device}release", routes.release),
        web.post(f"{device}probe", routes.probe),
        web.post(f"{device}book", routes.book),
        web.post(f"{device}label", routes.label),
        web.post(f"{device}rename", routes.rename),
        web.post(f"{device}forget", routes.forget),
        web.get(f"{ADMINISTRATION}{HELD_UP}", routes.held_up),
        web.get(f"{ADMINISTRATION}{FILES}", routes.files),
        web.post(f"{agent}revoke", routes.revoke_agent),
        web.post(f"{agent}admit", routes.admit_agent),
        web.post(f"{agent}drain", routes.drain_agent),
        web.post(f"{agent}undrain", routes.undrain_agent),
        web.get(f"{agent}drain", routes.agent_drain),
        web.post(f"{ADMINISTRATION}tokens", routes.create_token),
        web.post(f"{ADMINISTRATION}tokens/revoke", routes.revoke_token),
        web.get(f"{ADMINISTRATION}tokens", routes.tokens),
    ]


class _Administration:
    def __init__(self, farm: Farm, access: Access) -> None:
        self._farm = farm
        self._access = access

    async def quarantine(self, request: web.Request) -> web.StreamResponse:
        why = (await read_body(Reason, request, "quarantine a device")).why
        return self._apply_event(request, Quarantined(ADMIN, why), why)

    async def release(self, request: web.Request) -> web.StreamResponse:
        asked = await read_body(ReleaseRequest, request, "release a device")
        event = Released(None if asked.everyone else ADMIN)
        return self._apply_event(request, event, f"released: {asked.why}")

    async def probe(self, request: web.Request) -> web.StreamResponse:
        why = (await read_body(Reason, request, "probe a device")).why
        self._farm.require_probed(self._device(request))
        return self._apply_event(request, ProbeWanted(), f"to be probed: {why}")

    async def book(self, request: web.Request) -> web.StreamResponse:
        asked = await read_body(BookRequest, request, "reserve a device")
        if asked.user is not None:
            tried = f"reserve device {self._device(request)} for {asked.user}"
            self._access.require_known(asked.user, tried)
        begins = self._farm.now() + asked.starts_in_s
        booking = Booking(
            begins=begins, ends=begins + asked.for_s, user=asked.user, who=ADMIN, why=asked.why
        )
        said = f"booked {booking.words}: {booking.why}"
        status = self._changed(request, Booked(booking), said)
        return answer(NewBooking(booking=booking, status=status))

    async def label(self, request: web.Request) -> web.StreamResponse:
        labels = (await read_body(LabelRequest, request, "label a device")).labels
        said = " ".join(f"{n}={v}" if v is not None else f"{n}-" for n, v in labels.items())
        return self._apply_event(request, Labelled(labels), f"labelled: {said}")

    async def rename(self, request: web.Request) -> web.StreamResponse:
        name = (await read_body(RenameRequest, request, "rename a device")).name
        said = f"renamed to {name}" if name else "its name was taken away"
        return self._apply_event(request, Renamed(name), said)

    async def forget(self, request: web.Request) -> web.StreamResponse:
        why = (await read_body(Reason, request, "forget a device")).why
        return self._apply_event(request, Forgotten(), f"forgotten: {why}")

    async def held_up(self, _: web.Request) -> web.StreamResponse:
        return answer(HeldUpList(runs=self._farm.held_up()))

    async def files(self, _: web.Request) -> web.StreamResponse:
        return answer(StoredFiles(files=self._farm.stored_files()))

    async def revoke_agent(self, request: web.Request) -> web.StreamResponse:
        why = (await read_body(Reason, request, "revoke an agent")).why
        return answer(Count(runs=self._farm.revoke(_id(request), ADMIN, why)))

    async def admit_agent(self, request: web.Request) -> web.StreamResponse:
        await read_body(Reason, request, "admit an agent")
        self._farm.admit(_id(request))
        return answer(Count(runs=0))

    async def drain_agent(self, request: web.Request) -> web.StreamResponse:
        why = (await read_body(Reason, request, "drain an agent")).why
        drains, agent_id = self._farm.drains, self._agent(request)
        found = drains.begin(agent_id, ADMIN, why)
        waiting = await asyncio.to_thread(drains.waiting(agent_id))
        return answer(found.model_copy(update={"waiting": waiting}))

    async def undrain_agent(self, request: web.Request) -> web.StreamResponse:
        why = (await read_body(Reason, request, "end an agent's drain")).why
        return answer(self._farm.drains.end(self._agent(request), ADMIN, why))

    async def agent_drain(self, request: web.Request) -> web.StreamResponse:
        return answer(self._farm.drains.now(self._agent(request)))

    async def create_token(self, request: web.Request) -> web.StreamResponse:
        asked = await read_body(NewTokenRequest, request, "create a token")
        return answer(self._access.create(asked.name, asked.scope))

    async def revoke_token(self, request: web.Request) -> web.StreamResponse:
        asked = await read_body(TokenRequest, request, "revoke a token")
        self._access.revoke(asked.name)
        return answer(TokenList(tokens=tuple(self._access.list())))

    async def tokens(self, _: web.Request) -> web.StreamResponse:
        return answer(TokenList(tokens=tuple(self._access.list())))

    def _apply_event(self, request: web.Request, event: DeviceEvent, why: str) -> web.Response:
        return answer(self._changed(request, event, why))

    def _changed(self, request: web.Request, event: DeviceEvent, why: str) -> ChangedDevice:
        return self._farm.apply_event(self._device(request), event, ADMIN, why)

    def _agent(self, request: web.Request) -> str:
        return self._farm.drains.find(_id(request))

    def _device(self, request: web.Request) -> str:
        return self._farm.find_device(_id(request))


def _id(request: web.Request) -> str:
    return request.match_info["id"]
