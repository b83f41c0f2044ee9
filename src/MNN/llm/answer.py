"""An answer as it is written: text as soon as it is sure, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from MNN.llm.engine.decoder import Decoder, Text
from MNN.llm.generation import Cost, Generation
from MNN.llm.speculation.draft import Draft, Drafter, Drafting


@dataclass(eq=False, kw_only=True)
class Answer(Generation):
    """Iterating writes it, piece by piece, with a decoder of its own. ``history``: what the caches hold. ``drafter``:
    what proposes tokens, of which several are then computed in one run."""

    decoder: Decoder
    history: Text
    drafter: Drafter | None = None
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
        self.decoder.adapt(self.history, self.adapter)
        missing = self.decoder.resume(self.history, self.prompt)
        rows = self.decoder.feed(self.history, missing)
        self.cost.reused = len(self.prompt) - len(missing)
        self.cost.reading = time.perf_counter() - begin
        drafting = None if self.drafter is None else Drafting(self.drafter, self.options)
        draft = Draft()
        while not self.ended:
            before = self.cost.kept
            yield from self.take_drafted(rows, draft)
            if not self.ended:
                draft, rows = self._go_on(drafting, draft, self.cost.kept - before)
        rest = self.finish()
        if rest:
            yield rest

    def _go_on(self, drafting: Drafting | None, before: Draft, kept: int) -> tuple[Draft, np.ndarray]:
        """A draft behind what was written, and the logits behind that and behind each of the draft's tokens; of the
        draft ``before``, so many were ``kept``."""
        draft, given = Draft(), self.tokens[-1:]
        if drafting is not None:
            begin = time.perf_counter()
            drafting.note(len(before.tokens), kept)
            text = self.behind(0)
            self.decoder.cut(self.history, len(text) - 1)
            room = min(self.most - len(self.tokens), self.decoder.at_once(self.history)) - 1
            draft = drafting.propose(text, room, self.history)
            given = [*text[len(self.history.tokens) :], *draft.tokens]
            self.cost.drafted += len(draft.tokens)
            self.cost.drafting += time.perf_counter() - begin
        begin = time.perf_counter()
        count = len(draft.tokens)
        rows = self.decoder.feed(self.history, given, every=count > 0, drafted=count)[-count - 1 :]
        self.cost.writing += time.perf_counter() - begin
        return draft, rows


__all__ = ["Answer", "Cost"]
