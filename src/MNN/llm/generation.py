"""An answer as it grows, token by token, whoever computes the logits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.llm.sampling import LogProbability, Sampler, SamplingOptions, StopStrings, log_probability
from MNN.llm.sampling.grammar import Grammar
from MNN.llm.speculation.draft import Draft
from MNN.llm.text import Tokenizer


@dataclass
class Cost:
    """``prompt`` tokens, of which ``reused`` were in the caches already, and ``written`` ones; seconds for reading the
    prompt, for computing what was written (but for the first token, which reading gives), and for choosing tokens. Of
    ``drafted`` tokens, which took ``drafting`` seconds, ``kept`` ones were those that the model would have written."""

    prompt: int = 0
    reused: int = 0
    written: int = 0
    reading: float = 0.0
    writing: float = 0.0
    choosing: float = 0.0
    drafted: int = 0
    kept: int = 0
    drafting: float = 0.0

    @property
    def read_speed(self) -> float:
        """Tokens of the prompt a second, of those that were computed."""
        return (self.prompt - self.reused) / self.reading if self.reading else 0.0

    @property
    def write_speed(self) -> float:
        """Tokens a second after the first one."""
        seconds = self.writing + self.drafting
        return (self.written - 1) / seconds if seconds and self.written > 1 else 0.0


@dataclass(eq=False, kw_only=True)
class Generation:
    """``ended``: ``stop`` (the model, or one of the ``stop`` texts, ended it), ``length`` (as many tokens as it may
    have, which are ``most``), ``cancelled``; empty before the end. ``probabilities``: what the model thought of each
    token and of the ``logprobs`` best ones, if these are asked for. ``grammar``: what may follow. ``adapter``: that of
    the model that writes it, or empty."""

    prompt: Sequence[int]
    tokenizer: Tokenizer
    options: SamplingOptions
    most: int
    stop: Sequence[str] = ()
    logprobs: int | None = None
    grammar: Grammar | None = None
    adapter: str = ""
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    ended: str = ""
    cost: Cost = field(default_factory=Cost)
    probabilities: list[LogProbability] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cost.prompt = len(self.prompt)
        self._sampler = Sampler(self.options, len(self.prompt))
        self._stream, self._stops = self.tokenizer.stream(), StopStrings(self.stop)

    def take(self, logits: np.ndarray, drawn: tuple[int, np.ndarray] | None = None) -> str:
        """Chooses the next token by its logits, ``[vocabulary]``, and gives the text that is sure with it. ``drawn``: a
        token that is taken where that changes nothing, with the probabilities that something else drew it by."""
        begin = time.perf_counter()
        token = self._choose(logits, drawn)
        self.cost.choosing += time.perf_counter() - begin
        if token in self.tokenizer.stop_ids:
            self.ended = self.ended or "stop"
            return ""
        self.tokens.append(token)
        self.cost.written += 1
        piece = self._stops.push(self._stream.push(token))
        if self._stops.found is not None:
            self.ended = "stop"
        elif len(self.tokens) >= self.most:
            self.ended = self.ended or "length"
        self.text += piece
        return piece

    def take_drafted(self, rows: np.ndarray, draft: Draft) -> Iterator[str]:
        """Chooses tokens by the logits behind what is known and behind each token of a ``draft``, ``[tokens,
        vocabulary]``, as long as they are those of the draft, and one more; gives the text that is sure with each."""
        for place, row in enumerate(rows):
            piece = self.take(row, draft.drawn(place))
            as_drafted = not self.ended and place < len(draft.tokens) and self.tokens[-1] == draft.tokens[place]
            self.cost.kept += as_drafted
            if piece:
                yield piece
            if not as_drafted or self.ended:  # rows behind, if any, are of another text
                return

    def finish(self) -> str:
        """What is held back when it has ended."""
        rest = self._stops.push(self._stream.finish()) + self._stops.finish()
        self.text += rest
        return rest

    def cancel(self) -> None:
        """Ends it where it is: the next piece is not written."""
        self.ended = self.ended or "cancelled"

    def behind(self, count: int, most: int | None = None) -> list[int]:
        """Tokens of the prompt and the answer behind the first ``count`` ones, ``most`` at most."""
        found = [*self.prompt[count:], *self.tokens[max(count - len(self.prompt), 0) :]]
        return found if most is None else found[:most]

    def _choose(self, logits: np.ndarray, drawn: tuple[int, np.ndarray] | None) -> int:
        allowed = None if self.grammar is None else self.grammar.allowed(len(logits))
        history = self.behind(0) if self.options.looks_back else ()
        if drawn is None:
            token = self._sampler.next(logits, history, allowed)
        else:
            token = self._sampler.check(logits, *drawn, history, allowed)
        if self.grammar is not None:
            self.grammar.take(token)
        if self.logprobs is not None and token not in self.tokenizer.stop_ids:
            self.probabilities.append(log_probability(logits, token, self.logprobs))
        return token


__all__ = ["Cost", "Generation"]
