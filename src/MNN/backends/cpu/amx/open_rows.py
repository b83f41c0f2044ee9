"""Products on AMX tiles of any number of rows, for plans that leave it open.

:class:`MNN.backends.cpu.amx.spec.AmxSpec` is told by tables what each of its blocks needs. Here blocks find it
themselves, from where rows begin and from how many there are: one more row is another number, and no other table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from MNN.backends.base.kernel import Arguments
from MNN.backends.base.record import Record
from MNN.backends.cpu.amx.pack import AmxPackSpec
from MNN.backends.cpu.amx.records import OPEN, PACK_OPEN
from MNN.backends.cpu.amx.spec import PANEL, AmxSpec
from MNN.backends.cpu.codegen import overlay
from MNN.backends.cpu.codegen.tables import batch_record
from MNN.backends.cpu.codegen.traffic import number, table, union
from MNN.backends.cpu.lang.module import I64, Kernel, Value
from MNN.backends.cpu.products.epilogue import operand_bytes, operand_slots
from MNN.ir.dtype import DType


@dataclass(frozen=True)
class AmxOpenSpec(AmxSpec):
    """``C[i, n] = epilogue(sum over j < k of A[rows_a[i] + j] * B[j, n], operands...)``, batched.

    Its arguments are the record :data:`~.records.OPEN`. Block ``(z * m_blocks + im) * ceil(n / nb) + in`` computes
    rows ``[im * mb, ...)``, where there are any, in columns ``[in * nb, ...)``. Everything else is as in a plain
    product of rows that are brought.
    """

    arguments: ClassVar[Record] = OPEN

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joined or self.direct or self.lines or self.tall or self.a is DType.BF16X2:
            raise ValueError("rows of an open number are brought, one by one")

    def slots(self) -> tuple[str, ...]:
        return (*self.arguments, *operand_slots(self.operands))

    def traffic(self, args: Arguments) -> dict[str, int]:
        m, k, n, n_batch = (number(args, slot) for slot in ("m", "k", "n", "n_batch"))
        count = batch_record(len(self.operands)).count
        batch = table(args, "batch", n_batch * count, np.int64).reshape(n_batch, count)
        different = [np.unique(batch[:, i]) for i in range(count)]
        starts = np.unique(table(args, "rows_a", m))
        found = {
            "a": union((starts[:, None] + different[0]).reshape(-1), k) * self.element.size,
            "b": different[1].size * -(-n // PANEL) * number(args, "panel"),
            "c": n_batch * m * n * self.out.size,
        }
        return found | operand_bytes(self.operands, self.epilogue, different[3:], m, n)

    def in_place(self, args: Arguments) -> overlay.Pairs:
        m, n_batch = number(args, "m"), number(args, "n_batch")
        return overlay.of_product(self.operands, self.epilogue, self.out, args, m, n_batch)


@dataclass(frozen=True)
class AmxOpenPackSpec(AmxPackSpec):
    """Packing of matrices whose table of rows ends with them; :data:`~.records.PACK_OPEN` says how many they are."""

    def slots(self) -> tuple[str, ...]:
        return (*self.arguments, *PACK_OPEN)

    def offset(self, k: Kernel, pair: Value, second: int) -> Value:
        b, row, last = k.b, pair * 2 + second, k.slot("k") - 1
        found = b.entry(k.pointer("rows"), b.intrinsic("smin", row, last))
        return b.select(b.icmp("sgt", row, last), b.const(I64, -1), found)


__all__ = ["AmxOpenPackSpec", "AmxOpenSpec"]
