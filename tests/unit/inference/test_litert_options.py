"""What Interpreter does not offer, as docs/mobile.md says: a release that does fails here."""

from __future__ import annotations

import ctypes
import inspect
from pathlib import Path

import ai_edge_litert
from ai_edge_litert.cpu_options import CpuOptions
from ai_edge_litert.interpreter import Interpreter

PACKAGE = Path(ai_edge_litert.__path__[0])
OF_XNNPACK = {"xnnpack_flags", "xnnpack_weight_cache_path"}


def test_the_interpreter_takes_no_options_for_xnnpack() -> None:
    taken = inspect.signature(Interpreter.__init__).parameters
    assert {"num_threads", "experimental_delegates"} <= taken.keys()
    assert not any("xnnpack" in name or "cpu_options" in name for name in taken)
    assert inspect.signature(CpuOptions).parameters.keys() >= OF_XNNPACK, (
        "CompiledModel's have them"
    )


def test_no_library_makes_a_delegate_with_them() -> None:
    library = ctypes.CDLL(str(PACKAGE / "libLiteRt.so"))
    names = (
        "LiteRtCreateCompiledModel",
        "tflite_plugin_create_delegate",
        "TfLiteXNNPackDelegateCreate",
    )
    assert [hasattr(library, name) for name in names] == [True, False, False]
