"""Functions of ``torch.vmap``, which programs of torch.export keep as they are: tensors with axes that nobody sees.

transformers makes its masks so, and ``associative_scan`` its steps. A batched tensor has the axis of each level of vmap
in front of its own, the outermost first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import base_name, call
from MNN.frontends.torch.registry import ATEN

PREFIX = "torch._functorch.predispatch."
ADVICE = "export the model with program.run_decompositions(), which writes vmap in torch's core operators"
_POINTWISE = ("arithmetic", "comparisons", "unary", "special", "casting")
"""Modules with operators on elements and what is broadcast to them."""
_WHOLE = frozenset(("equal", "allclose", "item", "_local_scalar_dense", "_is_all_true", "_is_any_true", "tensor"))
"""Operators there that are about whole tensors."""
_OF_AXES = frozenset(
    ("select", "slice", "unsqueeze", "squeeze", "sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin",
     "cumsum", "softmax", "_softmax", "log_softmax", "_log_softmax", "logsumexp", "var", "std", "flip", "sort", "topk")
)  # fmt: skip
"""Operators whose second argument is an axis or a list of them (that of topk is the third)."""
_ALL_AXES = frozenset(("sum", "mean", "amax", "amin", "prod", "any", "all", "var", "std"))
"""Those of them that take all axes where none is given."""


@dataclass(frozen=True)
class Batched:
    """``levels``: those of vmap, one for each of the first axes of ``tensor``, ascending."""

    tensor: Variable
    levels: tuple[int, ...]

    def rank(self, ctx: TorchBuilder) -> int:
        """The number of axes that the function sees."""
        return ctx.rank_of(self.tensor.read(ctx)) - len(self.levels)


def is_batched(things: Any) -> bool:
    """Whether there is a batched tensor among them."""
    return any(_found(things))


def _found(things: Any) -> Iterator[Batched]:
    if isinstance(things, Batched):
        yield things
    elif isinstance(things, (list, tuple)):
        for thing in things:
            yield from _found(thing)
    elif isinstance(things, dict):
        yield from _found(list(things.values()))


def control(ctx: TorchBuilder, name: str, args: Sequence[Any]) -> Any:
    """What begins and ends a level."""
    if name == "_add_batch_dim":
        return _added(ctx, args[0], int(args[1]), int(args[2]))
    if name == "_remove_batch_dim":
        return _removed(ctx, args[0], int(args[1]), args[2], int(args[3]))
    if name in ("lazy_load_decompositions", "_vmap_increment_nesting", "_vmap_decrement_nesting"):
        return []
    raise ctx.unsupported(f"the function {PREFIX}{name}", ADVICE)


def _added(ctx: TorchBuilder, x: Any, axis: int, level: int) -> Batched:
    before = x if isinstance(x, Batched) else Batched(x, ())
    first = len(before.levels)
    axis = axis if axis >= 0 else axis + before.rank(ctx)
    return Batched(call(ctx, "movedim", [before.tensor, first + axis, first], {}), (*before.levels, level))


def _removed(ctx: TorchBuilder, x: Any, level: int, size: Any, axis: int) -> Any:
    before = x if isinstance(x, Batched) else Batched(x, ())
    if level not in before.levels:
        rank = before.rank(ctx) + 1
        at = len(before.levels) + axis % rank
        wide = call(ctx, "unsqueeze", [before.tensor, at], {})
        sizes = [-1] * (len(before.levels) + rank)
        sizes[at] = size
        made, levels = call(ctx, "expand", [wide, sizes], {}), before.levels
    else:
        at = before.levels.index(level)
        levels = tuple(n for n in before.levels if n != level)
        made = call(ctx, "movedim", [before.tensor, at, len(levels) + axis % (before.rank(ctx) + 1)], {})
    return Batched(made, levels) if levels else made


def apply(ctx: TorchBuilder, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator on batched tensors. Raises :class:`UnsupportedError` for operators that are not on
    elements, along axes, or reading at places."""
    plain = base_name(name)
    handler = ATEN.find(plain)
    if plain.startswith("new_"):
        return call(ctx, name, [_plain(args[0]), *args[1:]], kwargs)
    if plain in _OF_AXES and not is_batched([args[1:], list(kwargs.values())]):
        return _along(ctx, name, args, kwargs)
    if plain == "index" and not isinstance(args[0], Batched) and all(i is not None for i in args[1]):
        indices, levels = _aligned(ctx, args[1])
        return Batched(call(ctx, name, [args[0], indices], kwargs), levels)
    module = "" if handler is None else handler.__module__.rsplit(".", 1)[-1]
    if module not in _POINTWISE or plain in _WHOLE:
        raise ctx.unsupported(f"'{name}' within torch.vmap", ADVICE)
    listed = [*args, *kwargs.values()]
    given, levels = _aligned(ctx, listed)
    named = dict(zip(kwargs, given[len(args) :], strict=True))
    return Batched(call(ctx, name, given[: len(args)], named), levels)


def _plain(x: Any) -> Any:
    return x.tensor if isinstance(x, Batched) else x


def _aligned(ctx: TorchBuilder, operands: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Operands with axes of size 1 for the levels they lack, and for the axes that others have before theirs."""
    levels = tuple(sorted({level for b in _found(list(operands)) for level in b.levels}))
    ranks = [b.rank(ctx) for b in _found(list(operands))]
    ranks += [ctx.rank_of(v.read(ctx)) for v in operands if isinstance(v, Variable)]
    most = max(ranks)
    given = []
    for operand in operands:
        if isinstance(operand, Batched):
            axes = [i for i, level in enumerate(levels) if level not in operand.levels]
            axes += [len(levels) + i for i in range(most - operand.rank(ctx))]
            value = operand.tensor
            for axis in axes:
                value = call(ctx, "unsqueeze", [value, axis], {})
            operand = value
        given.append(operand)
    return given, levels


def _along(ctx: TorchBuilder, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Axes count behind those of the levels."""
    x: Batched = args[0]
    first, rest, rank = len(x.levels), list(args[1:]), x.rank(ctx)
    named = dict(kwargs)
    plain = base_name(name)
    at = 1 if plain == "topk" else 0
    if rest and isinstance(rest[0], bool):  # whether a variance is unbiased, of all axes
        rest.insert(0, None)
    held = rest[at] if len(rest) > at else named.get("dim", -1 if plain in ("sort", "topk") else None)
    if held is None or held == []:
        if plain not in _ALL_AXES:
            raise ctx.unsupported(f"'{name}' of a whole tensor within torch.vmap", ADVICE)
        held = list(range(rank))
        if not held and plain not in ("var", "std"):
            return x
    if rank == 0 and plain != "unsqueeze":  # axes 0 and -1 are allowed, and are none of the levels'
        raise ctx.unsupported(f"'{name}' of single numbers within torch.vmap", ADVICE)
    moved: Any = [_behind(n, first) for n in held] if isinstance(held, (list, tuple)) else _behind(held, first)
    if plain == "prod" and isinstance(moved, list):
        moved = moved[0] if len(moved) == 1 else moved
    if len(rest) > at:
        rest[at] = moved
    else:
        named["dim"] = moved
    found = call(ctx, name, [x.tensor, *rest], named)
    return [Batched(v, x.levels) for v in found] if isinstance(found, (list, tuple)) else Batched(found, x.levels)


def _behind(axis: int, first: int) -> int:
    return axis if axis < 0 else axis + first
