"""`benchfarm device rename` and `forget`, and how a device is named on the command line."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from controller.cli.common import checked
from controller.cli.meant import farm_client
from controller.contracts.administration import ChangedDevice, Reason, RenameRequest
from controller.contracts.errors import UserError
from controller.platform.terminal import say

DeviceId = Annotated[
    str, typer.Argument(help="Device: its id or name, its host, or the beginning of one.")
]
Why = Annotated[str, typer.Option("--why", help="Reason, kept in the device's history.")]


def rename(
    device: DeviceId,
    name: Annotated[
        str | None, typer.Argument(help="Name, used wherever a device is shown or asked for.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the name away.")] = False,
) -> None:
    """Give a device a name, or take it away.

    No two devices have the same name.
    """
    if (name is None) is not clear:
        seen = "there is no name" if name is None else "--clear and a name are both given"
        remedy = "Run `benchfarm device rename DEVICE NAME`, or with `--clear` instead of a name."
        raise UserError(f"rename device {device}", seen, remedy)
    body = checked(RenameRequest, {"name": f"name {name}"}, name=name)
    now = farm_client().administer(ChangedDevice, device_path(device, "rename"), body)
    say(f"device {now.device}: its name is {now.device_name}")


def forget(device: DeviceId, why: Why = "by hand") -> None:
    """Remove a device that is away; its results are kept.

    Its name, labels, bookings and quarantine go with it. It comes back when its agent registers
    it again.
    """
    body = checked(Reason, why=why)
    gone = farm_client().administer(ChangedDevice, device_path(device, "forget"), body)
    say(f"device {gone.device}: forgotten; its results are kept")


def device_path(device: str, verb: str) -> str:
    """Return the administrator's route of a verb about a device, without its prefix."""
    return f"devices/{quote(device, safe='')}/{verb}"
