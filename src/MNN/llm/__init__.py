"""Language models.

    llm = MNN.llm.load("SmolLM2-135M-Instruct.Q4_1.gguf")
    for piece in llm.stream("What is the capital of France?"):
        print(piece, end="")

PyMNN's names are here too: ``create``, ``Llm``, ``Context``, ``LlmStatus``. Parts are imported when first used:
most programs need few of them. None of them may be called what a name here is, which it would replace.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from MNN.absent import absent

if TYPE_CHECKING:
    from MNN.llm.answer import Answer, Cost
    from MNN.llm.beams import Beam
    from MNN.llm.embedder import Embedder, load_embedder
    from MNN.llm.hub import download
    from MNN.llm.language_model import LanguageModel, load
    from MNN.llm.pymnn import Context, Llm, LlmStatus, create
    from MNN.llm.quality import Perplexity, perplexity
    from MNN.llm.reranker import Ranked, Reranker, load_reranker
    from MNN.llm.sampling import SamplingOptions
    from MNN.llm.tuning import AdaptedModel, load_adapted

_FROM = {
    "answer": ("Answer", "Cost"),
    "beams": ("Beam",),
    "embedder": ("Embedder", "load_embedder"),
    "hub": ("download",),
    "language_model": ("LanguageModel", "load"),
    "pymnn": ("Context", "Llm", "LlmStatus", "create"),
    "quality": ("Perplexity", "perplexity"),
    "reranker": ("Ranked", "Reranker", "load_reranker"),
    "sampling": ("SamplingOptions",),
    "tuning": ("AdaptedModel", "load_adapted"),
}
_WHERE = {name: f"MNN.llm.{module}" for module, names in _FROM.items() for name in names}

if not TYPE_CHECKING:  # names that are not here are errors for type checkers

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise absent("MNN.llm", name, ())
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


__all__ = [
    "AdaptedModel", "Answer", "Beam", "Context", "Cost", "Embedder", "LanguageModel", "Llm", "LlmStatus", "Perplexity",
    "Ranked", "Reranker", "SamplingOptions", "create", "download", "load", "load_adapted", "load_embedder",
    "load_reranker", "perplexity",
]  # fmt: skip
