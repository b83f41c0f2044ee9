"""Runs graphs of the official engine's language models, which take embeddings and masks in place of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import UnsupportedError
from MNN.llm.engine.decoder import Decoder, Text
from MNN.llm.official.embedding import Embedding
from MNN.runtime.session import Session

_LEAST = np.finfo(np.float32).min


@dataclass(frozen=True)
class Masks:
    """What is added to the scores of attention. ``kind``: ``full``, ``sliding`` (``window`` keys are seen), or ``mix``,
    which is both."""

    kind: str
    window: int

    @classmethod
    def of(cls, settings: Mapping[str, object], where: str) -> Masks:
        """As a folder's configuration says. UnsupportedError for other kinds."""
        kind, window = settings.get("attention_type", "full"), settings.get("sliding_window", 0)
        if settings.get("attention_mask", "float") != "float" or kind not in ("full", "sliding", "mix"):
            raise UnsupportedError(f"{where}: attention of the kind {settings.get('attention_mask')!r}, {kind!r}")
        if kind != "full" and (not isinstance(window, int) or window < 1):
            raise UnsupportedError(f"{where}: attention over a window of {window!r} keys")
        return cls(str(kind), window if isinstance(window, int) else 0)

    def make(self, count: int, past: int) -> np.ndarray:
        """For ``count`` new tokens behind ``past`` ones, f32 ``[1, 1, count, seen]``, of ``mix`` ``[2, 1, 1, ...]``."""
        first = past if self.kind == "full" else 0
        keys, queries = np.arange(first, past + count), np.arange(past, past + count)[:, None]
        full = np.where(keys <= queries, np.float32(0), _LEAST)[None, None]
        if self.kind == "full":
            return np.asarray(full, np.float32)
        near = np.where(keys > queries - self.window, full, _LEAST)
        return np.asarray(near if self.kind == "sliding" else np.stack([full, near]), np.float32)


class OfficialDecoder(Decoder):
    """A decoder of such a graph, prepared by :func:`MNN.llm.official.graph.prepared`."""

    def __init__(self, session: Session, embedding: Embedding, masks: Masks, max_length: int | None) -> None:
        super().__init__(session, {}, max_length)
        self._embedding, self._masks = embedding, masks

    def _step(self, text: Text, tokens: Sequence[int], total: int, every: bool) -> np.ndarray:
        count, past = len(tokens), len(text.tokens)
        feeds = {
            "input_ids": self._embedding.rows(np.asarray(tokens, np.int64))[:, None],
            "attention_mask": self._masks.make(count, past),
            "position_ids": np.arange(past, past + count, dtype=np.int32)[None],
            "rows": np.arange(count) if every else np.array([count - 1]),
        }
        logits: np.ndarray = self.model.run(feeds, state=text.state)["logits"]
        text.tokens += tokens
        return logits.reshape(-1, logits.shape[-1])


__all__ = ["Masks", "OfficialDecoder"]
