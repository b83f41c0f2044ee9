"""Reverse mode: from gradients of results to gradients of what they were computed from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from MNN.autodiff.row_products import joined_products
from MNN.autodiff.rules import Asked, narrow, rule_of, zeros
from MNN.errors import ShapeError, UnsupportedError
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor
from MNN.ops.core.builder import Builder

_COLLAPSED = (p.Reshape, p.Permute)
"""Views that the builder joins with those on them, so that a result may not be found to depend on one of them."""


def gradients(
    b: Builder, outputs: Sequence[Tensor], cotangents: Sequence[Tensor | None], wrt: Sequence[Tensor]
) -> list[Tensor]:
    """For every tensor of ``wrt`` the sum over outputs of cotangent times Jacobian, in its shape and element type;
    zeros where nothing depends on it. ``cotangents`` have the shapes of ``outputs``.

    Raises :class:`ShapeError` for tensors that are no floats, :class:`UnsupportedError` for what has no rule.
    """
    for t in wrt:
        if not t.dtype.is_float:
            raise ShapeError(
                f"{b.where}: the gradient of '{t.name or 'a tensor'}' is asked for, which holds {t.dtype.value}: only "
                "floats have gradients; cast it to a float first"
            )
        if isinstance(t.producer, _COLLAPSED):
            raise UnsupportedError(
                f"{b.where}: the gradient of '{t.name or 'a tensor'}' is asked for, which is another tensor in another "
                "shape; ask for the gradient of that one"
            )
    order = _between(outputs, wrt)
    _check_read(b, wrt)
    found: dict[Tensor, list[Tensor]] = {}
    for t, g in zip(outputs, cotangents, strict=True):
        if g is not None:
            found.setdefault(t, []).append(g)
    targets = set(wrt)
    depends = targets | {t for prim in order for t in prim.outputs}
    outer = b.where
    for prim in reversed(order):
        given = [_total(b, found, t) for t in prim.outputs]
        for t in prim.outputs:
            if t not in targets:
                found.pop(t, None)
        if all(g is None for g in given):
            continue
        b.where = f"{prim.origin}, gradient" if prim.origin and not prim.origin.endswith("gradient") else outer
        wanted = [_asked(t, targets, depends) for t in prim.inputs]
        if not any(wanted):
            continue
        made = rule_of(type(prim))(b, prim, given, wanted)
        for t, g, asked in zip(prim.inputs, made, wanted, strict=True):
            if g is not None and asked:
                assert (g.shape, g.dtype) == (t.shape, t.dtype), (prim, t, g)
                found.setdefault(t, []).append(g)
    b.where = outer
    results = [_total(b, found, t) for t in wrt]
    return [zeros(b, t) if g is None else g for t, g in zip(wrt, results, strict=True)]


def _asked(t: Tensor, targets: Collection[Tensor], depends: Collection[Tensor]) -> Asked:
    if t not in depends or not t.dtype.is_float:
        return Asked.NOT
    return Asked.ITSELF if t in targets else Asked.ON_THE_WAY


def _total(b: Builder, found: dict[Tensor, list[Tensor]], tensor: Tensor) -> Tensor | None:
    """The sum of the gradients that uses of a tensor gave, which takes their place."""
    parts = found.get(tensor)
    if not parts:
        return None
    total, *rest = joined_products(b, _joined(b, parts)) if len(parts) > 1 else parts
    for part in rest:
        total = b.expand(b.op("add", narrow(total), narrow(part)), total.shape)
    found[tensor] = [total]
    return total


def _joined(b: Builder, parts: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of parts of a tensor, such as of a split's results or of the steps of a sequence, that lie beside each
    other along an axis: as one instead of as a sum of tensors that are mostly zeros."""
    others: list[Tensor] = []
    pieces: dict[int, list[tuple[int, Tensor]]] = {}
    for part in parts:
        pad = part.producer
        axes: list[int] = []
        if isinstance(pad, p.Pad) and pad.value == 0 and all(isinstance(n, int) for n in (*pad.low, *part.shape)):
            axes = [i for i, ends in enumerate(zip(pad.low, pad.high, strict=True)) if any(ends)]
        if len(axes) == 1 and isinstance(pad, p.Pad):
            pieces.setdefault(axes[0], []).append((pad.low[axes[0]], pad.inputs[0]))
        else:
            others.append(part)
    for axis, found in pieces.items():
        runs: list[tuple[int, int, list[Tensor]]] = []  # begin, end, what lies there
        for low, piece in sorted(found, key=lambda one: one[0]):
            end = low + piece.shape[axis]
            at = next((i for i, run in enumerate(runs) if run[1] == low), None)
            if at is None:
                runs.append((low, end, [piece]))
            else:
                runs[at] = (runs[at][0], end, [*runs[at][2], piece])
        for begin, end, run in runs:
            whole = b.concat(run, axis) if len(run) > 1 else run[0]
            others.append(b.pad(whole, *_around(whole, axis, begin, parts[0].shape[axis] - end)))
    return others


def _around(tensor: Tensor, axis: int, low: int, high: int) -> tuple[list[int], list[int]]:
    """The borders of a pad along one axis."""
    return [low if i == axis else 0 for i in range(tensor.rank)], [high if i == axis else 0 for i in range(tensor.rank)]


def _check_read(b: Builder, wrt: Sequence[Tensor]) -> None:
    """Refuses tensors that a plan is made for by their numbers, so that a gradient of zero would be wrong."""
    floats = [t for t in b.read if t.dtype.is_float]
    if floats and (any(t in wrt for t in floats) or _between(floats, wrt)):
        raise UnsupportedError(
            f"{b.where}: the gradient is asked for of a number that an operator takes as a setting, not as an operand "
            "(such as what is padded with); give it as a constant"
        )


def _between(outputs: Sequence[Tensor], wrt: Sequence[Tensor]) -> list[Prim]:
    """The primitives on paths from ``wrt`` to ``outputs``, each behind those that it depends on; one tensor of ``wrt``
    may lie on the path from another."""
    order: list[Prim] = []
    done: set[int] = set()
    depends: set[Tensor] = set(wrt)
    stack: list[tuple[Tensor, bool]] = [(t, False) for t in reversed(outputs)]
    while stack:
        tensor, ready = stack.pop()
        prim = tensor.producer
        if prim is None or id(prim) in done:
            continue
        if ready:
            done.add(id(prim))
            if any(t in depends for t in prim.inputs):
                depends.update(prim.outputs)
                order.append(prim)
            continue
        stack.append((tensor, True))
        stack += [(t, False) for t in prim.inputs if t.const is None]
    return order


__all__ = ["gradients"]
