"""Models that write text, asked whether a text answers a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.llm.embedder import Embedder, batches
from MNN.llm.language_model import LanguageModel
from MNN.llm.models.weights import Weights
from MNN.llm.text import Tokenizer
from MNN.stateful import StatefulModel

INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
_BEGIN = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_END = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def classifies(config: Mapping[str, object]) -> bool:
    """Whether a configuration is that of a decoder with a layer for scores in place of words."""
    made = config.get("architectures")
    names = made if isinstance(made, Sequence) and not isinstance(made, str) else ()
    return any(str(name).endswith("ForSequenceClassification") for name in names)


def share(logits: np.ndarray) -> np.ndarray:
    """What answers have of 1 whose logits beside those of all else are given; f32, of any size."""
    least = np.float32(80)  # e to that is finite in f32
    found: np.ndarray = 1 / (1 + np.exp(-np.clip(logits, -least, least)))
    return found


class Judge:
    """A model that writes whether a text answers: the share of "yes" beside "no" (Qwen3-Reranker, arXiv:2506.05176)."""

    def __init__(self, model: LanguageModel) -> None:
        self._decoder, self.tokenizer = model.decoder, model.tokenizer
        self.longest = model.max_length
        self._answers = [self._token(word) for word in ("no", "yes")]

    def _token(self, word: str) -> int:
        found = self.tokenizer.id_of(word)
        if found is None:
            raise FormatError(f"the model cannot judge: its vocabulary lacks the word '{word}'")
        return found

    def scores(self, query: str, texts: Sequence[str], instruction: str = INSTRUCTION) -> np.ndarray:
        decoder, tokenizer = self._decoder, self.tokenizer
        found = []
        state = decoder.text()
        for text in texts:  # what they begin with alike, the question included, is computed once
            tokens = _told(tokenizer, query, text, instruction, self.longest)
            logits = decoder.feed(state, decoder.resume(state, tokens))[-1]
            no, yes = (logits[i] for i in self._answers)
            found.append(yes - no)
        return share(np.array(found, np.float32))


class Assessor:
    """A decoder that scores the last token's vector of question and text. Qwen3's kind is asked as
    :class:`Judge` asks (Qwen3-Reranker is made into one so); others read both one after the other."""

    def __init__(
        self, model: StatefulModel, tokenizer: Tokenizer, longest: int, weights: Weights, config: Mapping[str, object]
    ) -> None:
        if "score.weight" not in weights:
            raise FormatError("the model has no layer 'score' that makes scores of texts")
        self._layer, self.tokenizer, self.longest = np.asarray(weights["score.weight"], np.float32), tokenizer, longest
        if self._layer.ndim != 2 or len(self._layer) not in (1, 2):
            raise FormatError(f"the model sorts texts into {len(self._layer)} classes; one score, or two, are expected")
        self._vectors = Embedder(model, tokenizer, longest, "last", normal=False)
        self._asks, self._apart = config.get("model_type") == "qwen3", "length" in model.inputs

    def scores(self, query: str, texts: Sequence[str], instruction: str = INSTRUCTION) -> np.ndarray:
        rows = [self._tokens(query, text, instruction) for text in texts]
        found = np.zeros(len(rows), np.float32)
        for part in batches([len(row) for row in rows], self._apart):
            made = self._vectors.vectors([rows[i] for i in part])[:, -1] @ self._layer.T
            logits = made[:, 0] if made.shape[1] == 1 else made[:, 1] - made[:, 0]
            found[part] = share(logits)
        return found

    def _tokens(self, query: str, text: str, instruction: str) -> list[int]:
        if self._asks:
            return _told(self.tokenizer, query, text, instruction, self.longest)
        return self.tokenizer.encode_pair(query, text, self.longest)[0]


def _told(tokenizer: Tokenizer, query: str, text: str, instruction: str, longest: int) -> list[int]:
    """The tokens of the question whether a text answers; of a text that is too long, what is at its end is left out."""
    told = f"{_BEGIN}<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"
    tokens, end = (tokenizer.encode(part, add_special_tokens=False) for part in (told, _END))
    return [*tokens[: max(longest - len(end), 1)], *end]


__all__ = ["INSTRUCTION", "Assessor", "Judge", "classifies", "share"]
