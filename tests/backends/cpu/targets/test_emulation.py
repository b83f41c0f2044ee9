"""Features lent by ``MNN_TARGET`` are chosen by and not used (plain code itself: ``test_instructions.py``)."""

from __future__ import annotations

import dataclasses
import platform

import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.lang.module import I64, Kernel
from MNN.backends.cpu.lang.types import int_type
from MNN.backends.cpu.targets import host_target
from MNN.backends.cpu.targets.base import Target
from MNN.errors import UnsupportedError
from tests.backends.cpu.util import ENTRY_TYPE

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86's instructions")


def test_what_is_lent_is_chosen_by_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TARGET", "avx2,+avxvnniint8,+avxifma")
    target = host_target()
    assert target.has("avxvnniint8")
    lent = set(target.emulated)
    assert lent <= {"avxvnniint8", "avxifma"}
    assert not lent.intersection(target.instructions)
    assert not any(f"+{f}" in target.feature_string.split(",") for f in lent)
    monkeypatch.delenv("MNN_TARGET")
    assert target.key() != host_target().key()


def test_a_feature_that_is_there_can_be_emulated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    feature = next((f for f in ("avx512vnni", "avxvnni") if host_target().has(f)), None)
    name = "avx512" if feature == "avx512vnni" else "avx2"
    if feature is not None:
        monkeypatch.setenv("MNN_TARGET", f"{name},-{feature},+{feature}")
        assert feature in host_target().emulated


def test_what_cannot_be_emulated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TARGET", "avx2,+warp-drive")
    with pytest.raises(UnsupportedError, match="warp-drive cannot be emulated; known: amx-bf16"):
        host_target()


@dataclasses.dataclass(frozen=True)
class _Tails(KernelSpec):
    """The first n of both rows of x, and where they end ones, or what is there already, in the rows of y."""

    bits: int

    def slots(self) -> tuple[str, ...]:
        return ("x", "y", "n")

    def emit(self, target: Target) -> str:
        there = [f for f in target.instructions if not f.startswith("avx512")]
        k = Kernel(self.slots(), 512, target.has_fma, there, "", ["avx512bw"])
        b, x, y, lanes = k.b, k.pointer("x"), k.pointer("y"), 512 // self.bits
        t, mask = int_type(self.bits).vec(lanes), b.prefix_mask(k.slot("n"), lanes)
        for row in range(2):
            first, second = (b.gep(p, t.element, b.const(I64, row * lanes)) for p in (x, y))
            given = b.load_masked(t, first, mask, b.const(t, 1) if row else None)
            b.store_masked(given, second, mask)
            b.store(given, b.gep(y, t.element, b.const(I64, (2 + row) * lanes)))
        return k.finish()


@pytest.mark.parametrize("bits", [8, 16])
def test_masks_of_small_elements_are_in_a_module_once(bits: int) -> None:
    """They are a branch for every lane: so many of them that a kernel with 120 took LLVM 8 s."""
    target, spec, lanes = host_target(), _Tails(bits), 512 // bits
    text = spec.emit(target)
    assert text.count("@llvm.masked.") == 4  # called once and declared, each
    address = Library(target).load([spec])[0]
    kind = np.dtype(f"i{bits // 8}")
    x = np.random.default_rng(bits).integers(2, 100, (2, lanes)).astype(kind)
    for n in (0, 1, lanes // 2 + 1, lanes):
        y = np.full((4, lanes), -1, kind)
        args = np.array([x.ctypes.data, y.ctypes.data, n], np.int64)
        ENTRY_TYPE(address)(args.ctypes.data, 0, 1, None)
        on = np.arange(lanes) < n
        want = [np.where(on, x, -1), np.where(on, x, [[0], [1]])]
        np.testing.assert_array_equal(y, np.concatenate(want))
