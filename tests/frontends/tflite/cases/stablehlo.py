"""StableHLO's operators, those that LiteRT runs."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family


@family("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")
def binary(d: Draw, op: str) -> Case:
    shape, kind = d.shape(), d.one(["FLOAT32", "INT32"])
    return d.case(d.g.made(op, [d.input(shape, kind), d.input(shape, kind)], shape, kind))


@family("STABLEHLO_SHIFT_LEFT")
def shift_left(d: Draw) -> Case:
    shape, kind = d.shape(), d.one(["INT32", "INT16", "INT8"])
    operands = [d.input(shape, kind, -9, 9), d.input(shape, kind, 0, 3)]
    return d.case(d.g.made("STABLEHLO_SHIFT_LEFT", operands, shape, kind))


@family("STABLEHLO_PAD")
def pad(d: Draw) -> Case:
    shape, kind = d.shape(1, 3), d.one(["FLOAT32", "INT32"])
    low, high, inside = ([d.int(0, 2) for _ in shape] for _ in range(3))
    made = [n + a + z + (n - 1) * i for n, a, z, i in zip(shape, low, high, inside, strict=True)]
    options = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": inside}
    options = {k: np.asarray(v, np.int64) for k, v in options.items()}
    operands = [d.input(shape, kind), d.g.const(d.array([], kind))]
    return d.case(d.g.made("STABLEHLO_PAD", operands, made, kind, "StablehloPadOptions", **options))


@family("STABLEHLO_REDUCE_WINDOW")
def stablehlo_window(d: Draw) -> Case:
    shape = [d.int(3, 6) for _ in range(d.int(1, 3))]
    size, stride, within = [d.int(1, 2) for _ in shape], [d.int(1, 2) for _ in shape], [d.int(1, 2) for _ in shape]
    pads = [[d.int(0, 1), d.int(0, 1)] for _ in shape]
    op, first = d.one([("STABLEHLO_ADD", 0.0), ("STABLEHLO_MAXIMUM", -99.0), ("STABLEHLO_MINIMUM", 99.0)])
    made = [
        (n + a + z - (k - 1) * w - 1) // s + 1
        for n, (a, z), k, s, w in zip(shape, pads, size, stride, within, strict=True)
    ]
    number, inner = d.model.subgraph("body")
    inner.outputs = [inner.made(op, [inner.input([]), inner.input([])], [])]
    lists = {"window_dimensions": size, "window_strides": stride, "window_dilations": within,
             "base_dilations": [1] * len(shape), "padding": np.ravel(pads)}  # fmt: skip
    y = d.g.made(
        "STABLEHLO_REDUCE_WINDOW", [d.input(shape), d.g.const(np.float32(first))], made, "FLOAT32",
        "StablehloReduceWindowOptions", body_subgraph_index=number,
        **{k: np.asarray(v, np.int64) for k, v in lists.items()},
    )  # fmt: skip
    return d.case(y)


@family("REDUCE_WINDOW")
def reduce_window(d: Draw) -> Case:
    shape = [d.int(3, 6) for _ in range(d.int(1, 3))]
    size, stride, within = [d.int(1, 2) for _ in shape], [d.int(1, 2) for _ in shape], [d.int(1, 2) for _ in shape]
    kind, first = d.one([("ADD", 0.0), ("MAXIMUM", -99.0), ("MINIMUM", 99.0), ("MUL", 1.0)])
    made = [(n - (k - 1) * w - 1) // s + 1 for n, k, s, w in zip(shape, size, stride, within, strict=True)]
    lists = [d.g.const(np.asarray(v, np.int64)) for v in (size, stride, within)]
    operands = [d.input(shape), d.g.const(np.float32(first)), *lists]
    return d.case(d.g.made("REDUCE_WINDOW", operands, made, "FLOAT32", "ReduceWindowOptions", reduce_function=kind))


@family("STABLEHLO_GATHER")
def gather(d: Draw) -> Case:
    """Rows of a matrix, and blocks of it."""
    shape, count = [d.int(3, 6), d.int(3, 6)], d.int(1, 4)
    rows = d.flag()
    sizes = [1, shape[1]] if rows else [d.int(1, 3), d.int(1, 3)]
    at = np.stack([d.rng.integers(0, n, count) for n in (shape[:1] if rows else shape)], -1).astype(np.int64)
    offsets, collapsed = ([1], [0]) if rows else ([1, 2], [])
    made = [count, shape[1]] if rows else [count, *sizes]
    lists = {"offset_dims": offsets, "collapsed_slice_dims": collapsed, "start_index_map": list(range(at.shape[1])),
             "slice_sizes": sizes}  # fmt: skip
    y = d.g.made(
        "STABLEHLO_GATHER", [d.input(shape), d.fed(at)], made, "FLOAT32", "StablehloGatherOptions", index_vector_dim=1,
        **{k: np.asarray(v, np.int64) for k, v in lists.items()},
    )  # fmt: skip
    return d.case(y)


@family("STABLEHLO_SCATTER")
def scatter(d: Draw) -> Case:
    """Windows over some axes, at places of which some lie behind the tensor. (LiteRT crashes at places without an axis
    of their own, and at negative ones.)"""
    shape, kind = [d.int(2, 5) for _ in range(d.int(1, 3))], d.one(["FLOAT32", "INT32", "INT64"])
    rank = len(shape)
    inserted = [a for a in range(rank) if d.flag()]
    axes = [int(a) for a in d.rng.permutation(rank)[: d.int(1, rank)]]
    window = [d.int(1, shape[a]) for a in range(rank) if a not in inserted]
    outer = [d.int(1, 4) for _ in range(d.int(0, 2))]
    body = d.one(["ADD", "MULTIPLY", "MAXIMUM", "MINIMUM", ""])
    at = np.stack([d.rng.integers(0, shape[a] + 1, outer) for a in axes], -1).astype(d.one([np.int32, np.int64]))
    if not body:  # which of two for one place stays is not said
        at = at[(slice(0, 1),) * len(outer)]
        outer = [1] * len(outer)
    depth = d.int(0, len(outer))
    at = np.moveaxis(at, -1, depth)
    windows = sorted(int(a) for a in d.rng.permutation(len(outer) + len(window))[: len(window)])
    inner, beside = iter(window), iter(outer)
    parts = [next(inner) if a in windows else next(beside) for a in range(len(outer) + len(window))]
    number, g = d.model.subgraph("body")
    old, new = g.input([], kind), g.input([], kind)
    g.outputs = [g.made(f"STABLEHLO_{body}", [old, new], [], kind) if body else new]
    lists = {"update_window_dims": windows, "inserted_window_dims": inserted, "scatter_dims_to_operand_dims": axes}
    y = d.g.made(
        "STABLEHLO_SCATTER", [d.input(shape, kind), d.fed(at), d.input(parts, kind)], shape, kind,
        "StablehloScatterOptions", index_vector_dim=depth, update_computation_subgraph_index=number,
        **{k: np.asarray(v, np.int64) for k, v in lists.items()},
    )  # fmt: skip
    return d.case(y)
