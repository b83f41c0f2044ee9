"""Small kernels for tests of the runtime."""

from __future__ import annotations

import dataclasses
import functools

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.targets.base import Target, host_target

_COUNT = """
; out[b] += 1 for every block; scratch[0] counts the blocks of this thread. args: out, turns of extra work per block
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %out = load ptr, ptr %args
  %p = getelementptr i64, ptr %args, i64 1
  %turns = load i64, ptr %p
  br label %head
head:
  %b = phi i64 [ %begin, %entry ], [ %b1, %tail ]
  %more = icmp slt i64 %b, %end
  br i1 %more, label %body, label %leave
body:
  %q = getelementptr i64, ptr %out, i64 %b
  %v = load i64, ptr %q
  %v1 = add i64 %v, 1
  store i64 %v1, ptr %q
  %s = load i64, ptr %scratch
  %s1 = add i64 %s, 1
  store i64 %s1, ptr %scratch
  br label %work
work:
  %t = phi i64 [ 0, %body ], [ %t1, %work ]
  store volatile i64 %t, ptr %scratch.8
  %t1 = add i64 %t, 1
  %again = icmp slt i64 %t1, %turns
  br i1 %again, label %work, label %tail
tail:
  %b1 = add i64 %b, 1
  br label %head
leave:
  ret void
}
""".replace("entry:\n", "entry:\n  %scratch.8 = getelementptr i64, ptr %scratch, i64 1\n", 1)

_FAIL = """
; *args[0] = 1 (i32): what a gather does for an index out of range
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %error = load ptr, ptr %args
  store i32 1, ptr %error
  ret void
}
"""

_HALVE = """
; out[b] /= 2 (f32) for every block
define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
entry:
  %out = load ptr, ptr %args
  br label %head
head:
  %b = phi i64 [ %begin, %entry ], [ %b1, %body ]
  %more = icmp slt i64 %b, %end
  br i1 %more, label %body, label %leave
body:
  %q = getelementptr float, ptr %out, i64 %b
  %v = load float, ptr %q
  %v1 = fmul float %v, 5.0e-01
  store float %v1, ptr %q
  %b1 = add i64 %b, 1
  br label %head
leave:
  ret void
}
"""


@dataclasses.dataclass(frozen=True)
class _Text(KernelSpec):
    text: str

    def slots(self) -> tuple[str, ...]:
        return ()

    def emit(self, target: Target) -> str:
        return self.text


@functools.cache
def address(name: str) -> int:
    """The address of the kernel "count", "fail" or "halve"."""
    return Library(host_target()).load([_Text({"count": _COUNT, "fail": _FAIL, "halve": _HALVE}[name])])[0]
