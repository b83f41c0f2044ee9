"""Attention of ONNX, and ONNX Runtime's multi-head and group-query attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests.random.case import Case, Draw, Operand


def case(draw: Draw) -> Case:
    return draw.choice([_onnx, _onnx, _multi_head, _group_query])(draw)


def _onnx(draw: Draw) -> Case:
    """In three or four dimensions, with masks, pasts, groups of heads, caps, and the scores as an output."""
    batch, groups, per = draw.int(1, 3), draw.int(1, 3), draw.choice([1, 1, 2])
    heads, size, deep = groups * per, draw.choice([2, 4, 8, 9]), draw.choice([2, 4, 8, 9])
    rows, columns = draw.int(1, 9), draw.int(1, 9)
    past = draw.int(1, 5) if draw.flag(0.3) else 0
    flat = draw.flag(0.4)
    q, k, v = (draw.normal(batch, *s) for s in ((heads, rows, size), (groups, columns, size), (groups, columns, deep)))
    attributes: dict[str, Any] = {}
    if flat:
        q, k, v = (np.ascontiguousarray(t.transpose(0, 2, 1, 3).reshape(batch, t.shape[2], -1)) for t in (q, k, v))
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    causal = draw.flag(0.3)
    if causal:
        attributes["is_causal"] = 1
    if draw.flag(0.3):
        attributes["scale"] = draw.choice([0.5, 0.2])
    if draw.flag(0.25):
        attributes["softcap"] = draw.choice([1.0, 5.0])
    scores = draw.flag(0.2)
    if scores:
        attributes["qk_matmul_output_mode"] = draw.int(0, 3)
    mask, whole = None, columns + past
    if draw.flag():
        shape = draw.choice([(rows, whole), (batch, 1, rows, whole), (batch, heads, rows, whole), (1, 1, rows, whole)])
        if draw.flag():
            mask = draw.rng.random(shape) < 0.7
            mask[..., 0] = True  # every row sees something
        else:
            mask = draw.normal(*shape)
    given: list[Any] = [q, k, v, mask]
    if past:
        given += [draw.normal(batch, groups, past, size), draw.normal(batch, groups, past, deep)]
    while given[-1] is None:
        given.pop()
    excuse = ""
    if (
        scores
        and attributes["qk_matmul_output_mode"] in (1, 2)
        and (causal or (mask is not None and mask.dtype == bool))
    ):
        excuse = "scores of what is masked are its lowest finite number, not minus infinity"
    elif causal and rows == 1 and past:
        excuse = "one row after a past: it sees keys behind it too"
    outputs = 4 if scores else 3 if past else 1
    unnamed = (1, 2) if scores and not past else ()
    made = Case("Attention", [None if a is None else Operand(a) for a in given], attributes, outputs,
                draw.choice([23, 24]), unnamed=unnamed, slack=8, excuse=excuse)  # fmt: skip

    def oracle(arrays: list[Any]) -> list[Any]:
        model = onnx.load_model_from_string(made.model(arrays))
        return [np.asarray(a) for a in ReferenceEvaluator(model).run(made.output_names, made.feeds(arrays))]

    if excuse:  # where both are asked, they differ in more forms: the reference is of an older edition
        made.oracle = oracle
    return made


def _multi_head(draw: Draw) -> Case:
    batch, heads, size = draw.int(1, 3), draw.choice([1, 2, 4]), draw.choice([2, 4, 8])
    rows, columns, width = draw.int(1, 9), draw.int(1, 9), heads * size
    deep = heads * draw.choice([2, 4, 8])
    q, k, v = draw.normal(batch, rows, width), draw.normal(batch, columns, width), draw.normal(batch, columns, deep)
    attributes: dict[str, Any] = {"num_heads": heads}
    if draw.flag(0.3):
        attributes["scale"] = 0.3
    bias = draw.normal(2 * width + deep) if draw.flag(0.4) else None
    padding = None
    if draw.flag(0.3):
        seen = draw.rng.integers(1, columns + 1, batch)
        padding = draw.choice([
            seen.astype(np.int32), (np.arange(columns) < seen[:, None]).astype(np.int32)
        ])  # fmt: skip
    added = draw.normal(draw.choice([1, batch]), draw.choice([1, heads]), rows, columns) if draw.flag(0.3) else None
    # of more keys than rows, ONNX Runtime's last row sees all
    if (rows == 1 or columns <= rows) and draw.flag(0.5):
        attributes["unidirectional"] = 1
    if padding is not None and draw.flag():
        attributes["mask_filter_value"] = -5000.0
    given: list[Any] = [q, k, v, bias, padding, added]
    while given[-1] is None:
        given.pop()
    return Case("MultiHeadAttention", [None if a is None else Operand(a, i != 3) for i, a in enumerate(given)],
                attributes, domain="com.microsoft", opset=17, slack=8)  # fmt: skip


def _group_query(draw: Draw) -> Case:
    """A prompt of all lengths, or a token after a past."""
    batch, groups, per, size = draw.int(1, 3), draw.int(1, 2), draw.choice([1, 2, 3]), 16
    heads = groups * per
    prompt = draw.flag()
    rows = draw.int(2, 6) if prompt else 1
    past = 0 if prompt else draw.int(1, 7)
    q, k, v = (draw.normal(batch, rows, n * size) for n in (heads, groups, groups))
    before = [draw.normal(batch, groups, past, size) for _ in "kv"]
    total = rows + past
    ends = np.full(batch, total - 1, np.int32)
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups}
    given: list[Any] = [q, k, v, *before, ends, np.array(total, np.int32)]
    if draw.flag():
        half = size // 2
        angles = np.arange(16)[:, None] / 10 ** (np.arange(half) / half)
        attributes["do_rotary"] = 1
        if draw.flag(0.4):
            attributes["rotary_interleaved"] = 1
        given += [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    if draw.flag(0.3):
        attributes["scale"] = 0.3
    if draw.flag(0.3):
        attributes["softcap"] = 3.0
    if draw.flag(0.3):
        attributes["local_window_size"] = draw.int(1, 5)
    return Case("GroupQueryAttention", [Operand(np.asarray(a), i not in (7, 8)) for i, a in enumerate(given)],
                attributes, 3, 17, "com.microsoft", slack=8)  # fmt: skip
