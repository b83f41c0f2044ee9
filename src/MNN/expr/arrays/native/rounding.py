"""An inner loop as numpy's are, for what numpy has none for: rounding with halves away from zero."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.targets.base import Target

_STEP = """
  %{p}from = getelementptr float, ptr %a, i64 %{i}
  %{p}x = load {f}, ptr %{p}from, align 4
  %{p}bits = bitcast {f} %{p}x to {n}
  %{p}sign = and {n} %{p}bits, {sign}
  %{p}half_bits = or {n} %{p}sign, {half}
  %{p}half = bitcast {n} %{p}half_bits to {f}
  %{p}moved = fadd {f} %{p}x, %{p}half
  %{p}cut = call {f} @llvm.trunc.{name}({f} %{p}moved)
  %{p}found = fadd {f} %{p}cut, {zero}
  %{p}to = getelementptr float, ptr %r, i64 %{i}
  store {f} %{p}found, ptr %{p}to, align 4
"""
"""The largest float below a half (0x3effffff) with the sign of each number is added before the fraction is cut off;
0 is not below zero."""
_WIDE = 8


def _splat(number: int) -> str:
    return "<" + ", ".join([f"i32 {number}"] * _WIDE) + ">"


_SIGN, _HALF = -(1 << 31), 0x3EFFFFFF
_TEXT = f"""
declare <{_WIDE} x float> @llvm.trunc.v{_WIDE}f32(<{_WIDE} x float>)
declare float @llvm.trunc.f32(float)
define void @kernel(ptr %places, ptr %counts, ptr %steps, ptr %given) {{
entry:
  %n = load i64, ptr %counts, align 8
  %a = load ptr, ptr %places, align 8
  %second = getelementptr ptr, ptr %places, i64 1
  %r = load ptr, ptr %second, align 8
  %wide = and i64 %n, {-_WIDE}
  br label %vectors
vectors:
  %i = phi i64 [ 0, %entry ], [ %i1, %vector ]
  %more = icmp slt i64 %i, %wide
  br i1 %more, label %vector, label %rest
vector:
{_STEP.format(p="v", i="i", f=f"<{_WIDE} x float>", n=f"<{_WIDE} x i32>", name=f"v{_WIDE}f32",
              sign=_splat(_SIGN), half=_splat(_HALF), zero="zeroinitializer")}
  %i1 = add i64 %i, {_WIDE}
  br label %vectors
rest:
  %j = phi i64 [ %wide, %vectors ], [ %j1, %one ]
  %left = icmp slt i64 %j, %n
  br i1 %left, label %one, label %done
one:
{_STEP.format(p="s", i="j", f="float", n="i32", name="f32", sign=_SIGN, half=_HALF, zero="0.0")}
  %j1 = add i64 %j, 1
  br label %rest
done:
  ret void
}}
"""  # fmt: skip


@dataclass(frozen=True)
class RoundingSpec(KernelSpec):
    """``void (char **places, const intptr_t *count, const intptr_t *steps, void *)`` of contiguous f32."""

    shaped: ClassVar[bool] = True

    def slots(self) -> tuple[str, ...]:
        return ()

    def key(self) -> str:
        return "RoundingSpec(1)"

    def emit(self, target: Target) -> str:
        del target
        return _TEXT


@functools.cache
def rounding_loop() -> tuple[int, int]:
    """Its address, and what it is to be given."""
    return shared_library(True).load([RoundingSpec()])[0], 0


__all__ = ["RoundingSpec", "rounding_loop"]
