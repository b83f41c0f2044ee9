"""Random single operators (:mod:`tests.random`), written here and run by the official engine.

Its faults are told apart by :func:`fault`, with the reason; what differs for none of them is a fault of the writer.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from MNN.errors import MNNError
from MNN.frontends.mnn import net_of
from MNN.frontends.onnx import load
from MNN.schema import write_net
from MNN.schema.versions import all_ops
from tests.interop import official
from tests.interop.cases import Summary, _compare
from tests.random.case import Case
from tests.random.judges import Verdict, expected
from tests.random.runner import case

EACH = 40
"""Cases drawn of every family."""
FAMILIES = (
    "attending", "averages", "convolution", "global_pooling", "integer_convolution", "maxima", "normalizing",
    "products", "recurrent", "reductions", "sampling", "transposed",
)  # fmt: skip
"""Families whose faults there are told apart. Of the others (indexing, padding, resizing, slicing) it has many:
negative indices, integers and negative amounts of pads, cubic resizing, three dimensions, empty slices."""


def run(only: str = "", each: int = EACH, first: int = 0) -> Summary:
    """Runs what the official engine has operators and types for."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = {}
        for family in FAMILIES:
            for seed in range(first, first + each) if only in family else ():
                made = case(family, seed)
                verdict = _written(made, Path(folder) / f"{family}-{seed}.mnn")
                if verdict is not None:
                    drawn[f"{family}-{seed}"] = made, verdict
        jobs = {
            name: official.Job(Path(folder) / f"{name}.mnn", made.feeds(), made.output_names)
            for name, (made, _) in drawn.items()
        }
        results = official.run_many(jobs)
    lines, faults, agree = [], Counter[str](), 0
    for name, (made, verdict) in drawn.items():
        problem = _compare(verdict.outputs, results[name])
        reason = fault(made)
        if not problem:
            agree += 1
        elif reason:
            faults[reason] += 1
        else:
            lines.append(f"FAIL random {name}: {made}\n    {problem}")
    failed = len(lines)
    lines += [f"{count} random operators differ there: {reason}" for reason, count in sorted(faults.items())]
    lines.append(f"{agree} of {len(drawn)} random operators agree")
    return Summary("\n".join(lines), len(drawn), failed)


def fault(made: Case) -> str:
    """Why the official engine may differ, or nothing: forms that it takes and computes otherwise."""
    a, x = made.attributes, made.arrays[0]
    count, groups, auto = x.ndim - 2, a.get("group", 1), str(a.get("auto_pad", "NOTSET"))
    if made.op in ("Conv", "ConvInteger", "QLinearConv") and groups > 1:
        if count == 3:
            return "groups of a convolution in 3 dimensions: it computes as if there were none"
        if made.op != "Conv" or (made.inputs[1] is not None and made.inputs[1].fed):
            return "groups of a convolution whose weights are no constants"
    if made.op == "ConvTranspose":
        if count == 3:
            return "transposed convolutions in 3 dimensions: groups, pads and strides of more than one axis"
        if groups > 1:
            return "groups of a transposed convolution: it reads memory that nobody wrote"
        if auto.startswith("SAME"):
            return "SAME of transposed convolutions with dilations or output padding: it counts the kernel as it is"
    if made.op == "AveragePool":
        if count == 3:
            return "averages in 3 dimensions: its padding counts"
        if a.get("count_include_pad") or a.get("ceil_mode"):
            return "averages that count padding on one side or beyond the end otherwise"
    if made.op.startswith("Global") and count == 3 and x.shape[0] > 1:
        return "global pooling in 3 dimensions: it takes the first of a batch for all"
    if made.op == "MatMul" and x.dtype.kind == "i":
        return "products of integers: it takes them for floats"
    if made.op == "ReduceProd":
        return "products of numbers that vanish: it computes in fp32"
    if made.op == "MatMul" and x.ndim > 2 and made.arrays[1].ndim > 2:
        return "products of batches of which both sides are broadcast"
    if made.op == "LRN" and a["size"] % 2 == 0:
        return "an even size of LRN: it takes the odd channel at the other side"
    if made.op == "MaxPool" and x.dtype.kind in "iu":
        return "maxima of bytes"
    return ""


def _written(made: Case, path: Path) -> Verdict | None:
    """Writes a case; None where it needs what only this engine has, or types that the official one does not."""
    if not made.feeds() or any(
        a is not None and a.dtype not in (np.float32, np.int32, np.int64, np.uint8, np.int8) for a in made.arrays
    ):
        return None
    try:
        net = net_of(load(made.model()))
    except MNNError:
        return None
    if any(op.type == "Extra" for op in all_ops(net)):
        return None
    write_net(net, path)
    return expected(made)
