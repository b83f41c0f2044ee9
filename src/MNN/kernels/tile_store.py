"""What contraction kernels share behind their sums: epilogue and store of a tile that lies in scratch memory."""

from __future__ import annotations

from typing import Protocol

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body
from MNN.kernels.element import Tail, make_tail, storage_type
from MNN.kernels.epilogue import Epilogue
from MNN.kernels.lang import I32, I64, Kernel, Type, Value
from MNN.targets.base import Target


class TileSpec(Protocol):
    """A kernel that gives tiles of a matrix C, found by a table of row offsets, with an epilogue."""

    @property
    def acc(self) -> DType: ...
    @property
    def out(self) -> DType: ...
    @property
    def epilogue(self) -> Body | None: ...
    @property
    def operands(self) -> tuple[str, ...]: ...
    def nr(self, target: Target) -> int: ...
    def slots(self) -> tuple[str, ...]: ...


class TileStore:
    """The state of one emission: set ``c``, ``ops`` (base addresses), ``column`` and ``tile`` before storing."""

    c: Value
    ops: list[Value]
    column: Value
    tile: Value
    """Where the tile of sums lies, rows of ``nr``."""

    def __init__(self, spec: TileSpec, target: Target) -> None:
        self.target = target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(spec.acc)
        self.nr = spec.nr(target)
        self.acc: Type = storage_type(spec.acc, self.lanes)
        self.out_type = storage_type(spec.out)
        self.kinds = spec.operands
        self.op_dtypes = spec.epilogue.args[1:] if spec.epilogue is not None else ()
        self.tile = self.k.scratch

    def cut_tail(self, left: Value, lanes: int) -> Tail:
        """The tail of at most ``lanes`` elements."""
        return make_tail(self.b, self.b.intrinsic("smin", left, self.b.const(I64, lanes)), lanes)

    def tile_load(self, r: Value, c: Value, lanes: int) -> Value:
        """Sums from scratch."""
        element = self.acc.element
        return self.b.load(element.vec(lanes), self.b.gep(self.tile, element, r * self.nr + c))

    def row_tables(self, row: Value) -> None:
        """Loads what the epilogue needs once per row: where C's row starts, and each operand's."""
        b, k = self.b, self.k
        offset = b.load(I32, b.gep(k.pointer("rows_c"), I32, row))
        self.c_row = b.gep(b.gep(self.c, self.out_type, offset), self.out_type, self.column)
        self.op_rows: list[Value] = []
        for i, (kind, dtype) in enumerate(zip(self.kinds, self.op_dtypes, strict=True)):
            pointer, type_ = self.ops[i], storage_type(dtype)
            if kind in ("m", "mn"):
                pointer = b.gep(pointer, type_, b.load(I32, b.gep(k.pointer(f"rows{i}"), I32, row)))
            if kind in ("n", "mn"):
                pointer = b.gep(pointer, type_, self.column)
            self.op_rows.append(pointer)

    def store_vector(
        self, epilogue: Epilogue, value: Value, column: Value, lanes: int, tail: Tail | None = None
    ) -> None:
        """Epilogue and store of ``lanes`` columns from ``column`` of the panel on, in the row of ``row_tables``."""
        args = []
        for kind, dtype, pointer in zip(self.kinds, self.op_dtypes, self.op_rows, strict=True):
            moves = kind in ("n", "mn")
            args.append(epilogue.load(pointer, dtype, column if moves else None, lanes, tail))
        epilogue.store(epilogue.apply(value, args, lanes), self.b.gep(self.c_row, self.out_type, column), tail)
