"""What contraction kernels share behind their sums: epilogue and store of a tile that lies in scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.element import Tail, make_tail, storage_type
from MNN.backends.cpu.lang.module import I8, I32, I64, Builder, Kernel, Type, Value
from MNN.backends.cpu.math.scalar_code import number
from MNN.backends.cpu.products.epilogue import ALONG_COLUMNS, SUM, Epilogue, added_first, is_short, masks_work
from MNN.backends.cpu.products.packed_bytes import pack_bytes, packs_bytes, saturated_end
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, Instr

LINE = 64
"""Bytes of a line of a cache."""
_FEW_REGISTERS = 16
"""Vector registers of which sums leave none for constants."""


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
    """The state of one emission: set ``c``, ``ops`` (base addresses), ``column`` and ``tile`` before storing; for whole
    tiles also ``columns`` and ``m1``."""

    c: Value
    ops: list[Value]
    column: Value
    columns: Value
    tile: Value
    """Where the tile of sums lies, rows of ``nr``."""
    m1: Value
    """Past the last row."""

    added: int | None
    """The operand that sums begin with, if any."""
    begins: ClassVar[bool] = True
    """Whether sums may begin with one: whoever emits panels otherwise says no."""

    def __init__(self, spec: TileSpec, target: Target, begins: bool = False, fits: bool = False) -> None:
        """``begins``: sums begin with an operand where one is added to them first; ``fits``: see
        :func:`MNN.backends.cpu.products.packed_bytes.fits`."""
        self.target = target
        self.k = Kernel.of(spec.slots(), target)
        self.b = self.k.b
        self.lanes = target.lanes(spec.acc)
        self.nr = spec.nr(target)
        self.acc: Type = storage_type(spec.acc, self.lanes)
        self.out_type = storage_type(spec.out)
        self.kinds, self.out, self.body = spec.operands, spec.out, spec.epilogue
        self.sums_in = DType.F32 if spec.acc is DType.F16 else spec.acc
        self.op_dtypes = spec.epilogue.args[1:] if spec.epilogue is not None else ()
        self.tile = self.k.scratch
        masks = begins and masks_work(target, (DType.F32,))
        self.added = added_first(spec.epilogue, spec.operands, spec.acc) if masks else None
        self.end = saturated_end(spec.epilogue, fits) if self.sums_in is DType.I32 and packs_bytes(target) else None
        self._in_memory: dict[tuple[Type, float | int], Value] = {}
        if spec.epilogue is not None and not is_short(spec.epilogue) and target.vector_registers <= _FEW_REGISTERS:
            self._keep_constants(spec.epilogue)
        if self.added is not None:
            self.beginnings = self.b.alloca(self.acc, -(-self.nr // self.lanes))

    def _keep_constants(self, body: Body) -> None:
        """Puts the floats of a long epilogue into memory: LLVM would have them in registers from before the sums on,
        which need all of these. (Bytes in pairs with a residual connection: up to four sums spilled in the loop.)"""
        b = self.b
        for instr in body.code:
            if instr.op == "const" and instr.dtype.is_float:
                value = number(b, instr, self.lanes)
                place = b.alloca(value.type)
                b.store(value, place, check=False)
                self._in_memory[value.type, instr.number()] = place

    def _constant(self, b: Builder, instr: Instr, lanes: int) -> Value:
        """A constant of the epilogue, from memory where it was put there."""
        value = number(b, instr, lanes)
        place = self._in_memory.get((value.type, instr.number()))
        if place is None:
            return value
        found = b.load(value.type, place, check=False)
        return Value(found.b, found.text, found.type, value.number)

    def begin_panel(self, vectors: int) -> None:
        """Keeps what the sums of a panel begin with, where that is an operand (``added``)."""
        b = self.b
        if self.added is None:
            return
        kind, type_ = self.op_dtypes[self.added], self.acc.element
        source = b.gep(self.ops[self.added], type_, self.column)
        for j in range(vectors):
            left = b.intrinsic("smax", self.columns - j * self.lanes, b.const(I64, 0))
            at = b.intrinsic("smin", b.const(I64, j * self.lanes), self.columns - 1)
            found = element.load(b, kind, b.gep(source, type_, at), self.lanes, None, self.cut_tail(left, self.lanes))
            b.store(found, b.gep(self.beginnings, self.acc, j), check=False)

    def begun(self, vectors: int) -> list[Value]:
        """What a row of sums begins with."""
        if self.added is None:
            return [self.b.const(self.acc, 0)] * vectors
        return [self.b.load(self.acc, self.b.gep(self.beginnings, self.acc, j), check=False) for j in range(vectors)]

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
            if kind in ALONG_COLUMNS:
                pointer = b.gep(pointer, type_, self.column)
            self.op_rows.append(pointer)

    def ask_operands(self, row: Value, height: int) -> None:
        """Asks for what the epilogue of a tile of ``height`` rows reads number by number, before its sums: a residual
        connection is a few lines in each of many rows, which no processor fetches by itself, and behind the sums there
        is nothing else to do meanwhile."""
        b, k = self.b, self.k
        for i, (kind, dtype) in enumerate(zip(self.kinds, self.op_dtypes, strict=True)):
            if kind != "mn":
                continue
            type_ = storage_type(dtype)
            top = b.gep(self.ops[i], type_, self.column)
            for r in range(height):
                index = row if r == 0 else b.intrinsic("smin", row + r, self.m1 - 1)
                line = b.gep(top, type_, b.entry(k.pointer(f"rows{i}"), index))
                for at in range(0, self.nr * dtype.size, LINE):
                    b.prefetch(b.gep(line, I8, at))

    def store_vector(
        self, epilogue: Epilogue, value: Value, column: Value, lanes: int, tail: Tail | None = None
    ) -> None:
        """Epilogue and store of ``lanes`` columns from ``column`` of the panel on, in the row of ``row_tables``."""
        args = self._operands(epilogue, column, lanes, tail)
        epilogue.store(epilogue.apply(value, args, lanes), self.b.gep(self.c_row, self.out_type, column), tail)

    def store_vectors(self, epilogue: Epilogue, values: Sequence[Value], column: Value) -> None:
        """The same for neighbouring vectors."""
        b, lanes, done = self.b, self.lanes, 0
        while done < len(values):
            count = 1
            if self.end is not None:
                count = next(n for n in (4, 2, 1) if len(values) - done >= n)
            places = [column + (done + i) * lanes for i in range(count)]
            some = values[done : done + count]
            done += count
            if self.end is None:
                self.store_vector(epilogue, some[0], places[0], lanes)
                continue
            before = [
                epilogue.before(self.end.value, value, self._operands(epilogue, at, lanes, None), lanes)
                for value, at in zip(some, places, strict=True)
            ]
            b.store(pack_bytes(b, before, self.end), b.gep(self.c_row, self.out_type, places[0]), align=1)

    def _operands(self, epilogue: Epilogue, column: Value, lanes: int, tail: Tail | None) -> list[Value]:
        """What the epilogue reads for ``lanes`` columns."""
        args = []
        for i, (kind, dtype, pointer) in enumerate(zip(self.kinds, self.op_dtypes, self.op_rows, strict=True)):
            if i == self.added:  # there already; nothing changes when -0 is added
                args.append(self.b.splat(self.b.const(self.acc.element, -0.0 if dtype.is_float else 0), lanes))
                continue
            moves = kind in (*ALONG_COLUMNS, SUM)
            args.append(epilogue.load(pointer, dtype, column if moves else None, lanes, tail))
        return args

    def finish(self, row: Value, sums: Sequence[Value], height: int) -> None:
        """Applies the epilogue and stores a tile of ``height`` rows: at once when it is whole, else row by row through
        scratch (where it lies already when there are no ``sums``). Rows end at ``m1``, columns at ``columns``."""
        b, vectors = self.b, self.nr // self.lanes
        epilogue = Epilogue(b, self.sums_in, self.out, self.body, self._constant)

        def at_once() -> tuple[()]:
            if not epilogue.short or not sums:  # a long epilogue is emitted once, not once per register
                self._spill(sums)
                with b.loop(0, height) as line:
                    self.row_tables(row + line.index)
                    some = 1 if self.end is None else next(n for n in (4, 2, 1) if vectors % n == 0)
                    with b.loop(0, self.nr, some * self.lanes) as c:
                        places = [c.index + j * self.lanes for j in range(some)]
                        values = [self.tile_load(line.index, at, self.lanes) for at in places]
                        self.store_vectors(epilogue, values, c.index)
                return ()
            for r in range(height):
                self.row_tables(row + r)
                self.store_vectors(epilogue, sums[r * vectors : (r + 1) * vectors], b.const(I64, 0))
            return ()

        b.if_else(self.is_whole(row, height), at_once, lambda: self.finish_cut(row, sums, height), likely=True)

    def is_whole(self, row: Value, height: int) -> Value:
        """Whether a tile of ``height`` rows has all of them, and all columns."""
        b = self.b
        return b.and_(b.icmp("sle", row + height, self.m1), b.icmp("sge", self.columns, self.nr))

    def finish_cut(self, row: Value, sums: Sequence[Value], height: int) -> tuple[()]:
        """:meth:`finish` of a tile that is not whole."""
        b = self.b
        epilogue = Epilogue(b, self.sums_in, self.out, self.body, self._constant)
        self._spill(sums)
        masks = masks_work(self.target, (self.out, *self.op_dtypes))
        lanes = self.lanes if masks else 1
        columns = b.intrinsic("smin", self.columns, b.const(I64, self.nr))
        with b.loop(0, b.intrinsic("smin", self.m1 - row, b.const(I64, height))) as r:
            self.row_tables(row + r.index)
            first: Value | int = 0
            if not masks and self.lanes > 1:
                first = b.and_(columns, -self.lanes)
                with b.loop(0, first, self.lanes) as c:
                    self.store_vector(epilogue, self.tile_load(r.index, c.index, self.lanes), c.index, self.lanes)
            with b.loop(first, columns, lanes) as c:
                tail = self.cut_tail(columns - c.index, lanes)
                value = self.tile_load(r.index, c.index, lanes)
                self.store_vector(epilogue, value, c.index, lanes, tail if masks else None)
        return ()

    def _spill(self, sums: Sequence[Value]) -> None:
        for i, value in enumerate(sums):
            self.b.store(value, self.b.gep(self.k.scratch, self.acc, i))
