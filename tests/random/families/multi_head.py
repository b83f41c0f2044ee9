"""ONNX Runtime's MultiHeadAttention and Attention, beside numpy: masks of all kinds, biases, pasts, packed operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.attention import attend, heads_apart, heads_together
from tests.random.case import Case, Draw, Operand

DOMAIN = "com.microsoft"


def case(draw: Draw) -> Case:
    """One of both."""
    return _projected(draw) if draw.flag(0.4) else _apart(draw)


def _mask(draw: Draw, batch: int, rows: int, keys: int, kinds: tuple[str, ...]) -> tuple[Any, Any]:
    """Which keys count, as an operand and as it broadcasts to the scores."""
    kind = draw.choice(kinds)
    ends = draw.rng.integers(1, keys + 1, batch)
    whole = np.arange(keys) < ends[:, None]
    if kind == "ends":
        return ends.astype(np.int32), whole[:, None, None]
    if kind == "keys":
        return whole.astype(np.int32), whole[:, None, None]
    some = draw.rng.random((batch, rows, keys)) < 0.7
    some[..., 0] = True  # scores that are all far below zero have few digits left
    return some.astype(np.int32), some[:, None]


def _attributes(draw: Draw, heads: int) -> dict[str, Any]:
    found: dict[str, Any] = {"num_heads": heads}
    if draw.flag(0.3):
        found["scale"] = 0.3
    if draw.flag(0.3):
        found["mask_filter_value"] = -5000.0
    return found


def _apart(draw: Draw) -> Case:
    """Queries, keys and values as operands: apart, keys and values side by side, or all three."""
    batch, heads, size = draw.int(1, 3), draw.choice([1, 2, 3, 4]), draw.choice([2, 4, 8, 16])
    form = draw.choice(["flat", "flat", "flat", "heads", "pairs", "all"])
    rows, keys = draw.often(draw.int(1, 9), [1, 33]), draw.int(1, 17)
    keys = rows if form == "all" else keys
    deep = size if form in ("pairs", "all") else draw.choice([2, 4, 8, 16])
    past = draw.int(1, 5) if form == "flat" and draw.flag(0.3) else 0
    attributes = _attributes(draw, heads)
    query, key, value = (draw.normal(batch, heads, n, d) for n, d in ((rows, size), (keys, size), (keys, deep)))
    given: list[Any] = [_flat(query), _flat(key), _flat(value)]
    if form == "heads":
        given[1:] = key, value
    elif form == "pairs":
        given[1:] = np.ascontiguousarray(np.stack([key, value], 3).transpose(0, 2, 1, 3, 4)), None
    elif form == "all":
        packed = np.stack([query, key, value], 3).transpose(0, 2, 1, 3, 4)
        given = [np.ascontiguousarray(packed), None, None]
    bias = draw.normal(heads * (2 * size + deep)) if form == "flat" and not past and draw.flag(0.4) else None
    mask, seen = _mask(draw, batch, rows, keys + past, ("ends", "keys", "all")) if draw.flag(0.3) else (None, None)
    if past and mask is not None and mask.ndim == 1:
        mask, seen = None, None
    whole = keys + past
    added = draw.normal(draw.choice([1, batch]), draw.choice([1, heads]), rows, whole) if draw.flag(0.3) else None
    pasts = [draw.normal(batch, heads, past, d) for d in (size, deep)] if past else [None, None]
    if draw.flag(0.3):
        attributes["unidirectional"] = 1
    given += [bias, mask, added, *pasts]
    while given[-1] is None:
        given.pop()

    def oracle(arrays: list[Any]) -> list[Any]:
        arrays = arrays + [None] * 8
        parts = [arrays[0], arrays[1], arrays[2]]
        if form == "pairs":
            parts[1:] = (parts[1][:, :, :, i].reshape(batch, keys, -1) for i in (0, 1))
        elif form == "all":
            parts = [arrays[0][:, :, :, i].reshape(batch, keys, -1) for i in range(3)]
        if arrays[3] is not None:
            cuts = np.split(arrays[3].astype(np.float64), [heads * size, 2 * heads * size])
            parts = [part + cut for part, cut in zip(parts, cuts, strict=True)]
        q, k, v = (heads_apart(part, heads) for part in parts)
        if arrays[6] is not None:
            k, v = np.concatenate([arrays[6], k], 2), np.concatenate([arrays[7], v], 2)
        return [_result(q, k, v, attributes, past, seen, arrays[5]), k, v][: 3 if past else 1]

    made = Case("MultiHeadAttention", [None if a is None else Operand(a, i != 3) for i, a in enumerate(given)],
                attributes, 3 if past else 1, 17, DOMAIN, slack=8, oracle=oracle)  # fmt: skip
    if form in ("pairs", "all"):
        made.excuse = "operands side by side in five dimensions"
    elif deep != size and (form == "heads" or past):
        made.excuse = "values of another size than the keys, of a past or with heads apart"
    elif attributes.get("unidirectional") and 1 < rows < keys:
        made.excuse = "more keys than rows: its last row sees all of them"
    return made


def _flat(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(heads_together(x))


def _result(q: Any, k: Any, v: Any, attributes: dict[str, Any], past: int, seen: Any, added: Any) -> np.ndarray:
    rows, keys = q.shape[2], k.shape[2]
    bias = np.zeros((1, 1, 1, keys)) if added is None else added
    if seen is not None:
        bias = bias + np.where(seen, 0.0, attributes.get("mask_filter_value", -10000.0))
    causal = attributes.get("unidirectional") and rows > 1
    later = np.arange(keys) <= np.arange(rows)[:, None] + past if causal else None
    return heads_together(attend(q, k, v, attributes.get("scale", 0.0), bias=bias, seen=later))


def _projected(draw: Draw) -> Case:
    """Queries, keys and values as one product of the operand with weights."""
    batch, heads, size, rows = draw.int(1, 3), draw.choice([1, 2, 3]), draw.choice([2, 4, 8]), draw.int(1, 9)
    deep, width = draw.choice([size, 4, 6]), draw.int(1, 12)
    past = draw.int(1, 5) if deep == size and draw.flag(0.3) else 0
    cuts = [heads * size, 2 * heads * size]
    x, weights = draw.normal(batch, rows, width), draw.normal(width, heads * (2 * size + deep))
    attributes = _attributes(draw, heads)
    if deep != size:
        attributes["qkv_hidden_sizes"] = [heads * size, heads * size, heads * deep]
    keys = rows + past
    mask, seen = _mask(draw, batch, rows, keys, ("ends", "keys", "all")) if draw.flag(0.5) else (None, None)
    if draw.flag(0.3):
        attributes["unidirectional"] = 1
    pasts = draw.normal(2, batch, heads, past, size) if past else None
    added = draw.normal(draw.choice([1, batch]), draw.choice([1, heads]), rows, keys) if draw.flag(0.3) else None
    given: list[Any] = [x, weights, draw.normal(heads * (2 * size + deep)), mask, pasts, added]
    while given[-1] is None:
        given.pop()

    def oracle(arrays: list[Any]) -> list[Any]:
        arrays = arrays + [None] * 6
        product = arrays[0].astype(np.float64) @ arrays[1] + arrays[2]
        q, k, v = (heads_apart(part, heads) for part in np.split(product, cuts, -1))
        if arrays[4] is not None:
            k, v = (np.concatenate([old, new], 2) for old, new in zip(arrays[4], (k, v), strict=True))
        found = [_result(q, k, v, attributes, past, seen, arrays[5])]
        return [*found, np.stack([k, v])] if past else found

    made = Case("Attention", [None if a is None else Operand(a, i not in (1, 2)) for i, a in enumerate(given)],
                attributes, 2 if past else 1, 17, DOMAIN, slack=8, oracle=oracle)  # fmt: skip
    if past and added is not None:
        made.excuse = "a past and a bias"
    return made
