"""The operators of benchfarm; torch is imported only when an operator is first used.

`kernels.NAME` is the function NAME of kernels/ops/NAME.py, for every module there. For type
checkers, import the function with `from kernels.ops.NAME import NAME`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

OPERATORS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("ops/[!_]*.py")))
"""Names of all operators: the modules of kernels/ops."""

__all__ = ["capabilities", *OPERATORS]

# transformers queries the version of an installed package `kernels`; "0" means that this is not
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
