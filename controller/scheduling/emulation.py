"""How outcomes of emulated devices are stored. Pure."""

from __future__ import annotations

from controller.contracts.device import EMULATED, Device
from controller.contracts.result import Outcome, Result, Validity

REASON = "emulated device: how long its answers take says nothing of any hardware"


def as_kept(outcome: Outcome, device: Device | None) -> Outcome:
    """Return an outcome as it is stored: a result of an emulated device is INVALID.

    Only VALID results are ranked, compared, used as baselines or exported. Emulation is read from
    the device and from the result's environment, so a result that calls itself VALID is caught too.
    """
    if not isinstance(outcome, Result):
        return outcome
    said = outcome.environment.get(EMULATED) is True
    if not (said or (device is not None and device.emulated)):
        return outcome
    return outcome.model_copy(
        update={
            "validity": Validity.INVALID,
            "reasons": tuple(dict.fromkeys((*outcome.reasons, REASON))),
            "environment": {**outcome.environment, EMULATED: True},
        }
    )
