"""Products of matrices and lookups in tables."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family
from tests.frontends.tflite.cases.elementwise import ACTIVATIONS


@family("FULLY_CONNECTED")
def fully_connected(d: Draw) -> Case:
    rows, inputs, outputs = d.shape(1, 3), d.int(1, 8), d.int(1, 8)
    keep = d.flag()
    made = [*rows, outputs] if keep else [int(np.prod(rows)), outputs]
    if d.int(0, 2):
        x = d.input([*rows, inputs])
    else:  # a shape that is known only at run time
        sizes = d.fed(np.array([*rows, inputs], np.int32))
        x = d.g.made("RESHAPE", [d.input([inputs, *rows]), sizes], [*rows, inputs], "FLOAT32", "ReshapeOptions")
    operands = [x, d.g.const(d.array([outputs, inputs]))]
    operands += [d.g.const(d.array([outputs]))] if d.flag() else [-1]
    y = d.g.made(
        "FULLY_CONNECTED", operands, made, "FLOAT32", "FullyConnectedOptions", keep_num_dims=keep,
        fused_activation_function=d.one(ACTIVATIONS),
    )  # fmt: skip
    return d.case(y)


@family("BATCH_MATMUL")
def batch_matmul(d: Draw) -> Case:
    batch = d.shape(0, 2, 3)
    rows, inner, columns = (d.int(1, 6) for _ in range(3))
    adjoint = d.flag(), d.flag()
    x = [*batch, *((inner, rows) if adjoint[0] else (rows, inner))]
    other = [1 if d.int(0, 3) == 0 else n for n in batch]
    y = [*other, *((columns, inner) if adjoint[1] else (inner, columns))]
    operands = [d.input(x), d.input(y) if d.flag() else d.g.const(d.array(y))]
    made = d.g.made(
        "BATCH_MATMUL", operands, [*batch, rows, columns], "FLOAT32", "BatchMatMulOptions", adj_x=adjoint[0],
        adj_y=adjoint[1],
    )  # fmt: skip
    return d.case(made)


@family("EMBEDDING_LOOKUP")
def embedding(d: Draw) -> Case:
    table, count = d.shape(2, 3), d.int(1, 5)
    ids = d.fed(d.rng.integers(0, table[0], count).astype(np.int32))
    kind = d.one(["FLOAT32", "INT8"])
    if kind == "INT8":
        numbers = d.array(table[:2], "INT8", -100, 100)
        rows = d.g.const(numbers, scale=0.02)
        return d.case(d.g.made("EMBEDDING_LOOKUP", [ids, rows], [count, table[1]]))
    return d.case(d.g.made("EMBEDDING_LOOKUP", [ids, d.g.const(d.array(table))], [count, *table[1:]]))


@family("EMBEDDING_LOOKUP_SPARSE")
def embedding_sparse(d: Draw) -> Case:
    table, rows, most = d.shape(2, 3), d.int(1, 3), d.int(1, 3)
    places = [(i, k) for i in range(rows) for k in range(most) if d.flag()] or [(0, 0)]
    ids = d.fed(d.rng.integers(0, table[0], len(places)).astype(np.int32))
    operands = [ids, d.fed(np.asarray(places, np.int32)), d.g.const([rows, most], "int32"),
                d.input([len(places)], low=0.5), d.input(table)]  # fmt: skip
    y = d.g.made(
        "EMBEDDING_LOOKUP_SPARSE", operands, [rows, *table[1:]], "FLOAT32", "EmbeddingLookupSparseOptions",
        combiner=d.one(["SUM", "MEAN", "SQRTN"]),
    )  # fmt: skip
    return d.case(y)
