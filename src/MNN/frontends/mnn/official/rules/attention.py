"""Attention as products and a softmax, for an engine that has no such operator in all of its builds."""

from __future__ import annotations

import math

from MNN.frontends.mnn.official.compose import Steps
from MNN.frontends.mnn.official.rules.arithmetic import operand
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value

_LOWEST = -3.0e38


def _heads(s: Steps, x: Value, heads: int) -> Value:
    """``[B, S, heads * D]`` to ``[B, heads, S, D]``."""
    return s.permute(s.reshape(x, 0, 0, heads, -1), 0, 2, 1, 3)


def attention(node: Node) -> list[Node] | None:
    """ONNX's Attention with as many heads of keys as of queries."""
    q, k, v, mask, past_key, past_value, lengths = (operand(node, i) for i in range(7))
    attrs = node.attrs
    if q is None or k is None or v is None or q.shape is None or len(q.shape) not in (3, 4) or lengths is not None:
        return None
    if any(t is not None and t.dtype is not DType.F32 for t in (q, k, v, past_key, past_value)):
        return None
    if mask is not None and (mask.dtype not in (DType.F32, DType.BOOL) or past_key is not None or mask.shape is None):
        return None
    around = q.shape
    flat, size = len(around) == 3, around[-1]
    heads = attrs.get("q_num_heads") if flat else around[1]
    groups = attrs.get("kv_num_heads") if flat else (k.shape[1] if k.shape is not None else None)
    if not isinstance(heads, int) or heads < 1 or heads != groups or not isinstance(size, int):
        return None
    if any(int(str(attrs.get(key, -1))) >= 0 for key in ("left_window_size", "right_window_size")):
        return None
    if mask is not None and (k.shape is None or mask.shape is None or mask.shape[-1] != k.shape[-2]):
        return None  # a mask that does not reach all keys
    s = Steps(node)
    if flat:
        q, k, v, size = _heads(s, q, heads), _heads(s, k, heads), _heads(s, v, heads), size // heads
    rows = s.size(q, 2)
    before = None if past_key is None else s.size(past_key, 2)
    if past_key is not None and past_value is not None:
        k = s.op("Concat", [past_key, k], DType.F32, axis=2)
        v = s.op("Concat", [past_value, v], DType.F32, axis=2)
    scale = float(str(attrs.get("scale") or 0.0)) or 1.0 / math.sqrt(max(size, 1))
    stages = [s.matmul(s.binary("MUL", q, scale), s.permute(k, 0, 1, 3, 2))]
    cap = float(str(attrs.get("softcap") or 0.0))
    scores = stages[0]
    if cap > 0:
        scores = s.binary("MUL", s.op("TanH", [s.binary("REALDIV", scores, cap)], DType.F32), cap)
    stages.append(scores)
    allowed = _allowed(s, attrs, mask, rows, k, before)
    if mask is not None and mask.dtype is DType.F32:
        scores = s.binary("ADD", scores, mask)
    for some in allowed:  # 1 where a key may be seen
        scores = s.binary("ADD", s.binary("MUL", scores, some), s.binary("MUL", s.binary("SUB", some, 1.0), -_LOWEST))
    stages.append(scores)
    weights = s.op("Softmax", [scores], DType.F32, axis=3)
    for some in allowed:  # a query that may look at nothing gets zeros
        weights = s.binary("MUL", weights, some)
    stages.append(weights)
    out = s.matmul(weights, v)
    if flat:
        out = s.reshape(s.permute(out, 0, 2, 1, 3), 0, 0, -1)
    mode = int(str(attrs.get("qk_matmul_output_mode", 0)))
    if len(node.outputs) > 3 and mode == 2 and allowed:
        return None  # minus infinity stands there
    results = [out, k, v, stages[min(max(mode, 0), 3)]]
    return s.finish(results[: len(node.outputs)])


def _allowed(
    s: Steps, attrs: dict[str, object], mask: Value | None, rows: Value, k: Value, before: Value | None
) -> list[Value]:
    """Ones and zeros: the mask of truth values, and what causality allows."""
    found = []
    if mask is not None and mask.dtype is DType.BOOL:
        found.append(s.cast(mask, DType.F32))
    if attrs.get("is_causal"):
        lines = s.range(rows)
        lines = lines if before is None else s.binary("ADD", lines, before)
        columns = s.range(s.size(k, 2))
        seen = s.op("BinaryOp", [s.unsqueeze(lines, 1), s.unsqueeze(columns, 0)], DType.BOOL, opType="GREATER_EQUAL")
        found.append(s.cast(seen, DType.F32))
    return found
