"""Attention of ONNX, of opset 23 to 25: every operand and attribute, beside onnx's reference in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests.random.case import Case, Draw, Operand


def case(draw: Draw) -> Case:
    """In three or four dimensions, with masks, pasts or lengths, groups of heads, caps, and scores as an output."""
    batch, groups, per = draw.int(1, 3), draw.int(1, 3), draw.choice([1, 1, 2, 3])
    heads, size, deep = groups * per, draw.choice([1, 2, 4, 8, 9, 16, 17]), draw.choice([1, 2, 4, 8, 9, 16, 33])
    rows, columns = draw.often(draw.int(1, 9), [1, 33]), draw.often(draw.int(1, 9), [17, 65], 0.8)
    opset = draw.choice([23, 24, 24, 25])
    past = draw.int(1, 5) if draw.flag(0.3) else 0
    kind = draw.often(np.float32, [np.float16, ml_dtypes.bfloat16], 0.8)
    flat = draw.flag(0.4)
    q, k, v = (draw.normal(batch, *s) for s in ((heads, rows, size), (groups, columns, size), (groups, columns, deep)))
    attributes: dict[str, Any] = {}
    if flat:
        q, k, v = (np.ascontiguousarray(t.transpose(0, 2, 1, 3).reshape(batch, t.shape[2], -1)) for t in (q, k, v))
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    if draw.flag(0.3):
        attributes["is_causal"] = 1
    if draw.flag(0.3):
        attributes["scale"] = draw.choice([0.5, 0.2])
    if draw.flag(0.25):
        attributes["softcap"] = draw.choice([1.0, 5.0])
    if draw.flag(0.1):
        attributes["softmax_precision"] = 1
    if opset >= 25 and draw.flag(0.6):
        attributes |= {f"{side}_window_size": draw.int(-1, 6) for side in ("left", "right")}
    scores = draw.flag(0.2)
    if scores:
        attributes["qk_matmul_output_mode"] = draw.int(0, 3)
    lengths = None
    if opset >= 24 and not past and draw.flag(0.3):
        lengths = draw.rng.integers(0, columns + 1, batch)
    given: list[Any] = [q, k, v, _mask(draw, batch, heads, rows, columns + past, lengths)]
    if past:
        given += [draw.normal(batch, groups, past, size), draw.normal(batch, groups, past, deep)]
    if lengths is not None:
        given += [None, None, lengths]
    while given[-1] is None:
        given.pop()
    given = [a.astype(kind) if a is not None and a.dtype == np.float32 else a for a in given]
    outputs = 4 if scores else 3 if past else 1
    unnamed = (1, 2) if scores and not past else ()
    made = Case("Attention", [None if a is None else Operand(a) for a in given], attributes, outputs, opset,
                unnamed=unnamed, slack=8)  # fmt: skip

    def oracle(arrays: list[Any]) -> list[Any]:
        wide = [a.astype(np.float64) if a is not None and a.dtype == kind else a for a in arrays]
        if len(wide) > 3 and wide[3] is not None:  # with a mask of one row it is causal for that one alone
            mask = np.atleast_2d(wide[3])
            wide[3] = np.repeat(mask, rows // mask.shape[-2], -2)
        found = _reference(made, wide)
        if attributes.get("softcap") and attributes.get("qk_matmul_output_mode") == 0:  # it gives capped scores
            found[-1] = _reference(replace(made, attributes={**attributes, "softcap": 0.0}), wide)[-1]
        return found

    def sizes(arrays: list[Any]) -> list[Any]:
        """What 16-bit results are relative to: the values that they are means of."""
        found = oracle(arrays)
        return [np.full(found[0].shape, np.abs(arrays[2].astype(np.float64)).max()), *(_largest(a) for a in found[1:])]

    made.oracle = oracle
    if kind is not np.float32:
        made.sums = sizes
    made.excuse = _excuse(made, rows, columns + past)
    return made


def _largest(a: np.ndarray) -> np.ndarray:
    return np.full(a.shape, np.abs(np.where(np.isfinite(a), a, 0)).max())


def _reference(made: Case, arrays: list[Any]) -> list[Any]:
    model = onnx.load_model_from_string(made.model(arrays))
    with np.errstate(invalid="ignore"):
        return [np.asarray(a) for a in ReferenceEvaluator(model).run(made.output_names, made.feeds(arrays))]


def _mask(draw: Draw, batch: int, heads: int, rows: int, whole: int, lengths: Any) -> Any:
    """What broadcasts to ``[batch, heads, rows, whole]``, also with fewer keys; a row may see nothing."""
    if draw.flag():
        return None
    shape = draw.choice([
        (rows, whole), (batch, 1, rows, whole), (batch, heads, rows, whole), (1, 1, rows, whole), (heads, rows, whole),
        (1, whole), (1, heads, 1, whole), (whole,),
    ])  # fmt: skip
    if draw.flag(0.2):
        least = 1 if lengths is None else max(int(lengths.max()), 1)
        shape = (*shape[:-1], draw.int(least, whole))
    return draw.rng.random(shape) < 0.7 if draw.flag() else draw.normal(*shape)


def _excuse(made: Case, rows: int, keys: int) -> str:
    """What ONNX Runtime's Attention cannot do, or does otherwise. Opset 25 it computes as the specification has it."""
    given, attributes = made.arrays + [None] * 7, made.attributes
    mask, hides = given[3], attributes.get("is_causal") or given[6] is not None
    if given[0].dtype == ml_dtypes.bfloat16:
        return "attention in bfloat16"
    if made.opset >= 25:
        return ""
    if mask is not None and mask.shape[-2:] != (rows, keys):
        return "a mask that is shorter than the keys, or the same for all rows"
    if attributes.get("qk_matmul_output_mode") in (1, 2) and (hides or (mask is not None and mask.dtype == bool)):
        return "scores of what is masked are its lowest finite number, not minus infinity"
    if attributes.get("is_causal") and rows == 1 and given[4] is not None:
        return "one row after a past: it sees keys behind it too"
    return ""
