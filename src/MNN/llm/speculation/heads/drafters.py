"""Drafts by heads that look at what the model that checks made of its tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from MNN.errors import UnsupportedError
from MNN.llm.engine.decoder import Text
from MNN.llm.engine.kept import fingerprint
from MNN.llm.engine.loaded import LoadedWeights, check_bits, row_bits_of
from MNN.llm.engine.opening import TOKENS, Opened
from MNN.llm.engine.paged import PagedDecoder, PagedText
from MNN.llm.engine.pages import NoPagesError
from MNN.llm.files import open_weights
from MNN.llm.files.tensors import WeightTensor
from MNN.llm.models.cache import PAGE, CacheForm
from MNN.llm.models.config import Config as ModelConfig
from MNN.llm.models.heads.eagle import GIVEN, TABLES, eagle
from MNN.llm.models.heads.medusa import medusa
from MNN.llm.sampling import SamplingOptions
from MNN.llm.speculation.choosing import SURE, Chooser
from MNN.llm.speculation.draft import MOST, Array, Draft
from MNN.llm.speculation.heads.files import HeadFiles, number_of_words
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.runtime.storage.programs import StoredPrograms


class Guesser(Protocol):
    """Gives logits of what may follow a text, token after token."""

    def first(self, features: Array, tokens: Sequence[int], begin: int) -> Array | None:
        """The logits ``[words]`` of what follows ``tokens``; ``features [tokens - 1 - begin, width]`` are those of the
        tokens from ``begin`` on, but for the last. None where they cannot be told."""

    def next(self, token: int) -> Array | None:
        """Those behind one more ``token``; None where it looks no farther."""

    def another(self) -> Guesser:
        """One for another text."""

    def close(self) -> None:
        """Its text is finished."""


class Heads:
    """The drafter of a model that was loaded with heads. Tokens are drawn as those of the answer are (but for
    penalties, which only the check knows), so that what is checked keeps the model's distribution."""

    def __init__(self, guesser: Guesser, words: np.ndarray | None, count: int, sure: float = SURE) -> None:
        """``words``: which tokens logits are of (None: of the first ones), of ``count`` of the model."""
        self._guesser, self._words, self._count, self._sure = guesser, words, count, sure

    def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        """Nothing: heads need the text, and not its tokens alone (:meth:`propose_behind`)."""
        return Draft()

    def propose_behind(self, text: Text, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        """At most ``count`` tokens that may follow ``tokens``, all of which but the last one a model that shows its
        features has read as ``text``."""
        features = text.features if isinstance(text, PagedText) else None
        known = len(tokens) - 1
        if features is None or count < 1 or known != len(text.tokens) or features.end != known:
            return Draft()
        if features.first >= known:
            return Draft()
        chooser = Chooser(options, len(tokens), self._sure)
        logits = self._guesser.first(features.rows(features.first, known), tokens, features.first)
        while logits is not None and chooser.take(self._of_all(logits)) and len(chooser.drafted) < count:
            logits = self._guesser.next(chooser.drafted[-1])
        return chooser.draft()

    def another(self) -> Heads:
        """One for another text."""
        return Heads(self._guesser.another(), self._words, self._count, self._sure)

    def close(self) -> None:
        """The text is finished."""
        self._guesser.close()

    def _of_all(self, logits: Array) -> Array:
        """Logits of all tokens of the model; those that heads do not know have no chance."""
        if self._words is None:
            return logits[: self._count] if self._count else logits
        found = np.full(self._count, -np.inf, np.float32)
        found[self._words] = logits
        return found


class Eagle:
    """A decoder that takes what the model made of a token together with the token behind it."""

    def __init__(self, decoder: PagedDecoder) -> None:
        self._decoder, self._text = decoder, decoder.text()
        self._begin = self._real = 0
        """The token of the text that its first one is, and how many of its tokens went with what the model made."""

    def first(self, features: Array, tokens: Sequence[int], begin: int) -> Array | None:
        decoder, text, behind = self._decoder, self._text, tokens[begin + 1 :]
        decoder.cut(text, self._real if begin == self._begin else 0)
        missing = decoder.resume(text, behind)
        self._begin, self._real = begin, len(behind)
        return self._go_on(missing, features[len(behind) - len(missing) :])

    def next(self, token: int) -> Array | None:
        assert self._text.features is not None
        end = len(self._text.tokens)
        return self._go_on([token], np.array(self._text.features.rows(end - 1, end)))

    def another(self) -> Eagle:
        return Eagle(self._decoder)

    def close(self) -> None:
        self._decoder.cut(self._text, 0)
        self._real = 0

    def _go_on(self, tokens: Sequence[int], given: Array) -> Array | None:
        try:
            found: Array = self._decoder.feed(self._text, tokens, given=given)[-1]
        except NoPagesError:  # other texts need them; what there is of a draft has to do
            self.close()
            return None
        return found


class Medusa:
    """Heads that all look at the last token that the model has read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: list[Array] = []

    def first(self, features: Array, tokens: Sequence[int], begin: int) -> Array | None:
        self._left = list(self._session.run({GIVEN: np.array(features[-1:])[None]})["logits"][0])
        return self.next(tokens[-1])

    def next(self, token: int) -> Array | None:
        return self._left.pop(0) if self._left else None

    def another(self) -> Medusa:
        return Medusa(self._session)

    def close(self) -> None:
        self._left = []


def heads_of(
    files: HeadFiles, target: Opened, config: Config, max_length: int, bits: int | None = None,
    activation_bits: int | None = None,
) -> Heads:  # fmt: skip
    """The drafter of a model that shows what ``files`` want. ``max_length``: of its texts; ``bits`` and
    ``activation_bits``: as :func:`MNN.llm.load` has them. Raises :class:`FormatError` for heads of another model."""
    check_bits(bits)
    row_bits, count = row_bits_of(config.precision, activation_bits), number_of_words(target.config)
    tensors: dict[str, WeightTensor] = dict(files.tensors)
    kind: tuple[str, ...] = (files.kind, files.mark, f"{bits} bits", f"rows of {row_bits} bits")
    if files.kind == "medusa":
        stored = StoredPrograms.of(files.file, config, kind)
        graph = lambda: medusa(LoadedWeights(tensors, bits, row_bits), list(tensors))  # noqa: E731
        return Heads(Medusa(Session(graph, config, stored)), None, count)
    model = open_weights(target.path)
    tensors |= {f"target.{name}": model[name] for name in _OF_MODEL if name in model}
    if TABLES[0] not in tensors and TABLES[1] not in tensors:
        raise UnsupportedError(f"{files.file}: EAGLE's heads need the model's table 'model.embed_tokens.weight'")
    tokens = max(max_length, TOKENS) + MOST
    cache = CacheForm(16, 16, -(-tokens // PAGE) + 1, -(-tokens // PAGE) + 1)
    told = ModelConfig(files.config)
    states = {
        f"past_{name}{i}": f"present_{name}{i}" for i in range(told.layers) for name, _, _ in cache.pools(1, 1, 1)
    }
    stored = StoredPrograms.of(files.file, config, (*kind, repr(cache), fingerprint(target.files, "")), (), states)
    third = files.kind == "eagle3"
    weights = LoadedWeights(tensors, bits, row_bits)
    session = Session(lambda: eagle(told, weights, cache, third).graph, config, stored, states)
    table = tensors[json.loads(session.card.facts["embeddings"])]
    decoder = PagedDecoder(session, states, cache, table, max_length + MOST)
    return Heads(Eagle(decoder), files.words(count), count)


_OF_MODEL = ("model.embed_tokens.weight", "lm_head.weight")

__all__ = ["Eagle", "Guesser", "Heads", "Medusa", "heads_of"]
