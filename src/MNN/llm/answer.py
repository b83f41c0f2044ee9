"""An answer as it is written: text as soon as it is sure, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.llm.engine.decoder import Decoder, Text
from MNN.llm.sampling import LogProbability, Sampler, SamplingOptions, StopStrings, log_probability
from MNN.llm.sampling.grammar import Grammar
from MNN.llm.text import Tokenizer


@dataclass
class Cost:
    """``prompt`` tokens, of which ``reused`` were in the caches already, and ``written`` ones; seconds for reading the
    prompt, for computing what was written (but for the first token, which reading gives), and for choosing tokens."""

    prompt: int = 0
    reused: int = 0
    written: int = 0
    reading: float = 0.0
    writing: float = 0.0
    choosing: float = 0.0

    @property
    def read_speed(self) -> float:
        """Tokens of the prompt a second, of those that were computed."""
        return (self.prompt - self.reused) / self.reading if self.reading else 0.0

    @property
    def write_speed(self) -> float:
        """Tokens a second after the first one."""
        return (self.written - 1) / self.writing if self.writing and self.written > 1 else 0.0


@dataclass
class Answer:
    """Iterating writes it, piece by piece. ``ended``: ``stop`` (the model, or one of the ``stop`` texts, ended it),
    ``length`` (as many tokens as it may have), ``cancelled``; empty before the end. ``probabilities``: what the model
    thought of each token and of the ``logprobs`` best ones, if these are asked for. ``grammar``: what may follow."""

    decoder: Decoder
    history: Text
    prompt: Sequence[int]
    tokenizer: Tokenizer
    options: SamplingOptions
    most: int
    stop: Sequence[str] = ()
    logprobs: int | None = None
    grammar: Grammar | None = None
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    ended: str = ""
    cost: Cost = field(default_factory=Cost)
    probabilities: list[LogProbability] = field(default_factory=list)
    _pieces: Iterator[str] | None = None

    def __iter__(self) -> Iterator[str]:
        """What is still to be written; an answer is written once."""
        if self._pieces is None:
            self._pieces = self._write()
        return self._pieces

    def read(self) -> str:
        """The whole text."""
        for _ in self:
            pass
        return self.text

    def cancel(self) -> None:
        """Ends it where it is: the next piece is not written."""
        self.ended = self.ended or "cancelled"

    def _write(self) -> Iterator[str]:
        stream, stops = self.tokenizer.stream(), StopStrings(self.stop)
        for token in self._choose():
            piece = stops.push(stream.push(token))
            if stops.found is not None:
                self.ended = "stop"
            if piece:
                self.text += piece
                yield piece
            if self.ended:
                break
        rest = stops.push(stream.finish()) + stops.finish()
        if rest:
            self.text += rest
            yield rest

    def _choose(self) -> Iterator[int]:
        """The tokens, but for the one that ends the answer."""
        begin = time.perf_counter()
        missing = self.decoder.resume(self.history, self.prompt)
        logits = self.decoder.feed(self.history, missing)[-1]
        self.cost.prompt, self.cost.reused = len(self.prompt), len(self.prompt) - len(missing)
        self.cost.reading = time.perf_counter() - begin
        sampler = Sampler(self.options, len(self.prompt))
        while not self.ended:
            token = self._next(sampler, logits)
            if token in self.tokenizer.stop_ids:
                self.ended = "stop"
                return
            self.tokens.append(token)
            self.cost.written += 1
            if len(self.tokens) >= self.most:
                self.ended = "length"
                yield token
                return
            yield token
            if self.ended:
                return
            begin = time.perf_counter()
            logits = self.decoder.feed(self.history, [token])[-1]
            self.cost.writing += time.perf_counter() - begin

    def _next(self, sampler: Sampler, logits: np.ndarray) -> int:
        begin = time.perf_counter()
        allowed = None if self.grammar is None else self.grammar.allowed(len(logits))
        token = sampler.next(logits, self.history.tokens if self.options.looks_back else (), allowed)
        if self.grammar is not None:
            self.grammar.take(token)
        if self.logprobs is not None and token not in self.tokenizer.stop_ids:
            self.probabilities.append(log_probability(logits, token, self.logprobs))
        self.cost.choosing += time.perf_counter() - begin
        return token


__all__ = ["Answer", "Cost"]
