"""``MNN_POISON=1``: what nobody has written is NaN, and everything else is as it was."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.base.arena import aligned_bytes
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.poison import fill
from MNN.backends.base.program import Buffer, Command, Ref
from MNN.backends.cpu.binding import poison
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.native_loop.native import Command as Row
from MNN.backends.cpu.native_loop.native import NativeProgram
from MNN.backends.cpu.targets import Target, host_target
from MNN.errors import MNNError
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.runtime.models import convolutions

FEEDS = {"x": np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)}


@dataclasses.dataclass(frozen=True)
class Careless(KernelSpec):
    """``out[block] = scratch[0]``, which it never writes before it has read it. Scratch lasts from block to block."""

    def slots(self) -> tuple[str, ...]:
        return ("out",)

    def emit(self, target: Target) -> str:
        lines = (
            "define void @kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch) {",
            "%out = load ptr, ptr %args",
            "br label %next",
            "next:",
            "%block = phi i64 [ %begin, %0 ], [ %after, %next ]",
            "%at = getelementptr float, ptr %out, i64 %block",
            "%x = load float, ptr %scratch",
            "store float %x, ptr %at",
            "store float 1.0, ptr %scratch",
            "%after = add i64 %block, 1",
            "%more = icmp slt i64 %after, %end",
            "br i1 %more, label %next, label %done",
            "done:",
            "ret void",
            "}",
        )
        return "\n".join(lines)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_pattern_is_nan_of_every_kind(dtype: type) -> None:
    memory = aligned_bytes(4096, zero=True)
    fill(memory)
    assert np.isnan(memory.view(dtype)).all()
    assert (np.abs(memory.view(np.int32).astype(np.int64)) > 1 << 30).all()


def test_every_block_finds_its_scratch_unwritten() -> None:
    (kernel,) = Library(host_target()).load([Careless()])
    out = np.zeros(5, np.float32)
    row = Row(poison.alone(kernel, aligned_bytes(64)), [out.ctypes.data], out.size, 1 << 62)
    NativeProgram([row]).run()
    assert np.isnan(out).all()


def test_blocks_of_a_product_are_alone_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later as many together as a worker takes at least; a product of another size is another product."""
    monkeypatch.setattr(poison, "_WERE_ALONE", set())
    (kernel,) = Library(host_target()).load([Careless()])
    step = Command(Careless(), {"out": Ref(Buffer(20), 0), "rows": 5}, 5, 2, flops=10)
    wider = dataclasses.replace(step, args={**step.args, "rows": 6})
    assert poison.product_of(kernel, dataclasses.replace(step, flops=0)) is None
    monkeypatch.setattr(Careless, "numbers_decide", True)
    assert poison.product_of(kernel, step) is None
    monkeypatch.undo()
    monkeypatch.setattr(poison, "_WERE_ALONE", set())
    for asked, together in ((step, 1), (step, 2), (wider, 1), (step, 2)):
        out = np.zeros(5, np.float32)
        run = poison.alone(kernel, aligned_bytes(64), asked.grain, poison.product_of(kernel, asked))
        NativeProgram([Row(run, [out.ctypes.data], out.size, 1 << 62)]).run()
        assert np.isnan(out).tolist() == [block % together == 0 for block in range(5)]


def test_memory_is_unwritten_when_it_comes_into_use() -> None:
    """The second command's result takes the place of the first one's operand, less what is written over in place."""
    first, second, third = Buffer(64, offset=0, pinned=True), Buffer(64, offset=64), Buffer(96, offset=32)
    steps = [
        Command(Careless(), {"in": Ref(first, 0), "out": Ref(second, 0)}, 1, 1),
        Command(Careless(), {"in": Ref(second, 0), "out": Ref(third, 0)}, 1, 1),
    ]
    spans = poison.fresh_spans(steps, lambda buffer: 1000 + buffer.offset)
    assert spans == [[(1064, 64)], []]  # of the third, 32 bytes are the first's and the rest the second's
    first.pinned = False
    assert poison.fresh_spans(steps, lambda buffer: 1000 + buffer.offset) == [[(1000, 64), (1064, 64)], [(1032, 32)]]


@pytest.mark.parametrize("threads", [1, 2])
def test_answers_are_the_same(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Session(convolutions(), Config(threads))
    want = [plain.run(FEEDS)["y"] for _ in range(2)]
    monkeypatch.setenv("MNN_POISON", "1")
    session = Session(convolutions(), Config(threads))
    for numbers in want:
        assert session.run(FEEDS)["y"].tobytes() == numbers.tobytes()
    (plan,) = session.plans_used()
    assert all(blocks <= grain for _, _, blocks, grain in plan.bound.native.rows())  # Python takes them one by one


def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_POISON", "yes")
    with pytest.raises(MNNError, match="MNN_POISON is 'yes'; set it to 1"):
        Session(convolutions()).run(FEEDS)
