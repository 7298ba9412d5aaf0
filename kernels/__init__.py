"""Operators of benchfarm; imports torch only, and only once an operator is asked for.

`kernels.NAME` is the function NAME of kernels/ops/NAME.py, whatever operators that folder has. A
type checker sees the function's types in `from kernels.ops.NAME import NAME` only.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

OPERATORS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("ops/[!_]*.py")))
"""Names of all operators: the modules of kernels/ops."""

__all__ = ["capabilities", *OPERATORS]

# transformers asks an installed `kernels` package for its version; "0" tells it that this is not
# Hugging Face's.
__version__ = "0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any operator
    if name not in __all__:
        raise AttributeError(f"module 'kernels' has no attribute {name!r}")
    module = "kernels.library" if name == "capabilities" else f"kernels.ops.{name}"
    globals()[name] = value = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
