"""Elementwise functions with numpy's options: where results are written, which elements are computed, and in which
element type."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as _np
from numpy.typing import ArrayLike

from MNN.errors import CallError, MNNError, ShapeError
from MNN.expr import build, math, products, shaping
from MNN.expr.arrays import places
from MNN.expr.arrays.options import check_casting, check_order, into
from MNN.expr.types import ElementType, dtype_of, public
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.numpy._arrays import array

Out = Var | Sequence[Var | None] | None


class Elementwise(Protocol):
    """A function of one or two arrays that broadcast.

    ``out`` is a Var that the result is written into, also as a tuple of one. Where ``where`` is 0, nothing is computed:
    ``out`` stays there, and without one there are zeros. Operands are converted to ``dtype``, as far as ``casting``
    lets them. Raises :class:`MNNError` where the result does not fit into ``out`` or is not of ``dtype``."""

    def __call__(
        self,
        *operands: ArrayLike,
        out: Out = None,
        where: ArrayLike = True,
        casting: str = "same_kind",
        order: str = "K",
        dtype: ElementType | None = None,
        subok: bool = True,
        **named: ArrayLike,
    ) -> Var: ...


def elementwise(function: Callable[..., Var], name: str = "") -> Elementwise:
    """``function``, which takes operands alone, with numpy's options; ``name``: numpy's, where it is another."""
    call: Elementwise = _dressed(function, name or function.__name__)
    return call


def several(function: Callable[..., tuple[Var, ...]]) -> Callable[..., tuple[Var, ...]]:
    """The same of a function with more than one result, for which ``out`` is a tuple of Vars and Nones."""
    call: Callable[..., tuple[Var, ...]] = _dressed(function, function.__name__)
    return call


def _dressed(function: Callable[..., Any], known: str) -> Any:
    own = inspect.signature(function)
    call = _CALLS.get(tuple(own.parameters), _of_any)(math.PREPARED.get(function.__name__, function), known)
    functools.update_wrapper(call, function)
    made: Any = call
    made.__name__ = made.__qualname__ = known
    made.__signature__ = own.replace(parameters=[*own.parameters.values(), *_OPTIONS])
    return call


def _of_one(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def told(entries: places.Entries) -> None:
        nonlocal function
        function = entries.get(function, function)

    places.follow(told)

    def call(x: ArrayLike, out: Out = None, **options: Any) -> Any:
        if out is None and not options:
            return function(x)
        return with_options(function, (x,), {}, name, out, **options)

    return call


def _of_two(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def told(entries: places.Entries) -> None:
        nonlocal function
        function = entries.get(function, function)

    places.follow(told)

    def call(x: ArrayLike, y: ArrayLike, out: Out = None, **options: Any) -> Any:
        if out is None and not options:
            return function(x, y)
        return with_options(function, (x, y), {}, name, out, **options)

    return call


def _of_any(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters

    def call(*operands: Any, **options: Any) -> Any:
        named = {key: options.pop(key) for key in parameters if key in options}
        out = options.pop("out", None)
        if len(operands) == len(parameters) + 1 and out is None:
            *operands, out = operands  # type: ignore[assignment]
        if out is None and not options:
            return function(*operands, **named)
        return with_options(function, tuple(operands), named, name, out, **options)

    return call


_CALLS = {("x",): _of_one, ("x", "y"): _of_two}
"""By the names of operands, which may be given by name: those of most are theirs, at less cost than any."""
_OPTIONS = [
    inspect.Parameter("out", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="Out"),
    *(inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
      for key, default, kind in (("where", True, "ArrayLike"), ("casting", "same_kind", "str"), ("order", "K", "str"),
                                 ("dtype", None, "ElementType | None"), ("subok", True, "bool"))),
]  # fmt: skip


def with_options(
    function: Callable[..., Any], operands: tuple[Any, ...], named: dict[str, Any], name: str, out: Any,
    where: Any = True, casting: str = "same_kind", order: str | None = "K", dtype: ElementType | None = None,
    subok: bool = True, **unknown: object,
) -> Any:  # fmt: skip
    """What :func:`elementwise` does with options, for functions that take others beside them."""
    if unknown:
        raise CallError(f"{name}() has no option {', '.join(unknown)}; it takes out, where, dtype and casting")
    check_order(order, name)
    if dtype is not None:
        wanted = dtype_of(dtype)
        operands = tuple(_converted(o, wanted, casting, name) for o in operands)
        named = {key: _converted(o, wanted, casting, name) for key, o in named.items()}
    found = function(*operands, **named)
    results = found if isinstance(found, tuple) else (found,)
    if dtype is not None and results[0]._kind is not wanted:
        raise MNNError(f"{name}() gives {results[0].dtype} of {public(wanted)}, which dtype asks for; convert it after")
    places_ = tuple(out) if isinstance(out, (tuple, list)) else (out,) + (None,) * (len(results) - 1)
    if len(places_) != len(results):
        raise MNNError(f"{name}() has {len(results)} results, found {len(places_)} in out")
    made = tuple(_placed(r, o, where, casting, name) for r, o in zip(results, places_, strict=True))
    return made if isinstance(found, tuple) else made[0]


def _converted(operand: Any, kind: DType, casting: str, name: str) -> Var:
    v = operand if isinstance(operand, Var) else array(operand, public(kind) if kind is DType.F64 else None, copy=False)
    plain = isinstance(operand, (int, float))  # which have no element type, but that of what they meet
    check_casting([] if plain and (kind.is_float or not v._kind.is_float) else [v._kind], kind, casting, name)
    return build.cast(v, kind)


def _placed(found: Var, out: Var | None, where: Any, casting: str, name: str) -> Var:
    if out is not None and not isinstance(out, Var):
        raise MNNError(f"{name}(): out is a Var to be written into, found {type(out).__name__}; leave it out")
    if where is not True:
        chosen = math.not_equal(where, 0)
        try:
            shape = list(_np.broadcast_shapes(tuple(found.shape), tuple(chosen.shape)))
        except ValueError:
            raise ShapeError(f"{name}(): where has shape {chosen.shape}, the result {found.shape}") from None
        if out is not None and out.shape != shape:
            raise ShapeError(f"{name}(): out has shape {out.shape}, the result {shape}")
        rest = build.number(0, found._kind) if out is None else build.cast(out, found._kind)
        found = math.select(chosen, shaping.broadcast_to(found, shape), rest)
    return build.to_var(into(found, out, casting))


abs = elementwise(math.abs)
add = elementwise(math.add)
arccos = elementwise(math.acos, "arccos")
arccosh = elementwise(math.acosh, "arccosh")
arcsin = elementwise(math.asin, "arcsin")
arcsinh = elementwise(math.asinh, "arcsinh")
arctan = elementwise(math.atan, "arctan")
arctan2 = elementwise(math.atan2, "arctan2")
arctanh = elementwise(math.atanh, "arctanh")
bitwise_and = elementwise(math.bitwise_and)
bitwise_or = elementwise(math.bitwise_or)
bitwise_xor = elementwise(math.bitwise_xor)
ceil = elementwise(math.ceil)
cos = elementwise(math.cos)
cosh = elementwise(math.cosh)
divide = elementwise(math.divide)
equal = elementwise(math.equal)
exp = elementwise(math.exp)
expm1 = elementwise(math.expm1)
floor = elementwise(math.floor)
floor_divide = elementwise(products.floor_divide)
fmod = elementwise(math.mod, "fmod")
greater = elementwise(math.greater)
greater_equal = elementwise(math.greater_equal)
less = elementwise(math.less)
less_equal = elementwise(math.less_equal)
log = elementwise(math.log)
log1p = elementwise(math.log1p)
maximum = elementwise(math.maximum)
minimum = elementwise(math.minimum)
multiply = elementwise(math.multiply)
negative = elementwise(math.negative)
not_equal = elementwise(math.not_equal)
power = elementwise(math.pow, "power")
reciprocal = elementwise(math.reciprocal)
sign = elementwise(math.sign)
sin = elementwise(math.sin)
sinh = elementwise(math.sinh)
sqrt = elementwise(math.sqrt)
square = elementwise(math.square)
subtract = elementwise(math.subtract)
tan = elementwise(math.tan)
tanh = elementwise(math.tanh)
