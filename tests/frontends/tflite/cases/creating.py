"""Tensors made from sizes and numbers; random numbers, spectra, tables."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, family


@family("SHAPE")
def shape(d: Draw) -> Case:
    given, kind = d.shape(), d.one(["INT32", "INT64"])
    return d.case(d.g.made("SHAPE", [d.input(given)], [len(given)], kind, "ShapeOptions", out_type=kind))


@family("RANK")
def rank(d: Draw) -> Case:
    return d.case(d.g.made("RANK", [d.input(d.shape())], [], "INT32"))


@family("FILL")
def fill(d: Draw) -> Case:
    made, kind = d.shape(), d.one(["FLOAT32", "INT32", "INT64", "BOOL"])
    return d.case(d.g.made("FILL", [d.g.const(made, "int32"), d.fed(d.array([], kind))], made, kind))


@family("RANGE")
def range_(d: Draw) -> Case:
    kind = d.one(["FLOAT32", "INT32"])
    start, step, count = d.int(-3, 3), d.one([1, 2, -1]), d.int(1, 6)
    numbers = [d.g.const(np.asarray(v, kind.lower())) for v in (start, start + step * count, step)]
    made = d.g.made("RANGE", numbers, [count], kind)
    return d.case(d.g.made("ADD", [made, d.input([1], kind)], [count], kind, "AddOptions"))


@family("ONE_HOT")
def one_hot(d: Draw) -> Case:
    given, depth, kind = d.shape(1, 3), d.int(1, 5), d.one(["FLOAT32", "INT32", "INT64"])
    axis = d.int(-1, len(given))
    made = list(given)
    made.insert(axis if axis >= 0 else len(given), depth)
    at = d.fed(d.array(given, d.one(["INT32", "INT64"]), -1, depth))
    operands = [at, d.g.const(np.int32(depth)), *(d.g.const(d.array([], kind)) for _ in range(2))]
    return d.case(d.g.made("ONE_HOT", operands, made, kind, "OneHotOptions", axis=axis))


@family("MATRIX_DIAG")
def matrix_diag(d: Draw) -> Case:
    given, kind = d.shape(1, 3), d.one(["FLOAT32", "INT32"])
    return d.case(d.g.made("MATRIX_DIAG", [d.input(given, kind)], [*given, given[-1]], kind))


@family("MATRIX_SET_DIAG")
def matrix_set_diag(d: Draw) -> Case:
    given, kind = d.shape(2, 3), d.one(["FLOAT32", "INT32"])
    diagonal = [*given[:-2], min(given[-2:])]
    return d.case(d.g.made("MATRIX_SET_DIAG", [d.input(given, kind), d.input(diagonal, kind)], given, kind))


@family("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")
def random(d: Draw, op: str) -> Case:
    made = d.shape(1, 3)
    d.arrays.append(np.asarray(made, np.int32))
    size = d.g.input([len(made)], "INT32")
    y = d.g.made(op, [size], made, "FLOAT32", "RandomOptions", seed=d.int(0, 99), seed2=d.int(0, 99))
    return d.case(y, drawn=True)


@family("MULTINOMIAL")
def multinomial(d: Draw) -> Case:
    rows, classes, count, kind = d.int(1, 3), d.int(1, 5), d.int(1, 5), d.one(["INT32", "INT64"])
    operands = [d.input([rows, classes]), d.g.const(np.int32(count))]
    return d.case(d.g.made("MULTINOMIAL", operands, [rows, count], kind, "RandomOptions", seed=1, seed2=2), drawn=True)


@family("RFFT2D", "COMPLEX_ABS", "REAL", "IMAG")
def spectrum(d: Draw, op: str) -> Case:
    lengths = [d.one([1, 2, 4, 8]), d.one([2, 4, 8])]
    given = [*d.shape(0, 1), *[max(n + d.int(-1, 1), 1) for n in lengths]]
    made = [*given[:-2], lengths[0], lengths[1] // 2 + 1]
    y = d.g.made("RFFT2D", [d.input(given), d.g.const(lengths, "int32")], made, "COMPLEX64")
    if d.flag():  # as transforms of frames are written
        flat = [*made[:-2], made[-2] * made[-1]]
        y = d.g.made("RESHAPE", [y, d.g.const(np.asarray(flat, np.int32))], flat, "COMPLEX64")
        made = [1, *flat]
        y = d.g.made("EXPAND_DIMS", [y, d.g.const(np.int32(0))], made, "COMPLEX64")
    return d.case(d.g.made("COMPLEX_ABS" if op == "RFFT2D" else op, [y], made), tolerance=2e-5)


@family("HASHTABLE_LOOKUP")
def hashtable_lookup(d: Draw) -> Case:
    count, wanted = d.int(1, 6), d.int(1, 6)
    keys = np.sort(d.rng.choice(20, count, replace=False)).astype(np.int32)
    shape = [count, *d.shape(0, 2)]
    found = [wanted, *shape[1:]]
    outs = [d.g.tensor(found), d.g.tensor([wanted], "UINT8")]
    asked = np.where(d.rng.random(wanted) < 0.6, d.rng.choice(keys, wanted), 99).astype(np.int32)
    d.g.op("HASHTABLE_LOOKUP", [d.fed(asked), d.fed(keys), d.input(shape)], outs)
    return d.case(*outs)


@family("HASHTABLE", "HASHTABLE_IMPORT", "HASHTABLE_FIND", "HASHTABLE_SIZE", "CALL_ONCE")
def hashtable(d: Draw, op: str) -> Case:
    """A table that a subgraph fills once, with texts on one side."""
    from tests.frontends.tflite.build import strings

    count = d.int(1, 5)
    numbers = d.rng.choice(50, count, replace=False).astype(np.int64)
    number, inner = d.model.subgraph("start")
    options = {"table_id": d.int(1, 9), "key_dtype": 4, "value_dtype": 5}
    texts = inner.tensor([count], "STRING", strings([f"word {n}" for n in numbers]))
    there = inner.made("HASHTABLE", [], [1], "RESOURCE", "HashtableOptions", **options)
    inner.op("HASHTABLE_IMPORT", [there, inner.const(numbers), texts], [])
    asked = d.fed(np.where(d.rng.random(4) < 0.6, d.rng.choice(numbers, 4), 99).astype(np.int64))
    d.g.op("CALL_ONCE", [], [], "CallOnceOptions", init_subgraph_index=number)
    here = d.g.made("HASHTABLE", [], [1], "RESOURCE", "HashtableOptions", **options)
    size = d.g.made("HASHTABLE_SIZE", [here], [1], "INT64")
    other = d.g.tensor([1], "STRING", strings(["none"]))
    found = d.g.made("HASHTABLE_FIND", [here, asked, other], [4], "STRING")
    return d.case(found, size)
