"""Reductions, running sums, positions of extremes, normalisations, segments."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family

_REDUCTIONS = ("SUM", "MEAN", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL")


@family(*_REDUCTIONS)
def reduction(d: Draw, op: str) -> Case:
    shape = d.shape(1, 4, 4)
    kind = "BOOL" if op in ("REDUCE_ANY", "REDUCE_ALL") else "FLOAT32" if op == "MEAN" else d.one(["FLOAT32", "INT32"])
    axes = sorted(d.rng.choice(len(shape), d.int(1, len(shape)), replace=False).tolist())
    keep = d.flag()
    made = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]
    given = [a - len(shape) if d.int(0, 3) == 0 else a for a in axes]
    operands = [d.input(shape, kind), d.g.const(given, "int32")]
    return d.case(d.g.made(op, operands, made, kind, "ReducerOptions", keep_dims=keep))


@family("CUMSUM")
def cumulative(d: Draw) -> Case:
    shape, kind = d.shape(1, 4), d.one(["FLOAT32", "INT32", "INT64"])
    axis = d.int(-len(shape), len(shape) - 1)
    options = {"exclusive": d.flag(), "reverse": d.flag()}
    return d.case(
        d.g.made("CUMSUM", [d.input(shape, kind), d.g.const(np.int32(axis))], shape, kind, "CumsumOptions", **options)
    )


@family("ARG_MAX", "ARG_MIN")
def extreme(d: Draw, op: str) -> Case:
    shape, kind, made = d.shape(1, 4), d.one(["FLOAT32", "INT32", "INT8", "UINT8"]), d.one(["INT32", "INT64"])
    axis = d.int(-len(shape), len(shape) - 1)
    rest = [n for i, n in enumerate(shape) if i != axis % len(shape)]
    options = f"Arg{op[4:].title()}Options"
    y = d.g.made(op, [d.input(shape, kind, -9, 9), d.g.const(np.int32(axis))], rest, made, options, output_type=made)
    return d.case(y)


@family("L2_NORMALIZATION")
def l2(d: Draw) -> Case:
    shape = d.shape(1, 4)
    return d.case(d.g.made("L2_NORMALIZATION", [d.input(shape)], shape, "FLOAT32", "L2NormOptions"))


@family("SEGMENT_SUM")
def segment_sum(d: Draw) -> Case:
    shape, kind = d.shape(1, 3), d.one(["FLOAT32", "INT32"])
    ids = np.cumsum([0, *(d.int(0, 1) for _ in range(shape[0] - 1))]).astype(np.int32)
    made = [int(ids[-1]) + 1, *shape[1:]]
    return d.case(d.g.made("SEGMENT_SUM", [d.input(shape, kind), d.g.const(ids)], made, kind))


@family("UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN")
def unsorted(d: Draw, op: str) -> Case:
    shape, kind, count = d.shape(1, 3), d.one(["FLOAT32", "INT32"]), d.int(1, 5)
    depth = d.int(1, len(shape))
    ids = d.fed(d.rng.integers(-1, count, shape[:depth]).astype(np.int32))  # -1: of no segment
    return d.case(d.g.made(op, [d.input(shape, kind), ids, d.g.const(np.int32(count))], [count, *shape[depth:]], kind))
