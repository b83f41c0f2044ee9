"""Nodes of programs of torch.export, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from MNN.errors import MISFITS, FormatError, MNNError, UnsupportedError
from MNN.frontends.torch.absent import advice
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import base_name, call, values
from MNN.frontends.torch.complex.tensor import COMPLEX, Complex
from MNN.frontends.torch.element_types import EXPORTED, PAIRS
from MNN.frontends.torch.exported import batched, control
from MNN.frontends.torch.exported.arguments import Arguments, names_of
from MNN.frontends.torch.exported.json_access import Record
from MNN.frontends.torch.exported.sizes import dim_of, layout_of
from MNN.frontends.torch.layout import Layout
from MNN.frontends.torch.numbers import Number
from MNN.frontends.torch.registry import ATEN
from MNN.frontends.torch.scalars import NAMES as SCALARS
from MNN.frontends.torch.scalars import compute, known_number
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ir.shape import Dim

ADVICE = "export the model with program.run_decompositions(), which writes it in torch's core operators"
CHECKS = frozenset(
    (
        "_assert_scalar", "_assert_tensor_metadata", "_assert_async", "sym_constrain_range",
        "sym_constrain_range_for_size", "_functional_assert_async", "_functional_assert_scalar", "_assert_async.msg",
    )
)  # fmt: skip
"""Operators that only make sure of something."""
_SYMBOLIC = {"and_": "and", "or_": "or", "not_": "not", "xor": "xor"}


class Converter:
    """Keeps what names stand for: variables, numbers, plain data."""

    def __init__(self, ctx: TorchBuilder, axes: dict[str, str], outer: Converter | None = None) -> None:
        self.ctx = ctx
        self.axes = axes
        self.regions = 0
        """How many parts of the program, which are written in place, are being converted."""
        self._names: dict[str, Any] = {} if outer is None else dict(outer._names)
        self._missing: dict[str, str] = {} if outer is None else dict(outer._missing)
        self._layouts: dict[str, Layout] = {}

    def inside(self, ctx: TorchBuilder) -> Converter:
        """For a graph within this one: it sees the same names."""
        return Converter(ctx, self.axes, self)

    # -- names ------------------------------------------------------------------------------------------------------

    def define(self, name: str, what: Any) -> None:
        self._names[name] = what

    def missing(self, name: str, what: str) -> None:
        """A name whose use is an error of its own."""
        self._missing[name] = what

    def lookup(self, name: str) -> Any:
        """Raises :class:`FormatError` for a name that nothing makes."""
        if name in self._missing:
            raise UnsupportedError(f"'{name}' is {self._missing[name]}")
        if name not in self._names:
            raise FormatError(f"nothing makes '{name}', which the program uses; is the file damaged?")
        return self._names[name]

    def renamed(self, dim: Dim) -> Dim:
        return self.axes.get(dim, dim) if isinstance(dim, str) else dim

    def read(self, argument: Record) -> Any:
        return Arguments(self.lookup, argument.where).read(argument)

    def name_of(self, argument: Record) -> str:
        """The name that an argument goes by, for outputs."""
        _, held = argument.union()
        name = held.get("name") or held.get("as_name") if isinstance(held, dict) else None
        return name if isinstance(name, str) and name else "output"

    # -- nodes ------------------------------------------------------------------------------------------------------

    def nodes(self, graph: Record) -> None:
        """Converts all nodes of a graph; what cannot be done is gathered in the report."""
        meta = graph.entries("tensor_values")
        self.ctx.model.taken.update(meta)
        for at, node in enumerate(graph.records("nodes")):
            try:
                self._node(node, meta)
            except RecursionError as error:
                raise FormatError(f"node {at} of {graph.where} is nested too deeply") from error

    def _node(self, node: Record, meta: dict[str, Record]) -> None:
        target = node.text("target")
        results = names_of(node.records("outputs"))
        named = node.data.get("name")
        base = named if isinstance(named, str) and named else next((n for n in _flat(results) if n), target)
        self.ctx.where = f"{target.removeprefix('torch.ops.')} '{base}'"
        for name in _flat(results):
            if name in meta:
                self._declare(name, meta[name])
        failed, found = self._converted(base, target, node, results)
        if failed is not None:
            if not isinstance(failed, _UnknownOperatorError):
                self.ctx.model.report.form(base, target.removeprefix("torch.ops."), failed)
            for name in _flat(results):
                if name:
                    if name not in meta and not target.startswith("torch.ops."):  # a number
                        self.define(name, Number(Value(name, DType.I64, ())))
                        continue
                    failing = Variable(Value(name, *self.ctx.declared(name)))
                    pairs = name in meta and meta[name].integer("dtype") in PAIRS
                    self.define(name, Complex(failing) if pairs else failing)
            return
        self._bind(results, found)

    def _converted(
        self, base: str, target: str, node: Record, results: Sequence[str | list[str] | None]
    ) -> tuple[UnsupportedError | None, Any]:
        """The node's results; tensors of them get the names of the file."""
        held: list[Any] = []
        names = _flat(results)

        def handler() -> list[Value]:
            found = self._call(target, node)
            if isinstance(found, Variable) and found.itself is not found:
                held.append(found.itself)
                return []
            if isinstance(found, batched.Batched):
                found = self._as_declared(found, names)
            held.append(found)
            if base_name(_operator(target)) != _operator(target) or not _new_tensors(found):
                return []
            return [v.read(self.ctx) for v in _flat_results(found) if isinstance(v, Variable)]

        given: list[str] = []

        def bound() -> list[Value]:
            made = handler()
            listed = names[: len(made)] + [""] * max(0, len(made) - len(names))
            given.extend("" if self._named_before(n, v) else n for n, v in zip(listed, made, strict=True))
            return made

        error = self._bound(base, bound, given)
        if error is None and held:
            self._renew(held[0], given)
        return error, (held[0] if held else None)

    def _as_declared(self, found: batched.Batched, names: list[str]) -> batched.Batched:
        """In the type that the file says: tensors without axes of their own count as such where types are promoted."""
        dtype = self.ctx.declared(names[0])[0] if names else None
        if dtype is None:
            return found
        return batched.Batched(Variable(self.ctx.cast(found.tensor.read(self.ctx), dtype)), found.levels)

    def _named_before(self, name: str, value: Value) -> bool:
        """Whether a part of the program that stands for itself (a region) gave the name: to this value, which is one of
        its results, or, while one is converted, to a value of another part."""
        before = self.ctx.scope.get(name)
        return before is not None and (before is value or self.regions > 0)

    def _bound(self, base: str, handler: Callable[[], list[Value]], names: list[str]) -> UnsupportedError | None:
        try:
            return self.ctx.convert(base, self.ctx.where, names, handler)
        except MNNError:
            raise
        except MISFITS as error:
            raise FormatError(
                f"{self.ctx.where}: its arguments do not fit the operator ({type(error).__name__}: {error}); "
                "is the model damaged?"
            ) from error

    def _renew(self, found: Any, names: list[str]) -> None:
        """Variables hold the named values now."""
        fresh = [v for v in _flat_results(found) if isinstance(v, Variable)]
        for variable, name in zip(fresh, names, strict=False):
            value = self.ctx.scope.get(name) if name else None
            if value is not None:
                variable.named(value)
            if name in self._layouts:
                variable.lies(self._layouts[name])

    def _declare(self, name: str, meta: Record) -> None:
        """What the file says of a tensor; open sizes are for us to find."""
        dtype = EXPORTED.get(meta.integer("dtype"))
        sizes = [dim_of(r, f"{name}.{i}") for i, r in enumerate(meta.records("sizes"))]
        shape = tuple(d if isinstance(d, int) else f"{name}.{i}" for i, d in enumerate(sizes))
        if meta.integer("dtype") in PAIRS:
            dtype, shape = PAIRS[meta.integer("dtype")], (*shape, 2)
        self.ctx.declare(name, dtype, shape)
        self._layouts[name] = layout_of(meta)

    def _call(self, target: str, node: Record) -> Any:
        arguments = Arguments(self.lookup, self.ctx.where)
        args, kwargs = [], {}
        for given in node.records("inputs"):
            value = arguments.read(given.record("arg"))
            if given.data.get("kind") == 2:
                kwargs[given.text("name")] = value
            else:
                args.append(value)
        name = _operator(target)
        if name in CHECKS:
            return []
        if target.startswith("torch.ops.higher_order."):
            return control.call(self, target.rsplit(".", 1)[-1], args, kwargs)
        if target.startswith(batched.PREFIX):
            return batched.control(self.ctx, target.removeprefix(batched.PREFIX), args)
        if not target.startswith("torch.ops."):
            return self._number(target, args)
        if name in ("sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "sym_is_contiguous"):
            return self._size(name, args)
        if all(t.find(n) is None for t in (ATEN, COMPLEX) for n in (name, base_name(name))):
            self.ctx.model.report.unknown_operator(
                self.ctx.where, target.removeprefix("torch.ops."), "", advice(name, ADVICE)
            )
            raise _UnknownOperatorError(f"{self.ctx.where}: no such operator here")
        if batched.is_batched([args, kwargs]):
            return batched.apply(self.ctx, name, args, kwargs)
        return call(self.ctx, name, args, kwargs)

    def _number(self, target: str, args: list[Any]) -> Any:
        """``_operator.add``, ``math.floor``, ``torch.sym_max``: functions of numbers."""
        name = target.rsplit(".", 1)[-1].removeprefix("_sym_").removeprefix("sym_")
        name = _SYMBOLIC.get(name, name)
        if name == "getitem" and isinstance(args[0], (list, tuple)):
            return args[0][int(args[1])]
        if name not in SCALARS:
            raise self.ctx.unsupported(f"the function {target}")
        given = args[0] if name in ("sum", "max", "min") and len(args) == 1 and isinstance(args[0], list) else args
        return known_number(self.ctx, compute(self.ctx, name, *given))

    def _size(self, name: str, args: list[Any]) -> Any:
        x = args[0].numbers(self.ctx) if isinstance(args[0], Complex) else values(self.ctx, args[0])
        if name == "sym_is_contiguous":
            return True
        if name == "sym_storage_offset":
            return 0
        if name == "sym_size" and len(args) > 1:
            return self.ctx.size(x, args[1])
        sizes = self.ctx.sizes(x)[: -1 if isinstance(args[0], Complex) else None]
        if name == "sym_size":
            return sizes
        rest = sizes if name == "sym_numel" else sizes[self.ctx.axis(x, args[1]) + 1 :]
        total: Any = 1
        for n in rest:
            total = compute(self.ctx, "mul", total, n)
        return known_number(self.ctx, total)

    def _bind(self, results: Sequence[str | list[str] | None], found: Any) -> None:
        alone = len(results) == 1 and isinstance(results[0], str)
        listed = isinstance(found, (list, tuple)) and (not alone or len(found) == 1)  # of a graph, a list of one
        rows = list(found) if listed else [found]
        if len(results) == 1 and isinstance(results[0], list):
            rows = [list(found) if isinstance(found, (list, tuple)) else [found]]
        for at, name in enumerate(results):
            row = rows[at] if at < len(rows) else None
            if isinstance(name, list):
                for one, value in zip(name, row or [], strict=False):
                    self._set(one, value)
                for one in name[len(row or []) :]:
                    self._set(one, None)
            elif name:
                self._set(name, row)

    def _set(self, name: str, value: Any) -> None:
        if not name:
            return
        if value is None:
            self.missing(name, "a result that this engine does not compute")
        else:
            self.define(name, value)


class _UnknownOperatorError(UnsupportedError):
    """An operator without a handler; the report has it already."""


def _operator(target: str) -> str:
    """``torch.ops.aten.add.Tensor`` is ``add``; operators of others keep their library's name."""
    parts = target.removeprefix("torch.ops.").split(".")
    if len(parts) < 2:
        return target
    return parts[1] if parts[0] in ("aten", "prims", "prim") else f"{parts[0]}.{parts[1]}"


def _flat(results: Sequence[str | list[str] | None]) -> list[str]:
    return [n for r in results for n in (r if isinstance(r, list) else [r or ""])]


def _flat_results(found: Any) -> list[Any]:
    if isinstance(found, (list, tuple)):
        return [v for f in found for v in _flat_results(f)]
    return [found]


def _new_tensors(found: Any) -> bool:
    """Whether all results are tensors: numbers among them have no names in the graph."""
    flat = _flat_results(found)
    return bool(flat) and all(isinstance(v, Variable) for v in flat)


__all__ = ["ADVICE", "Converter", "Number"]
