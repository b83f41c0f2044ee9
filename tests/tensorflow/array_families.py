"""Families of operators that arrange arrays, look into them, and multiply; see :mod:`tests.tensorflow.families`."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.tensorflow.families import Case, call, family, floats, held, ints, shape

# -- shapes -----------------------------------------------------------------------------------------------------------


@family("Shape", "Size", "Rank")
def sizes_of(rng: np.random.Generator, op: str) -> Case:
    more = {} if op == "Rank" else {"out_type": [tf.int32, tf.int64][int(rng.integers(2))]}
    return lambda v: call(op, input=v, **more), [floats(rng, shape(rng))]


@family("ShapeN", "IdentityN")
def several(rng: np.random.Generator, op: str) -> Case:
    return lambda *v: call(op, input=list(v)), [floats(rng, shape(rng)) for _ in range(2)]


@family("Reshape")
def reshape(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng)
    flat = [int(np.prod(sizes))] if rng.integers(2) else [1, *sizes[::-1]]
    to = [-1 if i == 0 and rng.integers(2) else n for i, n in enumerate(flat)]
    if rng.integers(3) == 0 and sizes:  # sizes that are computed
        return lambda v: call(op, tensor=v, shape=tf.stack([tf.shape(v)[0], -1])), [floats(rng, sizes)]
    return lambda v: call(op, tensor=v, shape=held(to)), [floats(rng, sizes)]


@family("ExpandDims")
def expand(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(0, 4)))
    axis = int(rng.integers(-len(sizes) - 1, len(sizes) + 1))
    return lambda v: call(op, input=v, axis=axis), [floats(rng, sizes)]


@family("Squeeze")
def squeeze(rng: np.random.Generator, op: str) -> Case:
    sizes = [1 if rng.integers(2) else n + 1 for n in shape(rng, 4)]
    ones = [i for i, n in enumerate(sizes) if n == 1]
    return lambda v: call(op, input=v, axis=ones if rng.integers(2) else []), [floats(rng, sizes)]


@family("Transpose", "InvertPermutation")
def transpose(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng)
    order = rng.permutation(len(sizes)).astype(np.int32)
    if op == "InvertPermutation":
        return lambda v: call(op, x=v), [rng.permutation(5).astype(np.int32)]
    return lambda v: call(op, x=v, perm=held(order)), [floats(rng, sizes)]


@family("Fill")
def fill(rng: np.random.Generator, op: str) -> Case:
    return lambda v: call(op, dims=v, value=3.5), [np.asarray(shape(rng), np.int32)]


@family("Range", "LinSpace")
def line(rng: np.random.Generator, op: str) -> Case:
    if op == "LinSpace":
        a, z = (np.float32(v) for v in rng.uniform(-3, 3, 2))
        return lambda s, e: call(op, start=s, stop=e, num=int(rng.integers(1, 9))), [np.asarray(a), np.asarray(z)]
    return lambda n: call(op, start=0, limit=n, delta=int(rng.integers(1, 3))), [np.asarray(7, np.int32)]


@family("BroadcastTo", "BroadcastArgs")
def broadcast(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, 3)
    part = [n if rng.integers(2) else 1 for n in sizes]
    if op == "BroadcastArgs":
        return lambda a, b: call(op, s0=a, s1=b), [np.asarray(sizes, np.int32), np.asarray(part, np.int32)]
    return lambda v: call(op, input=v, shape=held(sizes)), [floats(rng, part)]


@family("Tile")
def tile(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    times = held(rng.integers(1, 4, len(sizes)).astype(np.int32))
    return lambda v: call(op, input=v, multiples=times), [floats(rng, sizes)]


@family("Pack", "ConcatV2", "Concat", "ParallelConcat")
def join(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    count, axis = int(rng.integers(2, 4)), int(rng.integers(0, len(sizes)))
    if op == "ParallelConcat":
        arrays = [floats(rng, [1, *sizes[1:]]) for _ in range(count)]
        return lambda *v: call(op, values=list(v), shape=[count, *sizes[1:]]), arrays
    arrays = [floats(rng, sizes) for _ in range(count)]
    if op == "Pack":
        return lambda *v: call(op, values=list(v), axis=axis - len(sizes) if rng.integers(2) else axis), arrays
    key = {"ConcatV2": "axis", "Concat": "concat_dim"}[op]
    return lambda *v: call(op, values=list(v), **{key: axis}), arrays


@family("Unpack", "Split", "SplitV")
def part(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    axis = int(rng.integers(0, len(sizes)))
    if op == "Unpack":
        return lambda v: call(op, value=v, num=sizes[axis], axis=axis), [floats(rng, sizes)]
    count = int(rng.integers(1, 4))
    sizes[axis] = count * int(rng.integers(1, 4))
    if op == "Split":
        return lambda v: call(op, axis=axis, value=v, num_split=count), [floats(rng, sizes)]
    pieces = [int(n) for n in rng.integers(1, 4, count)]
    sizes[axis] = sum(pieces)
    given = held([*pieces[:-1], -1])
    return lambda v: call(op, value=v, size_splits=given, axis=axis, num_split=count), [floats(rng, sizes)]


@family("OneHot")
def one_hot(rng: np.random.Generator, op: str) -> Case:
    sizes, depth = shape(rng, int(rng.integers(0, 3))), int(rng.integers(1, 6))
    axis = int(rng.integers(-1, len(sizes) + 1))
    return lambda v: call(op, indices=v, depth=depth, on_value=2.0, off_value=-1.0, axis=axis), [
        ints(rng, sizes, -2, 7)
    ]


@family("Where")
def where(rng: np.random.Generator, op: str) -> Case:
    return lambda v: call(op, condition=v), [np.asarray(rng.integers(0, 2, shape(rng, 2))).astype(bool)]


# -- slicing ----------------------------------------------------------------------------------------------------------


@family("StridedSlice")
def strided_slice(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 5)), 6)
    item: list[Any] = []
    for n in sizes[: int(rng.integers(1, len(sizes) + 1))]:
        kind = int(rng.integers(6))
        if kind == 0:
            item.append(int(rng.integers(-n, n)))
        elif kind == 1:
            item.append(slice(None, None, -1))
        elif kind == 2:
            item += [tf.newaxis, slice(0, n)]
        else:
            start = int(rng.integers(-n, n))
            item.append(slice(start, None if rng.integers(2) else n, int(rng.integers(1, 3))))
    if rng.integers(3) == 0:
        item.insert(0, Ellipsis)
    return lambda v: v[tuple(item)], [floats(rng, sizes)]


@family("Slice")
def cut(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    begins = [int(rng.integers(0, n)) for n in sizes]
    counts = [-1 if rng.integers(2) else int(rng.integers(0, n - b + 1)) for n, b in zip(sizes, begins, strict=True)]
    return lambda v: call(op, input=v, begin=held(begins), size=held(counts)), [floats(rng, sizes)]


@family("Pad", "PadV2", "MirrorPad")
def pad(rng: np.random.Generator, op: str) -> Case:
    sizes = [n + 2 for n in shape(rng, int(rng.integers(1, 4)))]
    borders = held(rng.integers(0, 3, (len(sizes), 2)).astype(np.int32))
    more: dict[str, Any] = {"PadV2": {"constant_values": 1.5}, "Pad": {}}.get(op) or {}
    if op == "MirrorPad":
        more = {"mode": str(rng.choice(["REFLECT", "SYMMETRIC"]))}
    return lambda v: call(op, input=v, paddings=borders, **more), [floats(rng, sizes)]


@family("ReverseV2", "Reverse", "Roll")
def reverse(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    axis = int(rng.integers(0, len(sizes)))
    if op == "Roll":
        by = int(rng.integers(-7, 8))
        return lambda v: call(op, input=v, shift=[by], axis=[axis]), [floats(rng, sizes)]
    if op == "ReverseV2":
        return lambda v: call(op, tensor=v, axis=[axis - len(sizes)]), [floats(rng, sizes)]
    return lambda v: call(op, tensor=v, dims=[i == axis for i in range(len(sizes))]), [floats(rng, sizes)]


@family("ReverseSequence")
def reverse_sequence(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, 3)
    lengths = ints(rng, sizes[:1], 0, sizes[1] + 1)
    return lambda v, n: call(op, input=v, seq_lengths=n, seq_dim=1, batch_dim=0), [floats(rng, sizes), lengths]


# -- indexing ---------------------------------------------------------------------------------------------------------


@family("Gather", "GatherV2")
def gather(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    if op == "Gather":
        return lambda v, i: call(op, params=v, indices=i), [floats(rng, sizes), ints(rng, shape(rng, 2), 0, sizes[0])]
    batch = int(rng.integers(0, len(sizes)))
    axis = int(rng.integers(batch, len(sizes)))
    at = ints(rng, [*sizes[:batch], *shape(rng, int(rng.integers(0, 3)))], 0, sizes[axis])
    return lambda v, i: call(op, params=v, indices=i, axis=axis, batch_dims=batch), [floats(rng, sizes), at]


@family("GatherNd")
def gather_nd(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, 3)
    depth = int(rng.integers(1, 4))
    at = np.stack([ints(rng, [4], 0, n) for n in sizes[:depth]], -1)
    return lambda v, i: call(op, params=v, indices=i), [floats(rng, sizes), at]


@family(
    "ScatterNd", "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin"
)
def scatter(rng: np.random.Generator, op: str) -> Case:
    sizes = [5, *shape(rng, 2)]
    at = rng.permutation(5)[:3].reshape(3, 1).astype(np.int32)
    updates = floats(rng, [3, *sizes[1:]])
    if op == "ScatterNd":
        at = ints(rng, [3, 1], 0, 5)  # twice the same place is added
        return lambda i, u: call(op, indices=i, updates=u, shape=held(sizes)), [at, updates]
    return lambda v, i, u: call(op, tensor=v, indices=i, updates=u), [floats(rng, sizes), at, updates]


@family("TopKV2")
def top_k(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, int(rng.integers(1, 4)))
    return lambda v: call(op, input=v, k=int(rng.integers(1, sizes[-1] + 1)), sorted=True), [floats(rng, sizes)]


@family("Unique", "UniqueV2", "UniqueWithCounts")
def unique(rng: np.random.Generator, op: str) -> Case:
    more = {"axis": held([], np.int64)} if op == "UniqueV2" else {}
    return lambda v: list(call(op, x=v, **more)), [ints(rng, [9], 0, 5)]


@family("ListDiff")
def list_diff(rng: np.random.Generator, op: str) -> Case:
    return lambda a, b: list(call(op, x=a, y=b)), [ints(rng, [8], 0, 6), ints(rng, [3], 0, 6)]


@family("UnravelIndex")
def unravel(rng: np.random.Generator, op: str) -> Case:
    sizes = shape(rng, 3)
    at = ints(rng, [4], 0, int(np.prod(sizes)))
    return lambda i: call(op, indices=i, dims=held(sizes)), [at]


@family("DynamicStitch")
def stitch(rng: np.random.Generator, op: str) -> Case:
    order, tail = rng.permutation(6).astype(np.int32), shape(rng, 1)
    parts = [held(order[:2]), held(order[2:].reshape(2, 2))]
    return lambda a, b: call(op, indices=parts, data=[a, b]), [floats(rng, [2, *tail]), floats(rng, [2, 2, *tail])]


@family("LowerBound", "UpperBound")
def bound(rng: np.random.Generator, op: str) -> Case:
    numbers = np.sort(ints(rng, [2, 6], 0, 9))
    return lambda s, v: call(op, sorted_inputs=s, values=v), [numbers, ints(rng, [2, 4], 0, 9)]


@family("Bincount")
def bincount(rng: np.random.Generator, op: str) -> Case:
    weights = held(floats(rng, [9])) if rng.integers(2) else held([], np.float32)
    return lambda v: call(op, arr=v, size=6, weights=weights), [ints(rng, [9], 0, 8)]


# -- matrices ---------------------------------------------------------------------------------------------------------


@family("MatMul")
def matmul(rng: np.random.Generator, op: str) -> Case:
    m, k, n = shape(rng, 3, 9)
    a, b = (bool(v) for v in rng.integers(0, 2, 2))
    x, y = floats(rng, [k, m] if a else [m, k]), floats(rng, [n, k] if b else [k, n])
    if rng.integers(2):
        constant = held(y)
        return lambda v: call(op, a=v, b=constant, transpose_a=a, transpose_b=b), [x]
    return lambda v, w: call(op, a=v, b=w, transpose_a=a, transpose_b=b), [x, y]


@family("BatchMatMul", "BatchMatMulV2")
def batch_matmul(rng: np.random.Generator, op: str) -> Case:
    batch, (m, k, n) = shape(rng, int(rng.integers(0, 3)), 3), shape(rng, 3, 6)
    a, b = (bool(v) for v in rng.integers(0, 2, 2))
    other = [1 if op.endswith("V2") and rng.integers(2) else v for v in batch]
    x, y = floats(rng, [*batch, *((k, m) if a else (m, k))]), floats(rng, [*other, *((n, k) if b else (k, n))])
    return lambda v, w: call(op, x=v, y=w, adj_x=a, adj_y=b), [x, y]


@family("Einsum")
def einsum(rng: np.random.Generator, op: str) -> Case:
    equation = str(rng.choice(["ij,jk->ik", "bij,bkj->bik", "abc,cde->abde", "ij,ij->i", "bhid,bhjd->bhij"]))
    size = {c: int(rng.integers(1, 5)) for c in "abcdehijk"}
    arrays = [floats(rng, [size[c] for c in part]) for part in equation.split("->")[0].split(",")]
    return lambda *v: call(op, inputs=list(v), equation=equation), arrays


@family(
    "MatrixBandPart", "MatrixDiag", "MatrixDiagPart", "MatrixSetDiag", "Diag", "DiagPart", "MatrixDeterminant",
)  # fmt: skip
def matrices(rng: np.random.Generator, op: str) -> Case:
    batch, (m, n) = shape(rng, int(rng.integers(0, 2)), 3), shape(rng, 2)
    if op == "MatrixBandPart":
        low, high = (int(v) for v in rng.integers(-1, 3, 2))
        return lambda v: call(op, input=v, num_lower=low, num_upper=high), [floats(rng, [*batch, m, n])]
    if op == "MatrixDeterminant":
        return lambda v: call(op, input=v), [floats(rng, [*batch, m, m])]
    if op in ("Diag", "DiagPart"):
        key = "diagonal" if op == "Diag" else "input"
        return lambda v: call(op, **{key: v}), [floats(rng, [m] if op == "Diag" else [m, m])]
    if op.startswith("MatrixDiagPart"):
        return lambda v: call(op, input=v), [floats(rng, [*batch, m, n])]
    if op.startswith("MatrixDiag"):
        return lambda v: call(op, diagonal=v), [floats(rng, [*batch, m])]
    arrays = [floats(rng, [*batch, m, n]), floats(rng, [*batch, min(m, n)])]
    return lambda v, d: call(op, input=v, diagonal=d), arrays
