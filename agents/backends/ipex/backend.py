"""Intel Extension for PyTorch, in a separate interpreter with the torch it was built for."""

from __future__ import annotations

from collections.abc import Mapping

import intel_extension_for_pytorch as ipex
import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from agents.backends.environment import onednn_said
from agents.backends.ipex.config import IpexConfig
from agents.backends.ipex.input_shapes import note_input_shapes
from agents.backends.torch_eager.backend import TorchEager
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Environment, Failure
from models.inference import InferenceWorkload
from models.training import Batch, Outputs, TrainingWorkload

FROZEN_BN = "FrozenBatchNorm2d"
"""Name of our and of torchvision's class with the buffers of ipex.nn.FrozenBatchNorm2d."""


class Ipex(TorchEager):
    """A TrainingBackend and an InferenceBackend."""

    def __init__(self, knobs: Mapping[str, Scalar]) -> None:
        super().__init__(knobs)
        self._ipex = IpexConfig.from_knobs(knobs)

    def prepare(self, workload: TrainingWorkload[Batch, Outputs]) -> tuple[Module, Optimizer]:
        """See TrainingBackend.prepare."""
        model = self._plain(workload.build_model())
        optimizer = workload.build_optimizer(model)
        if not self._ipex.optimize:
            return model, optimizer
        check_bf16(self._dtype)
        with self._precision():
            note_input_shapes(workload, model)
        optimized: tuple[Module, Optimizer] = ipex.optimize(
            model, dtype=self._dtype, optimizer=optimizer, inplace=True
        )
        return optimized

    def gradient(self, optimizer: Optimizer, parameter: Tensor) -> Tensor | None:
        """See OwnGradients.gradient: weights may be packed for oneDNN."""
        found = parameter.grad
        wrappers = getattr(optimizer, "params_attr", {}).values()
        mine = next((one for one in wrappers if one.parameter is parameter), None)
        if found is None or mine is None or mine.op_ctx is None:
            return found
        plain: Tensor = mine.op_ctx.to_public(found.float())
        return plain

    def prepare_inference(self, workload: InferenceWorkload[Outputs], samples: Tensor) -> Module:
        """See InferenceBackend.prepare_inference.

        Without a sample, ipex.optimize lays the weights out for another shape, and each call lays
        them out again: 27 times as slow as plain torch was seen.
        """
        model = self._plain(workload.build_model()).eval()
        if not self._ipex.optimize:
            return model
        check_bf16(self._dtype)
        with torch.no_grad():  # it traces the model, as queries will run it
            optimized: Module = ipex.optimize(
                model, dtype=self._dtype, inplace=True, sample_input=workload.arguments(samples)
            )
        return optimized

    @property
    def _dtype(self) -> torch.dtype:
        return torch.bfloat16 if self._config.bf16 else torch.float32

    def _plain(self, model: Module) -> Module:
        """Return the model in the selected form, before ipex.optimize."""
        if self._ipex.frozen_bn:
            swap_frozen_bn(model)
        return self._laid_out(model)

    def environment(self) -> Environment:
        """See TrainingBackend.environment; IPEX has a oneDNN of its own beside torch's."""
        version, isa = onednn_said(_call_ipex_onednn)
        return {**super().environment(), "ipex_onednn": version, "ipex_onednn_isa": isa}


def check_bf16(dtype: torch.dtype) -> None:
    """Raise WorkerFault if ipex.optimize takes no such model on this CPU."""
    if dtype is torch.bfloat16 and not ipex._C.onednn_has_bf16_support():
        message = (
            "cannot optimize the model for bf16: IPEX lays weights out in bf16 only on CPUs with "
            "AVX-512 or AVX-NE-CONVERT, which this one lacks. Set the knob precision to fp32, "
            "ipex_optimize to false, or choose another device."
        )
        raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))


def swap_frozen_bn(model: Module) -> None:
    """Replace frozen norms by ipex's, one operator each; raises WorkerFault if the model has
    none."""
    found = [(n, m) for n, m in model.named_modules() if type(m).__name__ == FROZEN_BN]
    if not found:
        message = (
            f"cannot apply ipex_frozen_bn: the model has no {FROZEN_BN} to replace. "
            "Set the workload's knob frozen_bn to mul_add."
        )
        raise WorkerFault(Failure(blame=Blame.USER, kind="knobs", message=message))
    for name, norm in found:
        own = ipex.nn.FrozenBatchNorm2d(len(norm.weight), eps=norm.eps)
        own.load_state_dict(norm.state_dict())
        model.set_submodule(name, own)


def _call_ipex_onednn() -> None:
    with ipex.verbose(ipex.VERBOSE_ON):
        ipex.nn.FrozenBatchNorm2d(16)(torch.ones(1, 16, 4, 4))
