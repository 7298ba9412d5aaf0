"""Marks a training step's phases and the modules' forward passes in a trace.

torch.profiler itself marks autograd's engine, and optimizers unless a stack replaced their step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn import Module
from torch.profiler import record_function
from torch.utils.hooks import RemovableHandle

from controller.profiles.marks import MODULE, PHASE


def phase_marked(phase: str) -> record_function:
    """Return the context that marks a phase."""
    return record_function(f"{PHASE}{phase}")


@contextmanager
def modules_marked(model: Module) -> Iterator[None]:
    """Mark the forward pass of every module; a compiled model is marked only as a whole."""
    open_marks: list[record_function] = []
    handles: list[RemovableHandle] = []

    def begin(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:  # noqa: ANN401 - whatever the module is given
            mark = record_function(f"{MODULE}{name}")
            mark.__enter__()  # type: ignore[no-untyped-call]
            open_marks.append(mark)

        return hook

    def end(*_: Any) -> None:  # noqa: ANN401 - as above
        open_marks.pop().__exit__(None, None, None)

    compiled = hasattr(model, "_orig_mod")
    named = [("", model)] if compiled else list(model.named_modules())
    for path, module in named:
        name = path or type(getattr(model, "_orig_mod", model)).__name__
        handles.append(module.register_forward_pre_hook(begin(name)))
        handles.append(module.register_forward_hook(end, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
