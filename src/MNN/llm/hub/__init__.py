"""Models from the Hugging Face Hub, when a person asks for one (:func:`download`). Needs the extra ``hub``."""

from __future__ import annotations

from MNN.llm.hub.download import download

__all__ = ["download"]
