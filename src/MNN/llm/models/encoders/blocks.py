"""What the layers of encoders have in common: attention of all tokens to all, and which of them see each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import UnsupportedError
from MNN.frontends.common.expressions import binary, insert_axis, select, unary
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.llm.models.blocks import apart
from MNN.llm.models.config import Config
from MNN.llm.models.layers import Angles, Heads, Layers


def prefix(net: Layers, name: str, *known: str) -> str:
    """What names of weights begin with: the first of these with which there is a weight ``name``, else nothing."""
    return next((p for p in known if p + name in net.weights), "")


def absolute(config: Config, *kinds: str) -> None:
    """Raises :class:`UnsupportedError` where positions are told in another way than one of ``kinds``."""
    found = config.get("position_embedding_type")
    if found is not None and found not in kinds:
        raise UnsupportedError(f"positions of the kind {found!r} are not known; those of this family are {kinds[0]!r}")


def embedded(net: Layers, at: str, places: Value | None) -> Value:
    """Rows of the tables of words, kinds (where there is one) and ``places`` (None: positions are told elsewhere)."""
    x = net.embed(f"{at}.word_embeddings.weight")
    if places is not None:
        x = net.add(x, net.rows_of(net.weights[f"{at}.position_embeddings.weight"], places))
    if f"{at}.token_type_embeddings.weight" in net.weights:
        kinds = net.weight(f"{at}.token_type_embeddings.weight")
        x = net.add(x, net.const(kinds[0]) if net.types is None else net.rows_of(kinds, net.types))
    return x


def attend(
    net: Layers, x: Value, names: Sequence[str], out: str, heads: Heads, angles: Angles | None = None,
    mask: Value | None = None,
) -> Value:  # fmt: skip
    """Attention of all to all, with the output's layer behind it. ``names``: the layers of queries, keys and values."""
    q, k, v = apart(net, net.linear(x, *names), heads, angles)
    return net.linear(net.attention_at_once(q, k, v, heads, False, mask=mask), out)


def normalised(net: Layers, x: Value, y: Value, name: str, epsilon: float) -> Value:
    """The sum of a layer's result and what it was made of, normalised."""
    return net.layer_norm(net.add(x, y), name, epsilon)


def near(net: Layers, reach: int) -> Value:
    """Which keys each query sees where these are ``reach`` tokens away at most, bool ``[batch, 1, sequence,
    sequence]``. Every token, padding too, sees itself: a row that sees nothing would have no sum."""
    away = unary(net, "ABS", _distances(net))
    close, itself = _compare(net, "LESS_EQUAL", away, reach), _compare(net, "EQUAL", away, 0)
    padded = net.not_padding(None)
    both = close if padded is None else _compare(net, "BITWISE_AND", padded, close)
    return _compare(net, "LOGICALOR", both, itself)


def biased(net: Layers, rows: np.ndarray) -> Value:
    """What is added to scores, f32 ``[batch, heads, sequence, sequence]``: row ``n + reach`` of ``rows [2 * reach + 1,
    heads]`` for a key that is ``n`` tokens behind the query (the outermost rows where it is farther away); nothing sees
    padding."""
    reach = len(rows) // 2
    away = binary(net, "MINIMUM", binary(net, "MAXIMUM", _distances(net), -reach), reach)
    added = net.permute(net.gather(net.const(rows), binary(net, "ADD", away, reach)), 2, 0, 1)
    seen = net.not_padding(None)
    return added if seen is None else select(net, seen, added, net.const(np.float32(-np.inf)))


def _distances(net: Layers) -> Value:
    """How far each key is behind each query, i64 ``[sequence, sequence]``."""
    places = net.places()
    found = binary(net, "SUB", insert_axis(net, places, 0), insert_axis(net, places, 1))
    found.dtype = DType.I64
    return found


def _compare(net: Layers, kind: str, x: Value, y: Value | int) -> Value:
    out = binary(net, kind, x, y)
    out.dtype = DType.BOOL
    return out


__all__ = ["absolute", "attend", "biased", "embedded", "near", "normalised", "prefix"]
