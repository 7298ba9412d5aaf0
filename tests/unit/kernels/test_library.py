"""Which variant runs, and what happens where none can."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernels import build
from kernels.library import REFERENCE, VARIABLE, KernelsUnusable, capabilities, choose, function


def test_the_best_variant_is_chosen() -> None:
    chosen = choose("", build.LIBRARY)
    assert chosen.supported[:2] == (REFERENCE, "scalar")
    assert chosen.variant == chosen.supported[-1]


def test_variants_are_offered_as_the_cpu_has_them() -> None:
    flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
    needs = {
        "avx2": {"avx2", "fma"},
        "avx512": {"avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"},
    }
    needs["avx512_bf16"] = needs["avx512"] | {"avx512_bf16"}
    for name, needed in needs.items():
        assert (name in choose("", build.LIBRARY).supported) == (needed <= flags)


@pytest.mark.parametrize("wanted", [REFERENCE, "scalar"])
def test_a_variant_can_be_forced(wanted: str) -> None:
    assert choose(wanted, build.LIBRARY).variant == wanted


def test_a_variant_nobody_knows_is_refused() -> None:
    with pytest.raises(KernelsUnusable, match=r"BENCHFARM_KERNELS=mmx: .* reference, scalar"):
        choose("mmx", build.LIBRARY)


def test_without_a_library_plain_torch_serves(tmp_path: Path) -> None:
    chosen = choose("", tmp_path / "none.so")
    assert (chosen.variant, chosen.supported) == (REFERENCE, (REFERENCE,))
    assert "not compiled" in chosen.reason
    with pytest.raises(KernelsUnusable, match=r"=avx2: .* reference: they are not compiled"):
        choose("avx2", tmp_path / "none.so")


def test_a_library_that_cannot_be_loaded_is_as_good_as_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"not a library")
    assert choose("", broken).variant == REFERENCE


def test_plain_torch_is_said_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    missing = tmp_path / "none.so"
    with pytest.warns(RuntimeWarning, match="kernels run in plain torch"):
        capabilities(missing)
    capabilities(missing)  # a second warning would be an error here


def test_a_library_of_other_sources_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.so"
    copy.write_bytes(build.LIBRARY.read_bytes())
    monkeypatch.setattr(build, "digest", lambda: "0" * 16)
    with pytest.raises(KernelsUnusable, match="older than its sources"):
        choose("", copy)
    plain = choose(REFERENCE, copy)
    assert (plain.variant, plain.supported) == (REFERENCE, (REFERENCE,))


def test_every_signature_is_exported(variant: str) -> None:
    for name in ("sigmoid_focal_loss_from_labels_forward", "sigmoid_focal_loss_backward"):
        for element in ("f32", "bf16"):
            assert function(f"{name}_{element}", variant) is not None


def test_importing_the_package_loads_neither_torch_nor_the_library() -> None:
    script = "import sys, kernels; print('torch' in sys.modules, kernels.__version__)"
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.split() == ["False", "0"]
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        __import__("kernels").nothing_of_the_kind  # noqa: B018
