"""The implementations of RetinaNet: the project's, and torchvision's if it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Failure
from models.retinanet.workload import RetinaNetTraining

if TYPE_CHECKING:
    from models.retinanet.torchvision_reference import TorchvisionTraining

OURS = "benchfarm"
TORCHVISION = "torchvision"


def retinanet_training(
    implementation: str,
    **arguments: Any,  # noqa: ANN401 - passed on
) -> RetinaNetTraining | TorchvisionTraining:
    """Return the workload of an implementation; arguments are those of RetinaNetTraining.

    Raises WorkerFault, blame user, if torchvision's is requested but not installed, or requested
    with a switch, which it doesn't have.
    """
    ours = RetinaNetTraining(**arguments)
    if implementation == OURS:
        return ours
    if find_spec("torchvision") is None:
        raise _refusal("this stack has no torchvision. Use stack ipex.")
    if not ours.is_plain:
        raise _refusal("it has none of the switches. Leave them at their defaults.")
    from models.retinanet.torchvision_reference import TorchvisionTraining

    return TorchvisionTraining(ours)


def _refusal(why: str) -> WorkerFault:
    message = f"cannot use implementation {TORCHVISION}: {why}"
    return WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
