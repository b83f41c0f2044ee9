"""Beam search: the most probable texts, several of which are written side by side (Graves 2012, arXiv:1211.3711),
scored and ended as transformers does it. They share the pages of what they begin with alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.errors import MNNError, RunError
from MNN.llm.engine.paged import MOST_TEXTS, PagedDecoder, PagedText, Work
from MNN.llm.sampling import Sampler, SamplingOptions
from MNN.llm.sampling.grammar import Grammar
from MNN.llm.text import Tokenizer


@dataclass(frozen=True)
class Beam:
    """One of the texts. ``log_probability``: of all its tokens, the one that ends it included; ``score``: this over a
    power of how many they are. ``ended``: ``stop`` or ``length``."""

    text: str
    tokens: Sequence[int]
    score: float
    log_probability: float
    ended: str


@dataclass(frozen=True)
class Search:
    """``count`` texts are written at a time. A text of n tokens scores its log-probability over
    ``n ** length_penalty``: above 0 this favours longer ones. ``early``: the search ends as soon as ``count`` texts are
    finished; else when no running text, as long as it is now, scores more than the worst of those."""

    count: int = 4
    length_penalty: float = 1.0
    early: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or not 1 <= self.count <= MOST_TEXTS:
            raise MNNError(f"{self.count!r} beams cannot be written; a number from 1 to {MOST_TEXTS} is expected")
        if not isinstance(self.length_penalty, int | float) or not abs(self.length_penalty) <= 100:
            raise MNNError(f"length_penalty is {self.length_penalty!r}; a number from -100 to 100 is expected")


@dataclass(eq=False)
class _Running:
    """A text that goes on, with the ``total`` of its log-probabilities."""

    text: PagedText
    total: float = 0.0
    tokens: list[int] = field(default_factory=list)
    grammar: Grammar | None = None


@dataclass
class BeamWriter:
    """Writes beams behind one prompt. ``most``: tokens of each at most; ``stop``: texts that end one."""

    decoder: PagedDecoder
    tokenizer: Tokenizer
    search: Search
    options: SamplingOptions
    most: int
    stop: Sequence[str] = ()
    grammar: Grammar | None = None

    def write(self, text: PagedText, prompt: Sequence[int]) -> list[Beam]:
        """The best ones, the best first: ``count`` of them, or fewer where a grammar allows no more. ``text``: what
        caches hold; it has the prompt afterwards."""
        rows = [self.decoder.feed(text, self.decoder.resume(text, prompt))[-1]]
        running = [_Running(self.decoder.fork(text), grammar=self.grammar)]
        finished: list[Beam] = []
        sampler = Sampler(self.options, len(prompt))
        try:
            while True:
                before = running
                found = self._best(running, rows, sampler, prompt)
                ends = [self._ending(running[beam].tokens, token) for _, beam, token in found]
                finished = self._finished(finished, running, found, ends)
                going = [one for one, end in zip(found, ends, strict=True) if not end][: self.search.count]
                if not going or self._settled(finished, going[0][0], len(running[0].tokens) + 1):
                    return finished
                running = self._grown(running, going)
                rows = [one[-1] for one in self.decoder.step([Work(r.text, r.tokens[-1:]) for r in running])]
        finally:
            for one in {*before, *running}:
                self.decoder.cut(one.text, 0)

    def _best(
        self, running: Sequence[_Running], rows: Sequence[np.ndarray], sampler: Sampler, prompt: Sequence[int]
    ) -> list[tuple[float, int, int]]:
        """The best tokens behind all that run: their total, which text it was, and the token. They are so many that
        ``count`` are left when all tokens that end a text are among them."""
        totals = []
        for one, logits in zip(running, rows, strict=True):
            allowed = None if one.grammar is None else one.grammar.allowed(len(logits))
            history = [*prompt, *one.tokens] if self.options.looks_back else ()
            changed = sampler.changed(logits, history, allowed).astype(np.float64)
            highest = changed.max(initial=-np.inf)
            if np.isnan(highest) or highest == np.inf:
                raise RunError("the next token cannot be chosen: the logits are not all numbers")
            if highest == -np.inf:  # a grammar lets nothing through
                totals.append(changed)
            else:
                totals.append(one.total + changed - highest - np.log(np.exp(changed - highest).sum()))
        flat, words = np.concatenate(totals), len(totals[0])
        keep = min(max(2, 1 + len(self.tokenizer.stop_ids)) * self.search.count, len(flat))
        places = np.argpartition(-flat, keep - 1)[:keep]
        places = places[np.argsort(-flat[places], kind="stable")]
        return [(float(flat[i]), int(i) // words, int(i) % words) for i in places if flat[i] > -np.inf]

    def _ending(self, tokens: Sequence[int], token: int) -> str:
        """Why a text ends with this token behind others; empty where it does not."""
        if token in self.tokenizer.stop_ids or (self.stop and self._stopped([*tokens, token]) is not None):
            return "stop"
        return "length" if len(tokens) + 1 >= self.most else ""

    def _stopped(self, tokens: Sequence[int]) -> str | None:
        """The text up to where it is to end; None where it is not."""
        text = self.tokenizer.decode(tokens)
        places = [at for one in self.stop if one and (at := text.find(one)) >= 0]
        return text[: min(places)] if places else None

    def _finished(
        self, before: list[Beam], running: Sequence[_Running], found: Sequence[tuple[float, int, int]],
        ends: Sequence[str],
    ) -> list[Beam]:  # fmt: skip
        """The best finished texts, with those of ``found`` that end now and are among the best of all."""
        count = self.search.count
        if self.search.early and len(before) == count:
            return before
        best = list(zip(found, ends, strict=True))[:count]
        now = [self._beam([*running[b].tokens, token], total, end) for (total, b, token), end in best if end]
        return sorted([*before, *now], key=lambda one: -one.score)[:count]

    def _beam(self, tokens: list[int], total: float, end: str) -> Beam:
        score = total / len(tokens) ** self.search.length_penalty
        shown = tokens[:-1] if tokens[-1] in self.tokenizer.stop_ids else tokens
        text = self._stopped(shown) if self.stop else None
        return Beam(self.tokenizer.decode(shown) if text is None else text, shown, score, total, end)

    def _settled(self, finished: Sequence[Beam], best: float, length: int) -> bool:
        """Whether nothing that runs, of which the ``best`` has this total, is better than what is finished."""
        if len(finished) < self.search.count:
            return False
        return self.search.early or best / length**self.search.length_penalty <= finished[-1].score

    def _grown(self, running: Sequence[_Running], going: Sequence[tuple[float, int, int]]) -> list[_Running]:
        """The texts that go on: the last one behind each takes over its pages, others share them."""
        last = {beam: place for place, (_, beam, _) in enumerate(going)}
        grown: list[_Running] = []
        for place, (total, beam, token) in enumerate(going):
            parent = running[beam]
            text = parent.text if last[beam] == place else self.decoder.fork(parent.text)
            grammar = parent.grammar
            if grammar is not None:
                grammar = grammar if last[beam] == place else grammar.copy()
                grammar.take(token)
            grown.append(_Running(text, total, [*parent.tokens, token], grammar))
        for beam, one in enumerate(running):
            if beam not in last:
                self.decoder.cut(one.text, 0)
        return grown


__all__ = ["Beam", "BeamWriter", "Search"]
