"""Heads that were trained to draft for a model: EAGLE, EAGLE-3 and Medusa, read from their checkpoints."""

from __future__ import annotations

from MNN.llm.speculation.heads.drafters import Heads, heads_of
from MNN.llm.speculation.heads.files import HeadFiles, open_heads

__all__ = ["HeadFiles", "Heads", "heads_of", "open_heads"]
