"""Answers of small random models, with drafts and without."""

from __future__ import annotations

from typing import Any

from MNN.llm.answer import Answer
from MNN.llm.engine.decoder import Decoder
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.sampling import SamplingOptions
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.test_families import RECORDED


class Words:
    """Tokens whose text is a character each, and of which none ends an answer."""

    stop_ids: frozenset[int] = frozenset()

    def stream(self) -> Words:
        return self

    def push(self, token: int) -> str:
        return chr(65 + token)

    def finish(self) -> str:
        return ""


def small(family: str, seed: int = 0, bits: int = 32, **changes: Any) -> PagedDecoder:
    """A recorded model's decoder, with weights of this ``seed`` beyond its own."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    data = Arrays(cases.weights(notes["shapes"], notes["seed"] + 1000 * seed))
    return decoder_of({**notes["config"], **changes}, data, Config(precision="high", cache=False), bits=bits)


def written(decoder: Decoder, prompt: list[int], most: int, drafter: Any = None, **sampling: Any) -> Answer:
    """An answer of ``most`` tokens in a text of its own."""
    options = SamplingOptions(**{"temperature": 0.0, **sampling})
    words: Any = Words()
    answer = Answer(
        decoder=decoder, history=decoder.text(), prompt=prompt, tokenizer=words, options=options, most=most,
        drafter=drafter,
    )  # fmt: skip
    answer.read()
    return answer
