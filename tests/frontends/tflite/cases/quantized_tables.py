"""Functions that LiteRT interpolates in tables of 16 bits: every integer, at scales of all sizes, to the bit."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.cases.draw import Case, Draw, form

TABLES = [f"{name} of 16 bits" for name in ("EXP", "LOG", "RSQRT", "LOGISTIC", "TANH", "SOFTMAX")]


@form(*TABLES)
def tabled(d: Draw, name: str) -> Case:
    op = name.split()[0]
    fixed = op in ("LOGISTIC", "TANH", "SOFTMAX")
    # beyond these e^x is infinite, or what is multiplied in 32 bits overflows
    highest = {"EXP": -3.0, "LOGISTIC": 0.7, "TANH": 0.7, "SOFTMAX": 0.5}.get(op, 2.0)
    scale = 10.0 ** d.rng.uniform(-6, highest)
    if op in ("LOGISTIC", "TANH") and d.flag():  # powers of two, and what is nearly one, need no multiplier
        scale = 2.0 ** -d.int(10, 13) * (1 + d.one([0, 0, 4e-4, -4e-4, 1e-3]))
    x = {"scale": float(np.float32(scale)), "zero": 0}
    result = 2.0**-15 if fixed else 10.0 ** d.rng.uniform(-6, 0)
    y = {"scale": float(np.float32(result)), "zero": 0}
    numbers = d.rng.permutation(np.arange(-32768, 32768)).astype(np.int16).reshape(256, 256)
    given = d.fed(np.abs(np.maximum(numbers, -32767)) if op == "RSQRT" else numbers, **x)
    table, options = "", {}
    if op == "SOFTMAX":
        table, options = "SoftmaxOptions", {"beta": float(np.float32(d.one([1.0, 0.3, 2.0])))}
    made = d.g.made(op, [given], [256, 256], "INT16", table, quantization=y, version=2, **options)
    return d.case(made, reference=True, steps=0)
