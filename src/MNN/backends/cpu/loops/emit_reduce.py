"""Reductions: fused rows (softmax, norms) where the reduced dimensions are innermost, folds elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.loops.emit_elementwise import stride_args
from MNN.backends.cpu.loops.fold import FoldSpec
from MNN.backends.cpu.loops.rows import RowSpec
from MNN.compiler import strides as st
from MNN.compiler.bodies import WIDE, fused_body, is_literal
from MNN.compiler.fuse import Group
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import Body, BodyBuilder, body_of
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

ROW_WORK = 16384
"""Elements of rows a worker takes at a time."""
FOLD_CHUNK = 256
"""Columns of a fold in one block."""
_IN_PARTS = ("sum", "prod", "max", "min")
"""Operations whose results of parts can be folded again."""


@emits("rows")
def emit_rows(e: Emitter, group: Group, memory: st.Ints | None = None) -> bool:
    """Everything of a row group in one kernel; rows are the merged reduced dimensions. Several results are numbers of
    the rows.

    Rows are walked in the order ``memory`` of the dimensions, by default that of the largest operand.
    """
    shape = group.shape
    out, *others = group.root.outputs
    if 0 in shape:
        return False
    operands = [t for t in group.inputs() if not is_literal(t)]
    if not operands:
        return False
    main = max(operands, key=lambda t: room_of(elements(t.shape)))
    memory = memory or st.order_of(shape, _strides(e.place(main), main, shape))
    axes = tuple(a for a in memory if a in group.axes)
    kept = [a for a in memory if a not in axes]
    order = (*kept, *axes)
    walked = [_row_operand(e, t, shape, axes, order) for t in operands]
    result = e.output(out)
    target = result
    full = out.shape == shape and elements([shape[a] for a in axes]) > 1
    if full and _run(shape, result.strides, axes) is None:
        target = e.allocate(out.dtype, shape, order)
    body = fused_body(group.prims, operands, group.root.outputs)
    besides = [e.output(t) for t in others]
    per_row = [tuple(0 if a in axes else s for a, s in enumerate(place.strides)) for place in (target, *besides)]
    columns = [target.strides if full else per_row[0], *per_row[1:], *(strides for _, strides in walked)]
    inner = [_run(shape, c, axes) for c in columns]
    extents, merged = st.merge_loops([1 if a in axes else m for a, m in enumerate(shape)], columns, kept)
    located = [(out.dtype, target), *((t.dtype, place) for t, place in zip(others, besides, strict=True))]
    located += [(t.dtype, place) for t, (place, _) in zip(operands, walked, strict=True)]
    _row_kernel(e, body, extents, merged, elements([shape[a] for a in axes]), inner, located)
    if target is not result:
        e.copy(target, result, shape, out.dtype)
    return True


def _row_kernel(
    e: Emitter,
    body: Body,
    extents: st.Ints,
    columns: Sequence[st.Ints],
    n: int,
    inner: Sequence[int | None],
    located: Sequence[tuple[DType, Place]],
) -> None:
    """One call of the row kernel; the results come first, ``columns`` are strides of the outer loops."""
    classes = [("0" if not s else "1" if s == 1 else "s") for s in inner]
    results = len(body.outputs)
    spec = RowSpec(body, len(extents) + 1, tuple(classes[results:]), tuple(classes[:results]))
    args: dict[str, int | Ref] = {f"extent{d}": m for d, m in enumerate((*extents, n))}
    names = [*(f"out{j}" for j in range(results)), *(f"in{i}" for i in range(len(columns) - results))]
    for name, column, step, cls, (dtype, place) in zip(names, columns, inner, classes, located, strict=True):
        args[name] = e.ref(place, dtype)
        args.update(stride_args(name, (*column, step or 0), cls))
    e.command(spec, args, elements(extents), max(1, ROW_WORK // max(room_of(n), 1)))


def _strides(place: Place, tensor: Tensor, shape: st.Ints) -> st.Ints:
    return st.broadcast_strides(tensor.shape, place.strides, shape)


def _run(shape: st.Ints, strides: st.Ints, axes: Sequence[int]) -> int | None:
    """The stride of the reduced dimensions (outermost first) walked as one loop, None when they are not one."""
    picked = ([shape[a] for a in axes], [tuple(strides[a] for a in axes)])
    extents, (column,) = st.merge_loops(*picked, range(len(axes)))
    return column[0] if len(extents) == 1 else None


def _row_operand(
    e: Emitter, tensor: Tensor, shape: st.Ints, axes: Sequence[int], order: st.Ints
) -> tuple[Place, st.Ints]:
    """Place and strides over ``shape`` of an operand whose rows are one run; copied where they are not."""
    place = e.place(tensor)
    strides = _strides(place, tensor, shape)
    if _run(shape, strides, axes) is not None:
        return place, strides
    copy = e.allocate(tensor.dtype, shape, order)
    e.copy(Place(place.buffer, place.offset, strides), copy, shape, tensor.dtype)
    return copy, copy.strides


@emits("fold")
def emit_fold(e: Emitter, group: Group) -> bool:
    """One reduction over dimensions that are not innermost: vectors run along the innermost kept dimension."""
    reduce = next(q for q in group.prims if isinstance(q, p.Reduce))
    shape, axes = group.shape, tuple(a for a in reduce.axes if group.shape[a] > 1)
    out = group.root.outputs[0]
    before, after = _around(group.prims, reduce)
    dst = e.output(out)
    if 0 in out.shape:
        return True
    if 0 in shape:
        return False
    source = reduce.inputs[0]
    made = {id(t) for q in before for t in q.outputs}
    operands = list(dict.fromkeys(t for q in before for t in q.inputs if id(t) not in made and not is_literal(t))) or [
        source
    ]
    made_after = {id(t) for q in after for t in q.outputs} | {id(reduce.outputs[0])}
    extra = list(dict.fromkeys(t for q in after for t in q.inputs if id(t) not in made_after and not is_literal(t)))
    wide = WIDE.get(source.dtype, source.dtype)
    pre = fused_body(before, operands, [source])
    if wide is not source.dtype:
        pre = _cast_result(pre, wide)
    post = fused_body(after, [reduce.outputs[0], *extra], [out], {reduce.outputs[0]: wide})
    columns = [_strides(e.place(t), t, shape) for t in operands]
    extras = [_strides(e.place(t), t, out.shape) for t in extra]
    main = max(range(len(operands)), key=lambda i: elements(operands[i].shape))
    order = st.order_of(shape, columns[main])
    kept = [a for a in order if a not in axes and shape[a] > 1]
    out_column = tuple(0 if a in axes else s for a, s in enumerate(dst.strides))
    everything = [out_column, *columns, *extras]
    if kept:
        inner_axis = kept[-1]
        outer_shape = [m if a in kept[:-1] else 1 for a, m in enumerate(shape)]
        outer, outer_cols = st.merge_loops(outer_shape, everything, kept[:-1])
        n, steps = shape[inner_axis], [c[inner_axis] for c in everything]
    else:
        outer, outer_cols, n, steps = (1,), [(0,) for _ in everything], 1, [0 for _ in everything]
    reduce_shape = [m if a in axes else 1 for a, m in enumerate(shape)]
    inner_loops, reduce_cols = st.merge_loops(reduce_shape, everything, [a for a in order if a in axes])
    k = len(operands)
    parts = 1 if e.options.open_sizes else _parts(e.threads, reduce.op, outer, inner_loops, n)
    located = [(t.dtype, e.place(t)) for t in operands]
    if parts > 1:
        partial = e.allocate(wide, (parts, n), (0, 1))
        share = inner_loops[0] // parts
        loops = [((c[0] * share,), c) for c in reduce_cols[1 : 1 + k]]
        ends = [((n,), ()), *loops]
        _fold_kernel(
            e, reduce.op, pre, None, k, ((parts,), (share, *inner_loops[1:]), n), ends, [1, *steps[1 : 1 + k]],
            [(wide, partial), *located],
        )  # fmt: skip
        pre, k, located = body_of([wide], lambda b, x: x), 1, [(wide, partial)]
        inner_loops, steps = (parts,), [steps[0], 1, *steps[1 + len(operands) :]]
        outer_cols = [outer_cols[0], (0,) * len(outer), *outer_cols[1 + len(operands) :]]
        reduce_cols = [(0,), (n,), *((0,) for _ in extra)]
    _fold_kernel(
        e, reduce.op, pre, post, k, (outer, inner_loops, n), list(zip(outer_cols, reduce_cols, strict=True)), steps,
        [(out.dtype, dst), *located, *((t.dtype, e.place(t)) for t in extra)],
    )  # fmt: skip
    return True


def _around(prims: Sequence[p.Prim], reduce: p.Reduce) -> tuple[list[p.Prim], list[p.Prim]]:
    """What a reduction is made of, and all else, wherever it stands: maps that meet its result may come before it."""
    needed, before = set(reduce.inputs), []
    for prim in reversed(prims[: prims.index(reduce)]):
        if needed.intersection(prim.outputs):
            before.append(prim)
            needed.update(prim.inputs)
    after = [q for q in prims if q is not reduce and q not in before]
    return before[::-1], after


def _parts(threads: int, op: str, outer: st.Ints, loops: st.Ints, n: int) -> int:
    """Into how many parts one fold is cut for threads, each with rows that it has probably written itself."""
    if threads == 1 or elements(outer) > 1 or op not in _IN_PARTS or elements(loops) * n < 2 * ROW_WORK:
        return 1
    fit = [q for q in range(threads, 4 * threads + 1) if loops[0] % q == 0 and loops[0] >= 2 * q]
    return min(fit, key=lambda q: (-q % threads, q), default=1)


def _fold_kernel(
    e: Emitter,
    op: str,
    pre: Body,
    post: Body | None,
    k: int,
    loops: tuple[st.Ints, st.Ints, int],
    columns: Sequence[tuple[st.Ints, st.Ints]],
    steps: Sequence[int],
    located: Sequence[tuple[DType, Place]],
) -> None:
    """One call of the fold kernel. Operand 0 is the result, the next ``k`` are folded, the rest are those of ``post``;
    ``loops``: outer, reduced, inner; ``columns``: every operand's strides along the first two, ``steps`` along the
    last."""
    outer, reduced, n = loops
    classes = [("0" if s == 0 else "1" if s == 1 else "s") for s in steps]
    if classes[0] == "0":
        classes[0] = "1"
    inputs, operands = tuple(classes[1 : 1 + k]), tuple(classes[1 + k :])
    spec = FoldSpec(op, pre, post, len(outer), len(reduced), inputs, operands, (classes[0],))
    args: dict[str, int | Ref] = {f"outer{d}": m for d, m in enumerate(outer)}
    args |= {f"reduce{d}": m for d, m in enumerate(reduced)}
    chunk = min(room_of(n), FOLD_CHUNK)
    args |= {"inner": n, "chunk": chunk}
    names = ["out0", *(f"in{i}" for i in range(k)), *(f"op{i}" for i in range(len(located) - 1 - k))]
    for i, (name, (dtype, place)) in enumerate(zip(names, located, strict=True)):
        args[name] = e.ref(place, dtype)
        through = columns[i][0] + (columns[i][1] if 1 <= i <= k else ())
        args.update(stride_args(name, (*through, steps[i]), classes[i]))
    work = room_of(elements(reduced)) * chunk
    e.command(spec, args, elements(outer) * -(-n // chunk), max(1, ROW_WORK // work))


def _cast_result(body: Body, dtype: DType) -> Body:
    b = BodyBuilder()
    return b.build(b.cast(b.inline(body, [b.arg(d) for d in body.args])[0], dtype))
