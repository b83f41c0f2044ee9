"""Records that Python writes and native code reads."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.record import Record, word
from MNN.backends.cpu.lang.module import I64, Kernel
from MNN.backends.cpu.lang.records import entry, load_record
from MNN.backends.cpu.targets import Target, host_target
from tests.backends.cpu import util

RECORD = Record(
    "example",
    word("first", "a number"),
    word("there", "address of a number", pointer=True),
    word("last", "a number on a line of its own", at=64),
)


class Sums(KernelSpec):
    """Of block ``b`` the words of record ``b``, and the number that one of them points to."""

    def slots(self) -> tuple[str, ...]:
        return ("records", "out")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        with b.loop(k.begin, k.end) as block:
            found = load_record(b, RECORD, entry(b, RECORD, k.pointer("records"), block.index))
            total = found["first"] + found["last"] + b.load(I64, found["there"])
            b.store(total, b.gep(k.pointer("out"), I64, block.index))
        return k.finish()


def test_what_python_writes_is_what_kernels_read() -> None:
    numbers = np.array([7, 9], np.int64)
    rows = [
        RECORD.row(last=100 * i, first=i, there=numbers.ctypes.data + RECORD.index("there") * 8 * i) for i in (0, 1)
    ]
    table, out = np.array(rows, np.int64), np.zeros(2, np.int64)
    assert table.nbytes == 2 * RECORD.size
    slots = {"records": table.ctypes.data, "out": out.ctypes.data}
    util.call(Sums(), host_target(), slots, 2, [table, out, numbers])
    assert out.tolist() == [7, 110]


HALF = Record("half", word("first", "a number"), word("last", "another one"), unit=4)


class HalfSums(KernelSpec):
    """Of block ``b`` the words of record ``b``, which are i32."""

    def slots(self) -> tuple[str, ...]:
        return ("records", "out")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b = k.b
        with b.loop(k.begin, k.end) as block:
            found = load_record(b, HALF, entry(b, HALF, k.pointer("records"), block.index))
            b.store(found["first"] + found["last"], b.gep(k.pointer("out"), I64, block.index))
        return k.finish()


def test_records_of_i32() -> None:
    table, out = np.array([HALF.row(first=1, last=-5), HALF.row(first=2, last=40)], np.int32), np.zeros(2, np.int64)
    assert table.nbytes == 2 * HALF.size
    util.call(HalfSums(), host_target(), {"records": table.ctypes.data, "out": out.ctypes.data}, 2, [table, out])
    assert out.tolist() == [-4, 42]


def test_rows_have_all_words_and_no_others() -> None:
    with pytest.raises(ValueError, match="record example has words first, there, last; given are first, there, lost"):
        RECORD.row(first=1, there=2, lost=3)


@pytest.mark.parametrize(
    "wrong", [word("a", "twice"), word("b", "inside of the first", at=0), word("b", "between words", at=12)]
)
def test_words_do_not_share_memory(wrong: object) -> None:
    with pytest.raises(ValueError, match="cannot lie at"):
        Record("wrong", word("a", "a number"), wrong)  # type: ignore[arg-type]


def test_places_follow_from_the_order() -> None:
    assert dict(RECORD) == {"first": 0, "there": 8, "last": 64}
    assert (RECORD.size, RECORD.count) == (72, 9)
    assert RECORD.names("x_")["x_words"] == 9
