"""The builder that operators lower themselves with.

Every method appends one primitive (or none, when the result is known already) and returns its output tensor. Constants
are folded on the spot by the reference implementation, and equal primitives on equal operands are merged, so operators
can be written plainly: computing a shape with tensors costs nothing at run time when the inputs' shapes are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from MNN.errors import ShapeError, UnsupportedError
from MNN.formatting import plural
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import Body, BodyBuilder
from MNN.ir.shape import broadcast, elements, normalize_axis
from MNN.ir.traced import maybe_nonzero, room_of
from MNN.ops.core.checked import operation, program
from MNN.ops.core.folding import FoldCache, worth_folding
from MNN.ops.core.open_numbers import OpenNumbers, is_open
from MNN.ops.elementwise import narrow


class NeedValue(Exception):  # noqa: N818 - a request to the planner, not an error
    """Raised when lowering needs the numbers of a tensor that are known only while running."""

    def __init__(self, tensor: Tensor, why: str) -> None:
        super().__init__(why)
        self.tensor = tensor


MAX_ELEMENTS = 1 << 40
"""Larger tensors are refused as nonsense before anything is planned for them."""
MAX_RANK, MAX_TABLE = 32, 1 << 27
"""Dimensions of a tensor, and numbers of the longest table that is made while planning."""
MAX_STEPS = 1 << 16
"""Primitives after which lowering is given up: short loops are written out step by step."""


class Builder:
    """Collects primitives in ``prims``. ``where`` names the node being lowered, for messages and profiles."""

    def __init__(self, fold: bool = True, room: int = 1 << 62, folds: FoldCache | None = None) -> None:
        self.folds = folds or FoldCache()
        self.prims: list[Prim] = []
        self.where = ""
        self.room = room
        """Bytes that any one tensor may take."""
        self.steps = 0
        self._fold = fold
        self.merged: dict[tuple[object, ...], list[Tensor]] = {}  # what every primitive gives, by what tells it apart
        self._consts: dict[tuple[object, ...], Tensor] = {}
        self.open_numbers = OpenNumbers()
        self.read: list[Tensor] = []  # tensors that are no constants, of which numbers were asked for and given

    # -- constants and values ---------------------------------------------------------------------------------------

    def const(
        self, array: np.ndarray | float | int | Sequence[int], dtype: DType | None = None, sized: bool = False
    ) -> Tensor:
        """A constant tensor; ``sized``: it follows from sizes. Small equal constants are shared."""
        data = np.asarray(array) if dtype is None else np.asarray(array).astype(dtype.numpy)
        found_dtype, key = dtype or DType.of(data), None
        if data.size <= 64 and found_dtype is not DType.STR:
            key = (found_dtype, data.shape, data.tobytes(), sized)
            if key in self._consts:
                return self._consts[key]
        tensor = Tensor(found_dtype, data.shape, const=data, sized=sized)
        if key is not None:
            self._consts[key] = tensor
        return tensor

    def value(self, tensor: Tensor | None, why: str = "an operand") -> np.ndarray:
        """The numbers of a tensor that decides shapes. Asks the planner to compute it first when it is not constant."""
        if tensor is None:
            raise ShapeError(f"{self.where}: {why} is missing")
        if tensor.const is None:
            raise NeedValue(tensor, f"{self.where}: {why} must be known before shapes can be planned")
        return tensor.const

    def ints(self, tensor: Tensor | None, why: str = "an operand") -> tuple[int, ...]:
        """Like :meth:`value`, as a flat tuple of ints."""
        if tensor is not None and tensor.sizes is not None:
            return tuple(tensor.sizes.flat)
        return tuple(int(v) for v in self.value(tensor, why).reshape(-1))

    def emit(self, prim: Prim, *types: tuple[DType, tuple[int, ...]]) -> list[Tensor]:
        """Appends a primitive whose outputs have these types; folds it when all operands are constant."""
        prim.origin = self.where
        pure = type(prim) is not p.Host or prim.pure
        self._check(types)
        if (followed := self.open_numbers.follow(prim, types)) is not None:
            return [followed]
        for t in prim.inputs:
            if t.const is None:
                break
        else:
            if self._fold and pure and worth_folding(prim, types):
                return self.folds.fold(prim, types)
        key = (type(prim), *map(id, prim.inputs), prim.attributes(), types)
        if pure and (known := self.merged.get(key)) is not None:
            return known
        prim.outputs = self.merged[key] = [Tensor(d, s, None, "", prim) for d, s in types]
        self.prims.append(prim)
        return prim.outputs

    def expect(self, steps: int) -> None:
        """Says that so many primitives are about to be made; raises :class:`UnsupportedError` when that is too many."""
        if self.steps + steps > MAX_STEPS:
            raise UnsupportedError(
                f"{self.where}: the model unrolls into more than {MAX_STEPS} steps; shorten its sequences"
            )

    def require(self, count: int, what: str) -> None:
        """Says that a table of ``count`` numbers is about to be made while planning; raises :class:`ShapeError` when
        that would take more than the memory limit."""
        if count > MAX_TABLE or count * 16 > self.room:
            raise ShapeError(f"{self.where}: {what} would take {count} numbers; is the model damaged?")

    def _check(self, types: Sequence[tuple[DType, tuple[int, ...]]]) -> None:
        """Raises before anything is made that nobody can hold."""
        if self.steps >= MAX_STEPS:
            self.expect(1)
        self.steps += 1
        for dtype, shape in types:
            count = math.prod(shape)
            if len(shape) > MAX_RANK or count > MAX_ELEMENTS or any(n < 0 for n in shape):
                raise ShapeError(f"{self.where}: {str(list(shape))[:200]} is no shape of a tensor")
            if count * dtype.size > self.room:
                size, room = count * dtype.size / 2**20, self.room / 2**20
                raise ShapeError(
                    f"{self.where}: its result {dtype.value}{list(shape)} takes {size:.0f} MiB, more than the limit of "
                    f"{room:.0f} MiB; use smaller inputs, or set Config.memory_limit"
                )

    # -- views ------------------------------------------------------------------------------------------------------

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Same elements, new shape; one entry may be -1."""
        dims = [d if isinstance(d, int) else int(d) for d in shape]
        if dims.count(-1) == 1:
            rest = elements([d for d in dims if d != -1])
            dims[dims.index(-1)] = elements(x.shape) // rest if rest else 0
        if math.prod(dims) != math.prod(x.shape) or any(d < 0 for d in dims):
            raise ShapeError(f"{self.where}: cannot reshape {list(x.shape)} to {list(shape)}")
        if tuple(dims) == x.shape:
            return x
        if isinstance(x.producer, p.Reshape):
            return self.reshape(x.producer.inputs[0], dims)
        return self.emit(p.Reshape([x]), (x.dtype, tuple(dims)))[0]

    def permute(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        order = tuple(int(a) for a in perm)
        if sorted(order) != list(range(x.rank)):
            raise ShapeError(
                f"{self.where}: {list(order)} is not a permutation of the {x.rank} axes of {list(x.shape)}"
            )
        if order == tuple(range(x.rank)):
            return x
        if isinstance(x.producer, p.Permute):
            inner = x.producer
            return self.permute(inner.inputs[0], [inner.perm[a] for a in order])
        return self.emit(p.Permute([x], perm=order), (x.dtype, tuple(x.shape[a] for a in order)))[0]

    def slice(
        self, x: Tensor, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int] | None = None
    ) -> Tensor:
        """``out[i...] = x[starts + i * steps]`` with ``counts`` elements per dimension."""
        steps = tuple(steps or (1,) * x.rank)
        starts, counts = tuple(starts), tuple(counts)
        for s, c, t, d in zip(starts, counts, steps, x.shape, strict=True):
            if c < 0 or (c and not (0 <= s < d and 0 <= s + (c - 1) * t < d)):
                raise ShapeError(f"{self.where}: slice {starts} +{counts} step {steps} leaves {list(x.shape)}")
        if counts == x.shape and all(t == 1 for t in steps):
            return x
        return self.emit(p.Slice([x], starts=starts, steps=steps), (x.dtype, counts))[0]

    def expand(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Broadcasts to ``shape`` by numpy's rule (leading dimensions are added)."""
        target = tuple([d if isinstance(d, int) else int(d) for d in shape])
        x = self.reshape(x, (1,) * (len(target) - x.rank) + x.shape)
        if broadcast(x.shape, target, where=self.where) != target:
            raise ShapeError(f"{self.where}: {list(x.shape)} does not broadcast to {list(target)}")
        return x if x.shape == target else self.emit(p.Expand([x]), (x.dtype, target))[0]

    def pad(self, x: Tensor, low: Sequence[int], high: Sequence[int], value: float | int = 0) -> Tensor:
        """A constant border; negative amounts crop."""
        low, high = tuple(low), tuple(high)
        if min((*low, *high), default=0) < 0:
            start = [max(-v, 0) for v in low]
            count = [d - s - max(-h, 0) for d, s, h in zip(x.shape, start, high, strict=True)]
            start = [s if c > 0 else 0 for s, c in zip(start, count, strict=True)]
            x = self.slice(x, start, [max(c, 0) for c in count])
            low, high = tuple(max(v, 0) for v in low), tuple(max(v, 0) for v in high)
        if not any(map(maybe_nonzero, (*low, *high))):
            return x
        shape = tuple([d + a + z for d, a, z in zip(x.shape, low, high, strict=True)])
        return self.emit(p.Pad([x], low=low, high=high, value=value), (x.dtype, shape))[0]

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        if not parts:
            raise ShapeError(f"{self.where}: there is nothing to concatenate")
        axis = normalize_axis(axis, parts[0].rank, self.where)
        for t in parts:
            same = t.rank == parts[0].rank and all(
                a == z for i, (a, z) in enumerate(zip(t.shape, parts[0].shape, strict=True)) if i != axis
            )
            if not same or t.dtype is not parts[0].dtype:
                raise ShapeError(f"{self.where}: cannot concatenate {list(parts)} along axis {axis}")
        kept = [t for t in parts if t.shape[axis]] or [parts[0]]
        if len(kept) == 1:
            return kept[0]
        shape = list(kept[0].shape)
        shape[axis] = sum(t.shape[axis] for t in kept)
        return self.emit(p.Concat(list(kept), axis=axis), (kept[0].dtype, tuple(shape)))[0]

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        drop = {normalize_axis(a, x.rank, self.where) for a in axes}
        return self.reshape(x, [d for i, d in enumerate(x.shape) if i not in drop])

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        rank = x.rank + len(axes)
        new = {normalize_axis(a, rank, self.where) for a in axes}
        if len(new) != len(axes):
            raise ShapeError(f"{self.where}: axes {list(axes)} name one of {rank} twice")
        dims = iter(x.shape)
        return self.reshape(x, [1 if i in new else next(dims) for i in range(rank)])

    # -- elementwise ------------------------------------------------------------------------------------------------

    def map(self, fn: Callable[..., int], *operands: Tensor) -> Tensor:
        """Elementwise ``fn(b, *scalars)``, where ``b`` is a :class:`BodyBuilder`; operands broadcast."""
        return self._mapped(program(fn, tuple([t.dtype for t in operands])), operands)

    def _mapped(self, known: tuple[Body, str], operands: Sequence[Tensor]) -> Tensor:
        body, wrong = known
        if wrong:
            raise ShapeError(f"{self.where}: {wrong}")
        shape = broadcast(*[t.shape for t in operands], where=self.where)
        return self.emit(p.Map(list(operands), body=body), (body.code[body.outputs[0]].dtype, shape))[0]

    def op(self, name: str, *operands: Tensor) -> Tensor:
        """One scalar operation of ``MNN.ir.scalar`` applied elementwise."""
        return self._mapped(operation(name, tuple([t.dtype for t in operands])), operands)

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        if x.dtype is dtype:
            return x
        if x.dtype.is_narrow or dtype.is_narrow:
            return self.host("cast", lambda a: [narrow.cast(a[0], dtype)], [x], (dtype, x.shape))[0]
        return self.map(lambda b, a: b.cast(a, dtype), x)

    def like(self, number: float | int, x: Tensor) -> Tensor:
        """A scalar constant of ``x``'s dtype."""
        return self.const(number, x.dtype)

    def clamp(self, x: Tensor, low: float | None, high: float | None, slope_at_bounds: bool = False) -> Tensor:
        """``min(max(x, low), high)``; None leaves a side open. ``slope_at_bounds``: see :mod:`MNN.autodiff.scalars`."""
        order = slice(None, None, -1 if slope_at_bounds else 1)

        def body(b: BodyBuilder, a: int) -> int:
            a = a if low is None else b("max", *[a, b.const(low, b.dtype(a))][order])
            return a if high is None else b("min", *[a, b.const(high, b.dtype(a))][order])

        return x if low is None and high is None else self.map(body, x)

    # -- reductions, contractions, indexed access ---------------------------------------------------------------------

    def reduce(self, op: str, x: Tensor, axes: Sequence[int], keepdims: bool = True) -> Tensor:
        """``op`` in sum, max, min, prod, mean over ``axes``."""
        kept = tuple(sorted({normalize_axis(a, x.rank, self.where) for a in axes}))
        shape = tuple(1 if i in kept else d for i, d in enumerate(x.shape))
        if all(room_of(x.shape[a]) == 1 for a in kept):
            return x if keepdims else self.squeeze(x, kept)
        if op == "mean":
            count = elements([x.shape[a] for a in kept])
            total = self.reduce("sum", x, kept)
            scale = (1.0 / count if count else float("nan")) if x.dtype.is_float else count
            number = self.const(scale, x.dtype, kept != (x.rank - 1,))  # the last dimension is seldom one that varies
            if is_open([count]) and x.dtype in (DType.F32, DType.F64):
                number = self.op("recip", self.cast(self.open_numbers.tensor([count], (), DType.I64), x.dtype))
            out = self.op("mul" if x.dtype.is_float else "div", total, number)
        else:
            out = self.emit(p.Reduce([x], op=op, axes=kept), (x.dtype, shape))[0]
        return out if keepdims else self.squeeze(out, kept)

    def argreduce(self, op: str, x: Tensor, axis: int, keepdims: bool = True) -> Tensor:
        """Index (i64) of the extreme along ``axis``; see :class:`~MNN.ir.prims.ArgReduce`."""
        axis = normalize_axis(axis, x.rank, self.where)
        shape = tuple(1 if i == axis else d for i, d in enumerate(x.shape))
        out = self.emit(p.ArgReduce([x], op=op, axis=axis), (DType.I64, shape))[0]
        return out if keepdims else self.squeeze(out, [axis])

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Matrix product with numpy's rules for vectors and batch dimensions."""
        if not x.rank or not y.rank:
            raise ShapeError(f"{self.where}: cannot multiply {list(x.shape)} by {list(y.shape)}: a scalar is no matrix")
        squeeze = [a for a, t in ((-2, x), (-1, y)) if t.rank == 1]
        x = self.reshape(x, (1, *x.shape)) if x.rank == 1 else x
        y = self.reshape(y, (*y.shape, 1)) if y.rank == 1 else y
        rank = max(x.rank, y.rank)
        x, y = (self.reshape(t, (1,) * (rank - t.rank) + t.shape) for t in (x, y))
        if x.shape[-1] != y.shape[-2]:
            raise ShapeError(f"{self.where}: cannot multiply {list(x.shape)} by {list(y.shape)}: inner sizes differ")
        batch = broadcast(x.shape[:-2], y.shape[:-2], where=self.where)
        narrow = x.dtype in (DType.I8, DType.U8) or (x.dtype is DType.I16 and y.dtype is DType.I8)
        if not narrow and x.dtype is not y.dtype:
            raise ShapeError(f"{self.where}: cannot multiply {x.dtype.value} by {y.dtype.value}")
        dtype = DType.I32 if narrow else x.dtype
        out = self.emit(p.MatMul([x, y]), (dtype, (*batch, x.shape[-2], y.shape[-1])))[0]
        return self.squeeze(out, squeeze) if squeeze else out

    def conv(
        self, x: Tensor, w: Tensor, strides: Sequence[int], dilations: Sequence[int], groups: int, pads: Sequence[int]
    ) -> Tensor:
        """Convolution with zero padding; ``pads``: begins of all spatial axes, then ends."""
        if w.rank != x.rank or w.shape[1] * groups != x.shape[1] or groups < 1 or w.shape[0] % groups:
            shapes = f"input {list(x.shape)} does not fit weights {list(w.shape)}"
            raise ShapeError(f"{self.where}: {shapes} with {plural(groups, 'group')}")
        narrow = (DType.I8, DType.U8, *([DType.I16] if w.dtype is DType.I8 else []))
        if x.dtype is not w.dtype and not (x.dtype in narrow and w.dtype in (*narrow, DType.I16)):
            raise ShapeError(f"{self.where}: cannot convolve {x.dtype.value} with weights of {w.dtype.value}")
        if any(map(maybe_nonzero, pads)):
            x = self.pad(x, (0, 0, *pads[: x.rank - 2]), (0, 0, *pads[x.rank - 2 :]))
        out, strides, dilations = self._window_shape(x, w.shape[2:], strides, dilations)
        dtype = DType.I32 if x.dtype in narrow else x.dtype
        prim = p.Conv([x, w], strides=tuple(strides), dilations=tuple(dilations), groups=groups)
        return self.emit(prim, (dtype, (x.shape[0], w.shape[0], *out)))[0]

    def window(
        self, op: str, x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
    ) -> Tensor:
        """Windows of an already padded input reduced with ``op`` (sum or max)."""
        out, strides, dilations = self._window_shape(x, kernel, strides, dilations)
        prim = p.Window([x], op=op, kernel=tuple(kernel), strides=tuple(strides), dilations=tuple(dilations))
        return self.emit(prim, (x.dtype, (*x.shape[:2], *out)))[0]

    def _window_shape(
        self, x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Output sizes, and the strides and dilations that matter: those over one window or one tap become 1."""
        if min((*kernel, *strides, *dilations), default=1) < 1:
            numbers = f"kernel {kernel}, strides {strides}, dilations {dilations}"
            raise ShapeError(f"{self.where}: {numbers} must be positive")
        spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
        out = tuple([(n - s) // t + 1 for n, s, t in zip(x.shape[2:], spans, strides, strict=True)])
        if any(n < 1 for n in out):
            raise ShapeError(f"{self.where}: window {tuple(spans)} is larger than the padded input {list(x.shape)}")
        steps = tuple([s if room_of(n) > 1 else 1 for s, n in zip(strides, out, strict=True)])
        return out, steps, tuple([d if k > 1 else 1 for d, k in zip(dilations, kernel, strict=True)])

    def gather(
        self, data: Tensor, indices: Sequence[Tensor], indexed: Sequence[int], walk: Sequence[int], shape: Sequence[int]
    ) -> Tensor:
        """General indexed read; see :class:`~MNN.ir.prims.Gather`. Indices broadcast to ``shape``."""
        prim = p.Gather([data, *indices], indexed=tuple(indexed), walk=tuple(walk))
        return self.emit(prim, (data.dtype, tuple(shape)))[0]

    def take(self, data: Tensor, indices: Tensor, axis: int) -> Tensor:
        """numpy's ``take``: the output's shape is ``data`` with ``axis`` replaced by the shape of ``indices``."""
        axis = normalize_axis(axis, data.rank, self.where)
        r = indices.rank
        shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
        index = self.reshape(indices, (1,) * axis + indices.shape + (1,) * (data.rank - axis - 1))
        walk = [-1 if d == axis else d if d < axis else d + r - 1 for d in range(data.rank)]
        return self.gather(data, [index], [axis], walk, shape)

    def scatter(
        self,
        op: str,
        data: Tensor,
        updates: Tensor,
        indices: Sequence[Tensor],
        indexed: Sequence[int],
        walk: Sequence[int],
    ) -> Tensor:
        """General indexed write; see :class:`~MNN.ir.prims.Scatter`."""
        prim = p.Scatter([data, updates, *indices], op=op, indexed=tuple(indexed), walk=tuple(walk))
        return self.emit(prim, (data.dtype, data.shape))[0]

    def scan(self, op: str, x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
        """Running ``op`` along ``axis``; see :class:`~MNN.ir.prims.Scan`."""
        axis = normalize_axis(axis, x.rank, self.where)
        return self.emit(p.Scan([x], op=op, axis=axis, exclusive=exclusive, reverse=reverse), (x.dtype, x.shape))[0]

    def host(
        self,
        label: str,
        fn: p.HostFunction,
        inputs: Sequence[Tensor],
        *types: tuple[DType, tuple[int, ...]],
        pure: bool = True,
    ) -> list[Tensor]:
        """A numpy function with declared output types."""
        return self.emit(p.Host(list(inputs), fn=fn, label=label, pure=pure), *types)
