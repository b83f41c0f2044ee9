"""Scalar programs as vector code: one instruction of a :class:`MNN.ir.scalar.Body` to LLVM IR, exactly as it means.

Values are in their compute types (:mod:`MNN.backends.cpu.lang.element`). :class:`BodyCode` splits a body into what is
the same along a row, computed once as scalars and broadcast, and what differs between the elements of the row."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from MNN.backends.cpu.lang.element import compute_type, narrow, widen
from MNN.backends.cpu.lang.module import F32, F64, Builder, Value
from MNN.backends.cpu.math import bf16_accuracy, rounding, scalar_int
from MNN.backends.cpu.math import functions as vecmath
from MNN.backends.cpu.math import powers as vecmath_pow
from MNN.backends.cpu.math import trigonometry as vecmath_trig
from MNN.backends.cpu.math.gates import Part, fused_parts
from MNN.backends.cpu.math.tables import looked_up
from MNN.ir.dtype import DType
from MNN.ir.intervals import Interval, intervals
from MNN.ir.scalar import COMPARE, Body, Instr

COSTLY = {
    "exp": 12, "exp2": 12, "log": 16, "log1p": 22, "expm1": 16, "sin": 24, "cos": 24, "tan": 34, "asin": 22, "acos": 22,
    "atan": 24, "sinh": 24, "cosh": 20, "tanh": 26, "asinh": 40, "acosh": 40, "atanh": 36, "erf": 28, "pow": 60,
    "atan2": 34, "mod": 40, "rem": 40, "sqrt": 6, "rsqrt": 8, "recip": 5, "div": 5, "floordiv": 6,
    "lookup": 24,
}  # fmt: skip
"""Rough cost of an operation in vector instructions; others are 1 or 2."""

_NEARLY = 1 - 2.0**-22
"""What keeps a bound on f32 numbers in range that may itself be rounded up."""

_INTRINSIC = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc"}
_MATH = {**vecmath.FUNCTIONS, **vecmath_trig.FUNCTIONS}
_ORDERED = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


def body_cost(body: Body) -> int:
    """Estimated vector instructions per vector of results."""
    return sum(COSTLY.get(i.op, 1) for i in body.code if i.op not in ("arg", "const"))


def stored(body: Body) -> tuple[int, ...]:
    """The results to hand to a store: without a last rounding to 16 bits, which the store does itself."""
    roots = []
    for i in body.outputs:
        instr = body.code[i]
        rounds = instr.op == "cast" and instr.dtype in (DType.F16, DType.BF16, DType.BF16X2)
        roots.append(instr.args[0] if rounds and body.code[instr.args[0]].dtype is DType.F32 else i)
    return tuple(roots)


def number(b: Builder, instr: Instr, lanes: int) -> Value:
    """A ``const`` instruction's value."""
    return b.const(compute_type(instr.dtype, lanes), instr.number())


Constant = Callable[[Builder, Instr, int], Value]
"""Gives a ``const`` instruction's value for so many lanes."""


def apply(b: Builder, instr: Instr, x: Sequence[Value], source: DType) -> Value:
    """The result of an instruction on operands ``x``; ``source`` is the dtype of the first one that is no condition."""
    op = instr.op
    if op == "select":
        return b.select(x[0], x[1], x[2])
    if op == "cast":
        return cast(b, x[0], source, instr.dtype)
    if source is DType.BOOL:
        return scalar_int.apply_bool(b, op, x)
    if source.is_int:
        return scalar_int.apply_int(b, op, x, source.is_signed)
    return _apply_float(b, op, x)


def cast(b: Builder, x: Value, source: DType, to: DType) -> Value:
    """Saturates from floats to integers (NaN gives 0), wraps between integers, ``!= 0`` to bool."""
    t = compute_type(to, x.type.lanes)
    if to is DType.BOOL:
        if source is DType.BOOL:
            return x
        return b.fcmp("une", x, 0.0) if source.is_float else b.icmp("ne", x, 0)
    if to.is_int:
        if source.is_float:
            return rounding.saturating(b, x, to)
        if t.bits <= x.type.bits:
            return b.convert("trunc", x, t)  # nothing when they have the same width
        return b.convert("sext" if source.is_signed else "zext", x, t)
    if not source.is_float:
        y = b.convert("sitofp" if source.is_signed else "uitofp", x, t)
    elif t.bits == x.type.bits:
        y = x
    else:
        y = b.convert("fpext" if t.element is F64 else "fptrunc", x, t)
    return widen(b, to, narrow(b, to, y)) if to in (DType.F16, DType.BF16) else y


_EXTREMES = {"min": "olt", "max": "ogt"}
"""The comparison by which the second operand is taken."""


def _extreme(b: Builder, x: Value, y: Value, predicate: str, is_number: bool = False) -> Value:
    """min or max that gives NaN if either operand is NaN; ``is_number``: ``y`` never is."""
    if x.number is not None and not is_number:
        x, y = y, x
    # An ordered comparison that fails gives its second operand, so a NaN there comes through.
    picked = b.select(b.fcmp(predicate, y, x), y, x)
    if is_number or (y.number is not None and y.number == y.number):
        return picked
    return b.select(b.fcmp("uno", y, y), y, picked)


def _power(b: Builder, x: Value, y: Value) -> Value:
    """pow, with the usual constant exponents done without logarithms."""
    e = y.number
    if e == 0.5:
        root = b.add(b.intrinsic("sqrt", x), 0.0)  # pow(-0, 0.5) is +0
        return b.select(b.fcmp("oeq", x, float("-inf")), float("inf"), root)
    if e in (1, 2, 3, 4):
        square = b.mul(x, x)
        return {1: lambda: x, 2: lambda: square, 3: lambda: b.mul(square, x), 4: lambda: b.mul(square, square)}[
            int(e)
        ]()
    if e == -1:
        return b.fdiv(1.0, x)
    return vecmath_pow.power(b, x, y)


def _float_mod(b: Builder, x: Value, y: Value) -> Value:
    r = vecmath_pow.remainder(b, x, y)
    other = b.xor(b.fcmp("olt", r, 0.0), b.fcmp("olt", y, 0.0))
    return b.select(b.and_(b.fcmp("une", r, 0.0), other), b.add(r, y), r)


def _fused(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """``x * y + z`` with one rounding; in f64, where the product of two f32 is exact, on processors without it."""
    if b.module.has_fma or x.type.bits != 32:
        return b.fma(x, y, z)
    wide = F64.vec(x.type.lanes)
    x, y, z = (b.convert("fpext", v, wide) for v in (x, y, z))
    return b.convert("fptrunc", b.add(b.mul(x, y), z), F32.vec(wide.lanes))


def _sign(b: Builder, x: Value) -> Value:
    return b.select(b.fcmp("ogt", x, 0.0), 1.0, b.select(b.fcmp("olt", x, 0.0), -1.0, x))


_FLOAT: dict[str, Callable[..., Value]] = {
    "add": lambda b, x, y: b.add(x, y),
    "sub": lambda b, x, y: b.sub(x, y),
    "mul": lambda b, x, y: b.mul(x, y),
    "div": lambda b, x, y: b.fdiv(x, y),
    "fma": _fused,
    "neg": lambda b, x: b.fneg(x),
    "sign": _sign,
    "rsqrt": lambda b, x: b.fdiv(1.0, b.intrinsic("sqrt", x)),
    "recip": lambda b, x: b.fdiv(1.0, x),
    "isnan": lambda b, x: b.fcmp("uno", x, x),
    "isinf": lambda b, x: b.fcmp("oeq", b.intrinsic("fabs", x), float("inf")),
    "min": lambda b, x, y: _extreme(b, x, y, _EXTREMES["min"]),
    "max": lambda b, x, y: _extreme(b, x, y, _EXTREMES["max"]),
    "pow": _power,
    "atan2": vecmath_trig.atan2,
    "floordiv": lambda b, x, y: b.intrinsic("floor", b.fdiv(x, y)),
    "rem": vecmath_pow.remainder,
    "mod": _float_mod,
}


def _apply_float(b: Builder, op: str, x: Sequence[Value]) -> Value:
    if op in _FLOAT:
        return _FLOAT[op](b, *x)
    if op in _INTRINSIC:
        return b.intrinsic(_INTRINSIC[op], x[0])
    if op in COMPARE:
        return b.fcmp(_ORDERED[op], x[0], x[1])
    if op in _MATH:
        return _MATH[op](b, x[0])
    raise TypeError(f"no code for operation '{op}' on floats")


class BodyCode:
    """Emits a body for rows: ``row_args`` are the operands that are one scalar per row.

    Call :meth:`row` where a row begins, then :meth:`elements` for each vector of elements. ``given`` names results that
    the caller provides itself at the start of a row (reductions), as scalars. With ``scale_rows`` a division by a row
    constant becomes a product with its reciprocal: one rounding more, and an overflow where the constant is subnormal.
    """

    def __init__(
        self,
        body: Body,
        row_args: Collection[int],
        given: Collection[int] = (),
        scale_rows: bool = False,
        constant: Constant = number,
    ) -> None:
        self.body, self._constant = body, constant
        self.varies: list[bool] = []
        for i, instr in enumerate(body.code):
            if instr.op == "arg":
                self.varies.append(instr.value not in row_args)
            else:
                self.varies.append(i not in given and any(self.varies[a] for a in instr.args))
        self.scale_rows = scale_rows and all(i.dtype.is_float for i in body.code if i.op == "div")
        self.bf16_accurate = bf16_accuracy.allowed(body)
        self.parts = (
            {} if self.bf16_accurate else {i: q for i, q in fused_parts(body).items() if self.varies[q.args[0]]}
        )
        self.tables: Sequence[Value] = ()
        """Where those of lookups are."""
        self._intervals: list[Interval] | None = None
        self._scalars: dict[int, Value] = {}
        self._vectors: dict[tuple[int, int], Value] = {}

    def source(self, instr: Instr) -> DType:
        """The dtype that decides the meaning of an instruction: that of its first operand that is no condition."""
        if not instr.args:
            return instr.dtype
        return self.body.code[instr.args[1 if instr.op == "select" else 0]].dtype

    def needed(self, roots: Collection[int]) -> set[int]:
        """The instructions that ``roots`` depend on, themselves included."""
        found: set[int] = set()
        stack = list(roots)
        while stack:
            i = stack.pop()
            if i not in found:
                found.add(i)
                stack += self.body.code[i].args
        return found

    def row(
        self, b: Builder, args: Mapping[int, Value], given: Mapping[int, Value] | None = None, begin: bool = True
    ) -> None:
        """Computes what is constant along the row from the row operands, as scalars, as far as it is known.

        With ``begin=False`` it adds to what the row already has, after ``given`` became known.
        """
        if begin:
            self._scalars, self._vectors = {}, {}
        self._scalars.update(given or {})
        for i, instr in enumerate(self.body.code):
            if self.varies[i] or i in self._scalars or instr.op == "const" or instr.op.startswith("reduce."):
                continue
            if instr.op == "arg":
                assert isinstance(instr.value, int)
                self._scalars[i] = args[instr.value]
            elif all(self.body.code[a].op == "const" or a in self._scalars for a in instr.args):
                self._scalars[i] = apply(b, instr, [self._scalar(b, a) for a in instr.args], self.source(instr))

    def _scalar(self, b: Builder, i: int) -> Value:
        instr = self.body.code[i]
        return number(b, instr, 1) if instr.op == "const" else self._scalars[i]

    def scalar(self, b: Builder, i: int) -> Value:
        """A result that is constant along the row."""
        return self._scalar(b, i)

    def broadcast(self, b: Builder, lanes: int, roots: Collection[int]) -> None:
        """Puts the row's constants that ``roots`` use directly into vectors, ahead of the loop over the row."""
        for i in sorted(self.needed(roots)):
            users = [*self.body.code[i].args] if self.varies[i] else []
            inputs = self.parts[i].args if i in self.parts else ()
            for a in [*users, *inputs, *([i] if i in roots else [])]:
                self._vector(b, a, lanes)
            if self.scale_rows and self.varies[i] and self.body.code[i].op == "div" and not self.varies[users[1]]:
                self._reciprocal(b, users[1], lanes)

    def _vector(self, b: Builder, i: int, lanes: int) -> Value | None:
        instr = self.body.code[i]
        if instr.op == "const":
            return self._constant(b, instr, lanes)
        if self.varies[i]:
            return None
        key = (i, lanes)
        if key not in self._vectors:
            self._vectors[key] = b.splat(self._scalars[i], lanes)
        return self._vectors[key]

    def _reciprocal(self, b: Builder, i: int, lanes: int) -> Value:
        key = (-1 - i, lanes)
        if key not in self._vectors:
            self._vectors[key] = b.splat(b.fdiv(1.0, self._scalar(b, i)), lanes)
        return self._vectors[key]

    def elements(
        self,
        b: Builder,
        args: Mapping[int, Value],
        lanes: int,
        roots: Sequence[int],
        given: Mapping[int, Value] | None = None,
    ) -> list[Value]:
        """The values of instructions ``roots`` for one vector; ``args`` are vectors of the varying operands.

        ``given`` are results that are known already for this vector (kept from an earlier pass).
        """
        values: dict[int, Value] = dict(given or {})
        chosen = {i: part for i, part in self._parts(values).items() if part.fits(b, lanes)}

        def value(i: int) -> Value:
            found = values.get(i)
            if found is None:
                found = self._vector(b, i, lanes)
                if found is None:
                    instr = self.body.code[i]
                    if instr.op == "arg":
                        assert isinstance(instr.value, int)
                        found = args[instr.value]
                    elif i in chosen:
                        found = chosen[i].emit(b, *map(value, chosen[i].args))
                    elif self._rounds_to_int(instr):
                        whole = rounding.to_nearest(b, value(self.body.code[instr.args[0]].args[0]))
                        found = cast(b, whole, DType.I32, instr.dtype)
                    elif self._rounds(instr) and instr.dtype.size < 4:
                        found = rounding.nearest(b, value(self.body.code[instr.args[0]].args[0]), instr.dtype)
                    elif instr.op == "div" and self.scale_rows and not self.varies[instr.args[1]]:
                        found = b.mul(value(instr.args[0]), self._reciprocal(b, instr.args[1], lanes))
                    else:
                        found = self._apply(b, instr, [value(a) for a in instr.args])
                values[i] = found
            return found

        for i in sorted(self.needed_until(roots, values)):  # in order, so that recursion stays shallow
            value(i)
        return [value(i) for i in roots]

    def _rounds(self, instr: Instr) -> bool:
        """Whether it makes an i32 (or less) of a rounded f32."""
        if instr.op != "cast" or not instr.dtype.is_int or instr.dtype.size > 4:
            return False
        rounded = self.body.code[instr.args[0]]
        return rounded.op == "round" and rounded.dtype is DType.F32

    def _rounds_to_int(self, instr: Instr) -> bool:
        """Whether it makes an i32 (or less) of a rounded f32 that is known to be in range: one instruction does it."""
        if not self._rounds(instr):
            return False
        if self._intervals is None:
            self._intervals = intervals(self.body.code)
        low, high = self._intervals[instr.args[0]]
        limit = 1 << (8 * instr.dtype.size - 1)
        return -limit <= low and high < limit * _NEARLY

    def _apply(self, b: Builder, instr: Instr, x: Sequence[Value]) -> Value:
        if instr.op == "lookup":
            return looked_up(b, self.tables[int(instr.value)], x[0])
        source = self.source(instr)
        found = bf16_accuracy.apply(b, instr, x, source) if self.bf16_accurate else None
        if found is None and source.is_float and instr.op in _EXTREMES:
            for i in (1, 0):
                if self._is_number(instr.args[i]):
                    return _extreme(b, x[1 - i], x[i], _EXTREMES[instr.op], True)
        return apply(b, instr, x, source) if found is None else found

    def _is_number(self, i: int) -> bool:
        """Whether a float is known never to be NaN: a constant, a converted integer, a sum of two that are finite."""
        instr = self.body.code[i]
        return self._is_finite(i) or (instr.op in ("add", "sub") and all(self._is_finite(a) for a in instr.args))

    def _is_finite(self, i: int) -> bool:
        instr = self.body.code[i]
        if instr.op == "const":
            return math.isfinite(instr.number())
        source = self.body.code[instr.args[0]].dtype if instr.op == "cast" else instr.dtype
        return source.is_int and instr.dtype in (DType.F32, DType.F64)

    def needed_until(self, roots: Collection[int], known: Collection[int]) -> set[int]:
        """Like :meth:`needed`, but not looking behind known results and row constants."""
        found: set[int] = set()
        chosen = self._parts(known)
        stack = [i for i in roots if i not in known]
        while stack:
            i = stack.pop()
            if i in found or i in known or not self.varies[i]:
                continue
            found.add(i)
            stack += chosen[i].args if i in chosen else self.body.code[i].args
        return found

    def _parts(self, known: Collection[int]) -> Mapping[int, Part]:
        """Those of which nothing is known yet."""
        return {i: part for i, part in self.parts.items() if not any(j in known for j in part.inside)}


def emit_body(
    b: Builder, body: Body, operands: Sequence[Value], lanes: int, constant: Constant = number
) -> list[Value]:
    """A whole body on vectors (or scalars) of its operands, given in compute types, for :func:`element.store`."""
    code = BodyCode(body, (), constant=constant)
    code.row(b, {})  # what follows from constants alone
    return code.elements(b, dict(enumerate(operands)), lanes, stored(body))


__all__ = ["BodyCode", "Constant", "apply", "body_cost", "cast", "emit_body", "number", "stored"]
