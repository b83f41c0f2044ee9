"""ONNX Runtime's GroupQueryAttention, beside numpy: prompts and tokens, every sequence of a batch of its own length."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.attention import attend, heads_apart, heads_together, turned
from tests.random.case import Case, Draw, Operand


def case(draw: Draw) -> Case:
    """A prompt of all lengths, or tokens after a past, the cache being longer than what is in it or not."""
    batch, groups, per, size = draw.int(1, 3), draw.int(1, 3), draw.choice([1, 2, 3]), draw.choice([16, 32])
    heads = groups * per
    step = draw.choice(["prompt", "token", "more"])
    rows = {"prompt": draw.int(2, 9), "token": 1, "more": draw.int(2, 4)}[step]
    lengths = draw.rng.integers(1, rows + 1, batch) if step == "prompt" else rows + draw.rng.integers(0, 8, batch)
    if step == "more":  # of one batch alone, ONNX Runtime says
        batch, lengths = 1, lengths[:1]
    total = rows if step == "prompt" else int(lengths.max())
    room = total + draw.choice([0, 0, 3, 20])
    if step == "prompt" and draw.flag():
        room = 0
    q, k, v = (draw.normal(batch, rows, n * size) for n in (heads, groups, groups))
    before = [draw.normal(batch, groups, room, size) for _ in "kv"]
    packed = draw.flag(0.3)
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups}
    given: list[Any] = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
    given += [*before, (lengths - 1).astype(np.int32), np.array(total, np.int32)]
    if draw.flag():
        half = draw.choice([8, size // 2])
        angles = np.arange(64)[:, None] / 10 ** (np.arange(half) / half)
        attributes["do_rotary"] = 1
        if draw.flag(0.4):
            attributes["rotary_interleaved"] = 1
        given += [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
        if draw.flag(0.3):
            given.append(draw.rng.integers(0, 64, (batch, rows)))
    if draw.flag(0.3):
        attributes["scale"] = 0.3
    if draw.flag(0.3):
        attributes["softcap"] = 3.0
    if draw.flag(0.3):
        attributes["local_window_size"] = draw.int(1, 5)
    if draw.flag(0.2):
        attributes["smooth_softmax"] = 1
    elif draw.flag(0.2):
        given += [None] * (11 - len(given)) + [draw.normal(heads)]
    if draw.flag(0.2):
        given += [None] * (10 - len(given))
        bias = draw.normal(draw.choice([1, batch]), draw.choice([1, heads]), rows, total)
        given[10:11] = [bias]

    def oracle(arrays: list[Any]) -> list[Any]:
        return _oracle(arrays + [None] * 12, attributes, lengths, max(room, total))

    def free() -> list[Any]:
        """Rows behind the end of a sequence."""
        rows_left = np.arange(rows) >= (lengths if step == "prompt" else 0 * lengths + rows)[:, None]
        left = (np.arange(max(room, total)) >= lengths[:, None])[:, None, :, None]
        return [rows_left[..., None], left, left]

    kind = draw.often(np.float32, [np.float16], 0.8)
    given = [None if a is None else a.astype(kind) if a.dtype.kind == "f" else a for a in map(_array, given)]
    operands = [None if a is None else Operand(a, i not in (7, 8, 11)) for i, a in enumerate(given)]
    counted = len(given) > 9 and given[9] is not None and rows > 1
    excuse = "positions of several rows: it counts on from the first one" if counted else ""
    return Case("GroupQueryAttention", operands, attributes, 3, 17, "com.microsoft", slack=8, oracle=oracle,
                excuse=excuse, free=free)  # fmt: skip


def _array(given: Any) -> Any:
    return None if given is None else np.asarray(given)


def _oracle(arrays: list[Any], attributes: dict[str, Any], lengths: np.ndarray, room: int) -> list[Any]:
    """Every sequence by itself."""
    heads, groups = attributes["num_heads"], attributes["kv_num_heads"]
    q, k, v = arrays[:3]
    if k is None:
        size = q.shape[2] // (heads + 2 * groups)
        q, k, v = np.split(q, [heads * size, (heads + groups) * size], 2)
    q, k, v = (heads_apart(x, n) for x, n in ((q, heads), (k, groups), (v, groups)))
    rows = q.shape[2]
    sink = np.zeros((1, 1, 1, 1)) if attributes.get("smooth_softmax") else None
    if arrays[11] is not None:
        sink = arrays[11].reshape(1, heads, 1, 1)
    caches = [np.zeros((len(lengths), groups, room, q.shape[3])) for _ in "kv"]
    out = np.zeros_like(q)
    for row, length in enumerate(lengths):
        first = max(int(length) - rows, 0)
        one = [x[row : row + 1] for x in (q, k, v)]
        if attributes.get("do_rotary"):
            places = (first + np.arange(rows))[None] if arrays[9] is None else arrays[9][row : row + 1]
            for i in (0, 1):
                one[i] = turned(one[i], places, arrays[7], arrays[8], bool(attributes.get("rotary_interleaved")))
        for cache, past, new in zip(caches, arrays[3:5], one[1:], strict=True):
            cache[row, :, : past.shape[2]] = past[row]
            cache[row, :, first : first + rows] = new[0]
        total = first + rows
        distance = first + np.arange(rows)[:, None] - np.arange(total)
        window = attributes.get("local_window_size", -1)
        seen = (distance >= 0) & (distance < (window if window > 0 else 1 << 30))
        bias = None
        if arrays[10] is not None:
            bias = arrays[10][min(row, arrays[10].shape[0] - 1)][None, :, :, :total]
        out[row] = attend(one[0], *(c[row : row + 1, :, :total] for c in caches), attributes.get("scale", 0.0),
                          attributes.get("softcap", 0.0), bias, seen, sink)[0]  # fmt: skip
    return [heads_together(out), *caches]
