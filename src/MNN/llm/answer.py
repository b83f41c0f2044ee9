"""An answer as it is written: text as soon as it is sure, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from MNN.llm.engine.decoder import CHUNK, Decoder, Text
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
        with self.decoder.turns:  # nobody changes the history between going back and going on
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
                with self.decoder.turns:
                    draft, rows = self._go_on(drafting, draft, self.cost.kept - before)
        rest = self.finish()
        if rest:
            yield rest

    def _go_on(self, drafting: Drafting | None, before: Draft, kept: int) -> tuple[Draft, np.ndarray]:
        """A draft behind what was written, and the logits behind that and behind each of the draft's tokens; of the
        draft ``before``, so many were ``kept``."""
        draft, text = Draft(), self.behind(0)
        if drafting is not None:
            begin = time.perf_counter()
            drafting.note(len(before.tokens), kept)
            self._missing(text)
            room = min(self.most - len(self.tokens), self.decoder.at_once(self.history)) - 1
            draft = drafting.propose(text, room, self.history)
            self.cost.drafted += len(draft.tokens)
            self.cost.drafting += time.perf_counter() - begin
        missing = self._missing(text)
        begin = time.perf_counter()
        if len(missing) > CHUNK:  # nobody wants the logits behind each of these
            self.decoder.feed(self.history, missing[:-1])
            missing = missing[-1:]
        count = len(draft.tokens)
        rows = self.decoder.feed(self.history, [*missing, *draft.tokens], every=count > 0, drafted=count)[-count - 1 :]
        self.cost.writing += time.perf_counter() - begin
        return draft, rows

    def _missing(self, text: list[int]) -> list[int]:
        """What the caches lack of ``text``, the last token at least; all of it where others have used them meanwhile:
        another answer, a new beginning, or what drafts."""
        history, count = self.history, len(text) - 1
        self.decoder.adapt(history, self.adapter)
        if history.tokens != text[:count]:  # lists are compared faster than resume() finds where they differ
            return self.decoder.resume(history, text)
        return text[count:]


__all__ = ["Answer", "Cost"]
