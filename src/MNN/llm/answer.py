"""An answer as it is written: text as soon as it is sure, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from MNN.llm.engine.decoder import Decoder, Text
from MNN.llm.generation import Cost, Generation


@dataclass(eq=False, kw_only=True)
class Answer(Generation):
    """Iterating writes it, piece by piece, with a decoder of its own. ``history``: what the caches hold."""

    decoder: Decoder
    history: Text
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

    def _write(self) -> Iterator[str]:
        if self.ended:
            return
        begin = time.perf_counter()
        missing = self.decoder.resume(self.history, self.prompt)
        logits = self.decoder.feed(self.history, missing)[-1]
        self.cost.reused = len(self.prompt) - len(missing)
        self.cost.reading = time.perf_counter() - begin
        while not self.ended:
            piece = self.take(logits)
            if piece:
                yield piece
            if not self.ended:
                begin = time.perf_counter()
                logits = self.decoder.feed(self.history, self.tokens[-1:])[-1]
                self.cost.writing += time.perf_counter() - begin
        rest = self.finish()
        if rest:
            yield rest


__all__ = ["Answer", "Cost"]
