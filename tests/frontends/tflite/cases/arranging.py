"""Operators that move elements, and those that look for them."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family

KINDS = ("FLOAT32", "INT32", "INT8", "INT64", "UINT8")


@family("RESHAPE")
def reshape(d: Draw) -> Case:
    shape = d.shape(1, 4)
    made = list(d.one([[int(np.prod(shape))], shape[::-1], [1, *shape], [shape[0], int(np.prod(shape[1:]))]]))
    asked = list(made)
    if d.flag():
        asked[d.int(0, len(asked) - 1)] = -1
    kind = d.one(KINDS)
    x = d.input(shape, kind)
    if d.flag():
        return d.case(d.g.made("RESHAPE", [x, d.g.const(asked, "int32")], made, kind))
    return d.case(d.g.made("RESHAPE", [x], made, kind, "ReshapeOptions", new_shape=np.asarray(asked, np.int32)))


@family("TRANSPOSE")
def transpose(d: Draw) -> Case:
    shape = d.shape(2, 5)
    order, kind = d.rng.permutation(len(shape)).tolist(), d.one(KINDS)
    made = [shape[i] for i in order]
    return d.case(d.g.made("TRANSPOSE", [d.input(shape, kind), d.g.const(order, "int32")], made, kind))


@family("SQUEEZE")
def squeeze(d: Draw) -> Case:
    shape = [1, *d.shape(1, 3), 1]
    axes = d.one([[0], [-1], [0, len(shape) - 1]])
    made = [n for i, n in enumerate(shape) if i not in [a % len(shape) for a in axes]]
    y = d.g.made(
        "SQUEEZE", [d.input(shape)], made, "FLOAT32", "SqueezeOptions", squeeze_dims=np.asarray(axes, np.int32)
    )
    return d.case(y)


@family("EXPAND_DIMS")
def expand_dims(d: Draw) -> Case:
    shape = d.shape(1, 3)
    axis = d.int(-len(shape) - 1, len(shape))
    made = list(shape)
    made.insert(axis if axis >= 0 else len(shape) + 1 + axis, 1)
    return d.case(d.g.made("EXPAND_DIMS", [d.input(shape), d.g.const(np.int32(axis))], made))


@family("CONCATENATION")
def concatenation(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(KINDS)
    axis = d.int(-len(shape), len(shape) - 1)
    parts = [[d.int(1, 4) if i == axis % len(shape) else n for i, n in enumerate(shape)] for _ in range(d.int(1, 4))]
    made = list(parts[0])
    made[axis] = sum(p[axis] for p in parts)
    inputs = [d.input(p, kind) for p in parts]
    y = d.g.made(
        "CONCATENATION", inputs, made, kind, "ConcatenationOptions", axis=axis, fused_activation_function="NONE"
    )
    return d.case(y)


@family("PACK")
def pack(d: Draw) -> Case:
    shape, kind, count = d.shape(1, 3), d.one(KINDS), d.int(1, 4)
    axis = d.int(0, len(shape))
    made = list(shape)
    made.insert(axis, count)
    y = d.g.made(
        "PACK", [d.input(shape, kind) for _ in range(count)], made, kind, "PackOptions", values_count=count, axis=axis
    )
    return d.case(y)


@family("UNPACK")
def unpack(d: Draw) -> Case:
    shape, kind = d.shape(2, 4), d.one(["FLOAT32", "INT32", "INT8", "UINT8"])
    axis = d.int(0, len(shape) - 1)
    rest = shape[:axis] + shape[axis + 1 :]
    outs = [d.g.tensor(rest, kind) for _ in range(shape[axis])]
    d.g.op("UNPACK", [d.input(shape, kind)], outs, "UnpackOptions", num=shape[axis], axis=axis)
    return d.case(*outs)


@family("SPLIT", "SPLIT_V")
def split(d: Draw, op: str) -> Case:
    shape, count = d.shape(1, 4), d.int(1, 3)
    axis = d.int(0, len(shape) - 1)
    sizes = [d.int(1, 3)] * count if op == "SPLIT" else [d.int(1, 4) for _ in range(count)]
    shape[axis] = sum(sizes)
    outs = [d.g.tensor([s if i == axis else n for i, n in enumerate(shape)]) for s in sizes]
    asked = list(sizes)
    if op == "SPLIT_V" and d.flag():
        asked[-1] = -1
    at = d.g.const(np.int32(axis))
    x = d.input(shape)
    operands = [at, x] if op == "SPLIT" else [x, d.g.const(asked, "int32"), at]
    d.g.op(op, operands, outs, "SplitOptions" if op == "SPLIT" else "SplitVOptions", num_splits=count)
    return d.case(*outs)


@family("SLICE")
def slice_(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(KINDS)
    begin = [d.int(0, n - 1) for n in shape]
    size = [d.int(1, n - b) for n, b in zip(shape, begin, strict=True)]
    asked = [-1 if d.int(0, 3) == 0 else s for s in size]
    made = [n - b if a == -1 else a for n, b, a in zip(shape, begin, asked, strict=True)]
    return d.case(
        d.g.made("SLICE", [d.input(shape, kind), d.g.const(begin, "int32"), d.g.const(asked, "int32")], made, kind)
    )


@family("STRIDED_SLICE")
def strided_slice(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(KINDS)
    begin, end, step, index, masks = [], [], [], [], dict.fromkeys(("begin", "end", "shrink_axis"), 0)
    for i, n in enumerate(shape):
        way = d.one([1, 1, 2, -1])
        a, z = sorted((d.int(0, n - 1), d.int(0, n - 1)))
        first, last = (a, z + 1) if way > 0 else (z, a - 1 if a else -n - 1)
        begin.append(first)
        end.append(last)
        step.append(way)
        if d.int(0, 4) == 0 and way == 1:
            masks["shrink_axis"] |= 1 << i
            index.append(first)
            end[-1] = first + 1
            continue
        skip = [d.int(0, 3) == 0 for _ in range(2)]
        masks["begin"] |= skip[0] << i
        masks["end"] |= skip[1] << i
        index.append(slice(None if skip[0] else first, None if skip[1] or last < 0 else last, way))
    x = d.input(shape, kind)
    made = list(d.arrays[-1][tuple(index)].shape)
    operands = [x, *(d.g.const(v, "int32") for v in (begin, end, step))]
    options = {f"{k}_mask": v for k, v in masks.items()}
    return d.case(d.g.made("STRIDED_SLICE", operands, made, kind, "StridedSliceOptions", **options))


@family("PAD", "PADV2", "MIRROR_PAD")
def pad(d: Draw, op: str) -> Case:
    shape = [n + 1 for n in d.shape(1, 4)]
    mode = d.one(["REFLECT", "SYMMETRIC"])
    most = [3] * len(shape) if op != "MIRROR_PAD" else [n - (mode == "REFLECT") for n in shape]
    pads = [[d.int(0, min(m, 3)), d.int(0, min(m, 3))] for m in most]
    made = [n + a + z for n, (a, z) in zip(shape, pads, strict=True)]
    kind = "FLOAT32" if op == "MIRROR_PAD" else d.one(["FLOAT32", "INT32", "INT64"])
    operands = [d.input(shape, kind), d.g.const(pads, d.one(["int32", "int64"]))]
    operands += [d.g.const(d.array([1], kind))] if op == "PADV2" else []
    options = ("MirrorPadOptions", {"mode": mode}) if op == "MIRROR_PAD" else ("", {})
    return d.case(d.g.made(op, operands, made, kind, options[0], **options[1]))


@family("TILE")
def tile(d: Draw) -> Case:
    shape, kind = d.shape(1, 3, 4), d.one(["FLOAT32", "INT32", "INT64", "UINT8"])
    times = [d.int(1, 3) for _ in shape]
    made = [n * t for n, t in zip(shape, times, strict=True)]
    return d.case(d.g.made("TILE", [d.input(shape, kind), d.g.const(times, "int32")], made, kind))


@family("BROADCAST_TO")
def broadcast_to(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(["FLOAT32", "INT32", "INT8"])
    given = [1 if d.flag() else n for n in shape][d.int(0, len(shape) - 1) :]
    return d.case(d.g.made("BROADCAST_TO", [d.input(given, kind), d.g.const(shape, "int32")], shape, kind, version=2))


@family("BROADCAST_ARGS")
def broadcast_args(d: Draw) -> Case:
    shape = d.shape(1, 4)
    parts = [[1 if d.flag() else n for n in shape][d.int(0, len(shape) - 1) :] for _ in range(2)]
    made = [len(np.broadcast_shapes(*parts))]
    kind = d.one(["int32", "int64"])
    inputs = [d.fed(np.asarray(p, kind)) for p in parts]
    return d.case(d.g.made("BROADCAST_ARGS", inputs, made, kind.upper()))


@family("REVERSE_V2")
def reverse(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(KINDS)
    first = d.int(0, len(shape) - 1)
    axes = list(range(first, d.int(first, len(shape) - 1) + 1))
    return d.case(d.g.made("REVERSE_V2", [d.input(shape, kind), d.g.const(axes, "int32")], shape, kind))


@family("REVERSE_SEQUENCE")
def reverse_sequence(d: Draw) -> Case:
    shape = d.shape(2, 4)
    batch, line = d.rng.choice(len(shape), 2, replace=False).tolist()
    lengths = d.array([shape[batch]], d.one(["INT32", "INT64"]), 1, shape[line])
    y = d.g.made(
        "REVERSE_SEQUENCE", [d.input(shape), d.fed(lengths)], shape, "FLOAT32", "ReverseSequenceOptions",
        seq_dim=line, batch_dim=batch,
    )  # fmt: skip
    return d.case(y)


@family("GATHER")
def gather(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(KINDS)
    batch = d.int(0, len(shape) - 1)
    axis = d.int(batch, len(shape) - 1)
    picked = [*shape[:batch], *[d.int(1, 4) for _ in range(d.int(0, 2))]]
    at = d.array(picked, d.one(["INT32", "INT64"]), 0, shape[axis] - 1)
    made = [*shape[:axis], *picked[batch:], *shape[axis + 1 :]]
    y = d.g.made("GATHER", [d.input(shape, kind), d.fed(at)], made, kind, "GatherOptions", axis=axis, batch_dims=batch)
    return d.case(y)


@family("GATHER_ND")
def gather_nd(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(["FLOAT32", "INT32", "INT8", "INT64"])
    depth = d.int(1, len(shape))
    outer = d.shape(1, 2)
    at = np.stack([d.rng.integers(0, shape[i], outer) for i in range(depth)], -1).astype(d.one(["int32", "int64"]))
    return d.case(d.g.made("GATHER_ND", [d.input(shape, kind), d.fed(at)], [*outer, *shape[depth:]], kind))


@family("SCATTER_ND")
def scatter_nd(d: Draw) -> Case:
    shape, kind = d.shape(1, 3), d.one(["FLOAT32", "INT32", "INT64"])
    depth, count = d.int(1, len(shape)), d.int(1, 5)
    at = np.stack([d.rng.integers(0, shape[i], count) for i in range(depth)], -1).astype(np.int32)
    operands = [d.fed(at), d.input([count, *shape[depth:]], kind), d.g.const(shape, "int32")]
    return d.case(d.g.made("SCATTER_ND", operands, shape, kind))


@family("SPARSE_TO_DENSE")
def sparse_to_dense(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(["FLOAT32", "INT32", "INT64"])
    flat = np.sort(d.rng.choice(int(np.prod(shape)), min(int(np.prod(shape)), d.int(1, 4)), replace=False))
    at = np.stack(np.unravel_index(flat, shape), -1).astype(np.int32)
    at = at[:, 0] if len(shape) == 1 and d.flag() else at
    one = d.flag()
    values = d.array([] if one else [len(flat)], kind)
    operands = [d.g.const(at), d.g.const(shape, "int32"), d.fed(values), d.g.const(d.array([], kind))]
    return d.case(d.g.made("SPARSE_TO_DENSE", operands, shape, kind, "SparseToDenseOptions"))


@family("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(["FLOAT32", "INT32", "INT64", "INT8"])
    part = [d.int(1, n) for n in shape]
    start = np.asarray([d.int(-1, n) for n in shape], np.int32)
    return d.case(
        d.g.made("DYNAMIC_UPDATE_SLICE", [d.input(shape, kind), d.input(part, kind), d.fed(start)], shape, kind)
    )


@family("TOPK_V2")
def top_k(d: Draw) -> Case:
    shape, kind = d.shape(1, 3, 9), d.one(["FLOAT32", "INT32", "INT8"])
    k = d.int(1, shape[-1])
    outs = [d.g.tensor([*shape[:-1], k], kind), d.g.tensor([*shape[:-1], k], "INT32")]
    d.g.op("TOPK_V2", [d.input(shape, kind, -50, 50), d.g.const(np.int32(k))], outs)
    return d.case(*outs)


@family("WHERE")
def where(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(["BOOL", "FLOAT32", "INT32"])
    return d.case(d.g.made("WHERE", [d.input(shape, kind, -1, 1)], [-1, len(shape)], "INT64"))


@family("UNIQUE")
def unique(d: Draw) -> Case:
    kind, number = d.one(["FLOAT32", "INT32", "INT64"]), d.one(["INT32", "INT64"])
    size = d.int(1, 9)
    outs = [d.g.tensor([-1], kind), d.g.tensor([size], number)]
    d.g.op("UNIQUE", [d.fed(np.round(d.array([size], kind)))], outs, "UniqueOptions", idx_out_type=number)
    return d.case(*outs)


@family("BUCKETIZE")
def bucketize(d: Draw) -> Case:
    shape, kind = d.shape(), d.one(["FLOAT32", "INT32"])
    bounds = np.sort(d.array([d.int(1, 5)])).astype(np.float32)
    made = d.g.made("BUCKETIZE", [d.input(shape, kind)], shape, "INT32", "BucketizeOptions", boundaries=bounds)
    if kind == "FLOAT32":
        d.arrays[0].flat[0] = d.one([np.nan, np.inf, -np.inf])
    return d.case(made)


@family("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def suppression(d: Draw, op: str) -> Case:
    count, most = d.int(1, 20), d.int(1, 9)
    low = d.rng.random((count, 2)) * 3
    boxes = np.concatenate([low, low + 0.3 + d.rng.random((count, 2)) * 2], 1).astype(np.float32)
    scores = d.rng.permutation(np.linspace(0.05, 1, count)).astype(np.float32)
    newer = op.endswith("V5")
    operands = [d.fed(boxes), d.fed(scores), d.g.const(np.int32(most)), d.g.const(np.float32(d.one([0.3, 0.5, 0.8]))),
                d.g.const(np.float32(d.one([0.0, 0.2])))]  # fmt: skip
    operands += [d.g.const(np.float32(d.one([0.0, 0.5])))] if newer else []
    outs = [d.g.tensor([most], "INT32"), *([d.g.tensor([most])] if newer else []), d.g.tensor([], "INT32")]
    d.g.op(op, operands, outs)
    return d.case(*outs)
