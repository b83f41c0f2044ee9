"""Turns groups of primitives into commands: where every tensor lies, and which kernel computes it.

Tensors that only look at others (views) get no memory of their own. A tensor that goes into a concatenation or a
padded border is placed there from the start, so that neither costs a copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np

from MNN.backends.base.candidates import Candidate, Choice, choose, near
from MNN.backends.base.constants import ConstantPool as ConstantPool
from MNN.backends.base.kernel import KernelSpec
from MNN.backends.base.offset_table import OffsetTable, grid_table
from MNN.backends.base.options import Options
from MNN.backends.base.program import Buffer, Command, HostCall, Located, Place, Ref, StageCall
from MNN.backends.cpu.codegen.chain import ChainSpec
from MNN.backends.cpu.targets.base import Target
from MNN.compiler import strides as st
from MNN.compiler import usage
from MNN.compiler.layout import DimensionOrder, SpacedOrder, natural, view_strides
from MNN.compiler.usage import VIEWS
from MNN.errors import UnsupportedError
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import OpenSize, room_of
from MNN.reference.primitives import evaluate

_I32_MAX = (1 << 31) - 1
_T = TypeVar("_T")

Copier = Callable[["Emitter", Place, Place, st.Ints, DType], None]


class Emitter:
    """Collects the commands of one stage."""

    def __init__(
        self,
        target: Target,
        options: Options,
        orders: Mapping[Tensor, DimensionOrder],
        uses: Mapping[Tensor, list[Prim]],
        pool: ConstantPool,
        copy: Copier,
    ) -> None:
        """``copy`` emits what :meth:`copy` asks for: loop nests are a floor above."""
        self._copy = copy
        self.target, self.options, self.pool = target, options, pool
        self.threads, self.precision = options.threads, options.precision
        self.commands: list[Command] = []
        self.buffers: list[Buffer] = []
        self._orders, self.uses = orders, uses
        self.weights_bytes = sum(t.const.nbytes for t in uses if t.const is not None)
        """Of all constants that the stage reads."""
        self._places: dict[Tensor, Place] = {}
        self.copies: dict[tuple[Tensor, SpacedOrder], Place] = {}
        """Of tensors in another order, as they were made."""
        self.origin = ""
        self._choice: Choice | None = None
        self.collecting = False
        """Whether commands are wanted one per node, as stages of a chain."""
        self.error_word = Buffer(0)
        self.companions: dict[KernelSpec, None] = {}
        """See :class:`MNN.backends.base.program.Program`."""
        self.spare = 0.0
        """Cycles that a command may take beyond the least before another kernel is compiled for it alone."""
        self._grids: dict[Hashable, np.ndarray] = {}
        self._keys: dict[int, Hashable] = {}
        """What the arrays in ``_grids`` hold, by their identity."""
        self._once: dict[Hashable, object] = {}
        """See :meth:`once`."""
        self._kernels: dict[KernelSpec, tuple[KernelSpec, tuple[str, ...]]] = {}
        """One object for equal kernels, and its slots."""
        self._known: dict[int, tuple[KernelSpec, tuple[str, ...]]] = {}
        """The same by these objects' identities."""
        self.narrowed: Collection[Tensor] = ()
        """Tensors that primitives give and take as f32, stored in fewer bits (see
        :mod:`MNN.backends.cpu.low_precision`)."""

    # -- places -----------------------------------------------------------------------------------------------------

    def order(self, tensor: Tensor) -> DimensionOrder:
        return self._orders.get(tensor) or natural(len(tensor.shape))

    def allocate(
        self, dtype: DType, shape: Sequence[int], order: DimensionOrder, gap: int = 0, roomy: bool = False
    ) -> Place:
        """Fresh arena memory for a tensor that is dense but for ``gap`` elements behind each innermost run; ``roomy``:
        that would be dense if its open sizes took all of their room, so that strides are the same at all sizes."""
        room = [room_of(n) for n in shape]
        if roomy and order and isinstance(shape[order[-1]], OpenSize):
            gap += st.to_odd_lines(room[order[-1]] + gap, dtype.size)
        strides, count = st.spaced(room, order, gap)
        buffer = Buffer(max(count, 1) * dtype.size)
        self.buffers.append(buffer)
        return Place(buffer, 0, strides if roomy else st.spaced(shape, order, gap)[0])

    def place(self, tensor: Tensor) -> Place:
        """Where a tensor lies; views are followed, and copied when strides cannot express them."""
        known = self._places.get(tensor)
        if known is not None:
            return known
        if tensor.const is not None:
            data = tensor.const if tensor.whole is None else tensor.whole
            buffer = self.pool.get(("const", id(data)), lambda: data.reshape(-1), (data, tensor.keep))
            found = Place(buffer, 0, st.dense(data.shape, natural(tensor.rank)))
        else:
            prim = tensor.producer
            assert isinstance(prim, VIEWS), f"{tensor} was not computed before its use"
            found = self._view(prim, tensor)
        self._places[tensor] = found
        return found

    def _view(self, prim: Prim, out: Tensor) -> Place:
        base = self.place(prim.inputs[0])
        seen = view_strides(prim, base.strides, out)
        if seen is not None:
            return Place(base.buffer, base.offset + seen[0], seen[1])
        # a reshape that has to move elements
        source = prim.inputs[0]
        place = self.output(out)
        back = st.reshape_strides(out.shape, place.strides, source.shape)
        if back is not None:
            self.copy(base, Place(place.buffer, place.offset, back), source.shape, out.dtype)
            return place
        flat = self.allocate(source.dtype, source.shape, natural(source.rank))
        self.copy(base, flat, source.shape, source.dtype)
        again = Place(flat.buffer, 0, st.dense(out.shape, natural(out.rank)))
        if st.is_dense(out.shape, place.strides, natural(out.rank)) and place.offset == 0:
            return again
        self.copy(again, place, out.shape, out.dtype)
        return place

    def assign(self, tensor: Tensor, place: Place) -> None:
        self._places[tensor] = place

    def is_placed(self, tensor: Tensor) -> bool:
        return tensor in self._places

    def count(self) -> int:
        """How many tensors have a place."""
        return len(self._places)

    def forget(self, buffer: Buffer) -> None:
        """Tensors placed in this buffer, and copies of them, have no place any more."""
        gone = [t for t, place in self._places.items() if place.buffer is buffer]
        for tensor in gone:
            del self._places[tensor]
        for key in [key for key in self.copies if key[0] in gone]:
            del self.copies[key]

    def output(self, tensor: Tensor) -> Place:
        """Where to write a tensor: inside the concatenation or padding that takes it, else in memory of its own."""
        found = self._places.get(tensor)
        if found is None:
            order = self.order(tensor)
            found = self._inside(tensor)
            if found is None:
                gap = usage.gap(tensor, order, self.uses)
                found = self.allocate(tensor.dtype, tensor.shape, order, gap, roomy=True)
            self._places[tensor] = found
        return found

    def _inside(self, tensor: Tensor) -> Place | None:
        users = self.uses.get(tensor, ())
        for user in users:
            if not isinstance(user, (p.Concat, p.Pad)) or user.inputs.count(tensor) != 1:
                continue
            outer = user.outputs[0]
            if not st.same_order(outer.shape, self.order(outer), self.order(tensor)) and elements(tensor.shape) > 1:
                continue
            start = list(user.low) if isinstance(user, p.Pad) else [0] * tensor.rank
            if isinstance(user, p.Concat):
                before = user.inputs[: user.inputs.index(tensor)]
                start[user.axis] = sum(t.shape[user.axis] for t in before)
            return self.region(self.output(outer), start)
        return self._inside_behind_reshape(tensor) if any(isinstance(u, p.Reshape) for u in users) else None

    def _inside_behind_reshape(self, tensor: Tensor) -> Place | None:
        """As :meth:`_inside`, where a reshape that only adds or drops dimensions of 1 comes in between."""
        for user in self.uses.get(tensor, []):
            outer = user.outputs[0].shape
            if not isinstance(user, p.Reshape) or [n for n in outer if n != 1] != [n for n in tensor.shape if n != 1]:
                continue
            place = self._inside(user.outputs[0])
            strides = st.reshape_strides(outer, place.strides, tensor.shape) if place is not None else None
            if place is None or strides is None:
                continue
            if st.same_order(tensor.shape, self.order(tensor), st.order_of(tensor.shape, strides)):
                return Place(place.buffer, place.offset, strides)
        return None

    @staticmethod
    def region(place: Place, start: Sequence[int]) -> Place:
        """The place of the part that begins at ``start``."""
        shift = sum([a * s for a, s in zip(start, place.strides, strict=True)])
        return Place(place.buffer, place.offset + shift, place.strides)

    def in_order(self, tensor: Tensor, order: DimensionOrder, fits: Callable[[Place], bool], gap: int = 0) -> Place:
        """The tensor's place if it ``fits``, else that of a copy in ``order`` (made once), which is dense but for
        ``gap`` elements behind each innermost run."""
        place = self.place(tensor)
        if fits(place):
            return place
        key = (tensor, (order, gap))
        if key not in self.copies:
            self.copies[key] = self.allocate(tensor.dtype, tensor.shape, order, gap, roomy=True)
            self.copy(place, self.copies[key], tensor.shape, tensor.dtype)
        return self.copies[key]

    # -- commands ---------------------------------------------------------------------------------------------------

    def ref(self, place: Place, dtype: DType) -> Ref:
        return Ref(place.buffer, place.offset * dtype.size)

    def table(self, values: np.ndarray) -> Ref:
        """The address of a constant table."""
        return Ref(self.pool.table(values), 0)

    def grid(self, extents: Sequence[int], strides: Sequence[int]) -> np.ndarray:
        """Element offsets of all points of a grid in row-major order: one array, only to be read, for equal grids."""
        key = st.runs(extents, strides)
        found = self._grids.get(key)
        if found is None:
            found = self._grids[key] = st.offsets(key)
            found.flags.writeable = False
            self._keys[id(found)] = key
        return found

    def derived(self, values: np.ndarray, name: Hashable, make: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """What is made of a grid's offsets, ``name`` telling what: one array, only to be read, for the same of equal
        grids."""
        grid = self.grid_key(values)
        found = self._grids.get((grid, name))
        if found is None:
            found = np.asarray(make(values))
            found.flags.writeable = False
            if grid is not None:
                self._grids[grid, name] = found
                self._keys[id(found)] = (grid, name)
        return found

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What ``make`` gives, made once in a plan for equal keys."""
        if key not in self._once:
            self._once[key] = make()
        return cast("_T", self._once[key])

    def grid_key(self, values: np.ndarray | None) -> Hashable:
        """What tells an array that :meth:`grid` or :meth:`derived` gave from others; None for another array."""
        return self._keys.get(id(values))

    def offsets(self, values: np.ndarray) -> Ref:
        """The address of a table of i32 element offsets. Raises when a tensor is too large for them."""
        key = self._keys.get(id(values))
        if key is None:
            return Ref(self.pool.table(self._narrow(values)), 0)
        grid = grid_table(key) if self.options.open_sizes else None
        if grid is not None and grid.changes:
            return self.records(grid)
        return self.named_offsets(("grid", key), lambda: values)

    def records(self, table: OffsetTable) -> Ref:
        """The address of a table of i32 words: one for all that hold the same, of its own where sizes are open."""
        if not table.changes:
            return self.named_offsets(("records", table), table.values)

        def own() -> Buffer:
            data = self._narrow(table.values())
            return Buffer(data.nbytes, const=data, table=table)

        return Ref(self.once(("open", table), own), 0)

    def named_offsets(self, key: tuple[object, ...], make: Callable[[], np.ndarray]) -> Ref:
        """The same of a table that is only made where there is none under ``key``."""
        return Ref(self.pool.named_table(key, lambda: self._narrow(make())), 0)

    def _narrow(self, values: np.ndarray) -> np.ndarray:
        if values.size and max(-int(values.min()), int(values.max())) > _I32_MAX:
            raise UnsupportedError(f"{self.origin}: a tensor has more than 2^31 elements; use a smaller batch or input")
        return values.astype(np.int32)

    def error_ref(self) -> Ref:
        """Where kernels report an index out of range."""
        return Ref(self.error_word, 0)

    def command(
        self,
        kernel: KernelSpec,
        args: Mapping[str, int | Ref],
        blocks: int,
        grain: int,
        flops: int = 0,
        part: bool = False,
    ) -> None:
        """Appends a kernel call; argument names must be the kernel's slots. ``part``: see ``Command``."""
        known = self._known.get(id(kernel)) or self._kernels.get(kernel)
        if known is None:
            known = self._kernels[kernel] = self._known[id(kernel)] = kernel, kernel.slots()
        kernel, slots = known
        ordered = {name: args[name] for name in slots}
        assert len(ordered) == len(args), f"{sorted(set(args) - set(ordered))} are not slots of {kernel.key()}"
        if blocks > 0:
            command = Command(
                kernel, ordered, blocks, max(1, grain), self.origin, flops, choice=self._choice, part=part
            )
            self.commands.append(command)

    @contextlib.contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Within this context nothing is emitted, but the kernels are compiled: other sizes need them."""
        buffers = len(self.buffers)
        with self.collect() as commands:
            yield
        del self.buffers[buffers:]
        self.companions |= {kernel: None for command in commands for kernel in command.kernels()}

    @contextlib.contextmanager
    def collect(self) -> Iterator[list[Command]]:
        """Within this context commands go into the list it gives, to become stages of a chain."""
        running, self.commands = self.commands, []
        before, self.collecting = self.collecting, True
        try:
            yield self.commands
        finally:
            self.commands, self.collecting = running, before

    def chain(self, stages: Sequence[StageCall], blocks: int, inner: int, local_bytes: int, grain: int = 1) -> None:
        """Appends a chain of ``blocks`` blocks, ``inner`` for every step of the outer index; see ``StageCall``."""
        origin = " + ".join(dict.fromkeys(s.command.origin for s in stages))
        flops = sum(s.command.flops for s in stages)
        self.commands.append(
            Command(
                ChainSpec(), {}, blocks, grain, origin, flops,
                choice=self._choice, stages=tuple(stages), inner=inner, local_bytes=local_bytes,
            )
        )  # fmt: skip

    def settled(self, signature: str, work: Hashable, extent: int) -> str:
        """The algorithm that the current node keeps for this ``work`` (what of it does not change with the input's
        size) from a size near to ``extent``; empty when it has to be chosen."""
        if self.options.tuning or signature in self.options.tuned:
            return ""
        return near(extent, self.pool.kept_choices.get((self.origin, signature.split()[0], work)) or {})

    def choose(self, signature: str, candidates: Sequence[Candidate], work: Hashable = None, extent: int = 1) -> None:
        """Emits the best of the candidates (see :mod:`MNN.backends.base.candidates`); its commands remember the choice,
        and so do later plans: see :meth:`settled`."""
        outer, start = self._choice, len(self.commands)
        choice_key = (self.origin, signature.split()[0], work)
        known = self.pool.kept_choices.get(choice_key) or {}
        earlier = near(extent, known)
        best, self._choice = choose(
            signature, candidates, self.options.tuned, earlier or next(iter(known.values()), "")
        )
        if not earlier:
            self.pool.kept_choices.note(choice_key, {**known, extent: best.name})
        choice = self._choice
        try:
            best.emit()
        finally:
            self._choice = outer
        for command in self.commands[start:]:
            command.choices = (*command.choices, choice)

    def copy(self, src: Place, dst: Place, shape: Sequence[int], dtype: DType) -> None:
        """Copies a tensor from one place to another."""
        self._copy(self, src, dst, tuple(shape), dtype)

    def copy_once(self, src: Place, dst: Place, shape: Sequence[int], dtype: DType) -> None:
        """Copies into a constant before the first run of any program that uses it."""
        running, self.commands = self.commands, []
        self.copy(src, dst, shape, dtype)
        dst.buffer.setup += self.commands
        self.commands = running

    def host(self, prim: Prim) -> None:
        """Runs a primitive with the reference implementation (or a host function) between kernels."""
        types = [(DType.F32 if t in self.narrowed else t.dtype, t.shape) for t in prim.outputs]
        wide = [t in self.narrowed for t in prim.inputs]

        def compute(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            own = [a.astype(np.float32) if w else a for a, w in zip(arrays, wide, strict=True)]
            return evaluate(prim, own, types)

        label = prim.label if isinstance(prim, p.Host) else type(prim).__name__
        call = HostCall(
            label,
            compute,
            tuple(Located(t.dtype, t.shape, self.place(t)) for t in prim.inputs),
            tuple(Located(t.dtype, t.shape, self.output(t)) for t in prim.outputs),
        )
        self.commands.append(Command(None, {}, 1, 1, self.origin, 0, call))
