"""Language models.

    llm = MNN.llm.load("SmolLM2-135M-Instruct.Q4_1.gguf")
    for piece in llm.stream("What is the capital of France?"):
        print(piece, end="")

PyMNN's names are here too: ``create``, ``Llm``, ``Context``, ``LlmStatus``.
"""

from __future__ import annotations

from MNN.llm.answer import Answer, Cost
from MNN.llm.beams import Beam
from MNN.llm.embedder import Embedder, load_embedder
from MNN.llm.hub import download
from MNN.llm.language_model import LanguageModel, load
from MNN.llm.perplexity import Perplexity, perplexity
from MNN.llm.pymnn import Context, Llm, LlmStatus, create
from MNN.llm.reranker import Ranked, Reranker, load_reranker
from MNN.llm.sampling import SamplingOptions
from MNN.llm.tuning import AdaptedModel, load_adapted

__all__ = [
    "AdaptedModel", "Answer", "Beam", "Context", "Cost", "Embedder", "LanguageModel", "Llm", "LlmStatus", "Perplexity",
    "Ranked", "Reranker", "SamplingOptions", "create", "download", "load", "load_adapted", "load_embedder",
    "load_reranker", "perplexity",
]  # fmt: skip
