"""Drafts by another model, smaller than the one that checks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.llm.engine.decoder import Decoder, Text
from MNN.llm.engine.paged import PagedDecoder, PagedText, Work
from MNN.llm.engine.pages import NoPagesError
from MNN.llm.engine.texts import Texts, texts_of
from MNN.llm.sampling import SamplingOptions
from MNN.llm.speculation.choosing import SURE, Chooser
from MNN.llm.speculation.draft import Array, Draft

_FEW = 7
"""Tokens that texts go on by together; who has more to read does so before."""


class ModelDrafter:
    """Drafts by a decoder, which keeps what it has read of the text: greedily where answers are, else drawn as they are
    (but for penalties, which only the check knows)."""

    def __init__(
        self, decoder: Decoder, sure: float = SURE, text: Text | None = None, texts: Texts | None = None
    ) -> None:
        """``text``: where what is read is kept. ``texts``: those of several drafters, which begin from what others have
        read."""
        self._decoder, self._sure, self._texts = decoder, sure, texts
        self._text = decoder.text() if text is None and texts is None else text

    def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        """See :class:`~MNN.llm.speculation.draft.Drafter`."""
        return propose_together([(self, tokens, count, options)])[0]

    def another(self) -> ModelDrafter:
        """One for another text, by the same model; it begins from what finished ones have read."""
        if self._texts is None:
            self._texts = texts_of(self._decoder)
        return ModelDrafter(self._decoder, self._sure, texts=self._texts)

    def close(self) -> None:
        """The text is finished: others may begin from it; what a single drafter has read is forgotten."""
        if self._text is None:
            return
        if self._texts is None:
            self._decoder.cut(self._text, 0)
        else:
            self._texts.keep(self._text)
            self._text = None

    def _begin(self, tokens: Sequence[int]) -> Text:
        """Where the tokens are read."""
        if self._text is None:
            assert self._texts is not None
            self._text = self._texts.begin(tokens, ())
        return self._text


Asked = tuple[ModelDrafter, Sequence[int], int, SamplingOptions]
"""A drafter, and what :meth:`ModelDrafter.propose` is given."""


def propose_together(asked: Sequence[Asked]) -> list[Draft]:
    """The drafts of several texts; those by one model are written together, where it has several texts."""
    rows: list[_Row | None] = []
    for drafter, tokens, count, options in asked:
        longest = drafter._decoder.max_length
        count = count if longest is None else min(count, longest - len(tokens))
        rows.append(_Row.of(drafter, tokens, count, options) if count > 0 else None)
    by_model: dict[Decoder, list[_Row]] = {}
    for row in rows:
        if row is not None:
            by_model.setdefault(row.decoder, []).append(row)
    for decoder, some in by_model.items():
        if isinstance(decoder, PagedDecoder):
            _write(some)
        else:  # they may share their one text
            for one in some:
                one.given = decoder.resume(one.text, one.tokens)
                _write([one])
    return [Draft() if row is None else row.draft() for row in rows]


def _write(rows: Sequence[_Row]) -> None:
    running = list(rows)
    while running:
        try:
            logits = _step(running)
        except NoPagesError:  # what there is of drafts has to do
            for row in running:
                row.decoder.cut(row.text, 0)
            return
        running = [row for row, found in zip(running, logits, strict=True) if row.take(found)]


def _step(rows: Sequence[_Row]) -> list[Array]:
    """The logits behind each."""
    decoder, texts = rows[0].decoder, rows[0].texts
    if texts is not None:
        texts.fits([(row.text, row.given) for row in rows])  # texts that nobody uses make way
    if len(rows) == 1:
        return [decoder.feed(row.text, row.given)[-1] for row in rows]
    assert isinstance(decoder, PagedDecoder)
    for row in rows:
        if len(row.given) > _FEW:
            decoder.feed(row.text, row.given[:-1])
            row.given = row.given[-1:]
    works = [Work(row.text, row.given) for row in rows if isinstance(row.text, PagedText)]
    return [found[-1] for found in decoder.step(works)]


@dataclass
class _Row:
    """A draft that is written. ``given``: what its text goes on by."""

    decoder: Decoder
    texts: Texts | None
    text: Text
    tokens: Sequence[int]
    given: Sequence[int]
    count: int
    chooser: Chooser

    @classmethod
    def of(cls, drafter: ModelDrafter, tokens: Sequence[int], count: int, options: SamplingOptions) -> _Row:
        decoder, text = drafter._decoder, drafter._begin(tokens)
        chooser = Chooser(options, len(tokens), drafter._sure)
        return cls(decoder, drafter._texts, text, tokens, decoder.resume(text, tokens), count, chooser)

    def take(self, logits: Array) -> bool:
        """Chooses a token; whether another one is to follow."""
        if not self.chooser.take(logits):
            return False
        self.given = self.chooser.drafted[-1:]
        return len(self.chooser.drafted) < self.count

    def draft(self) -> Draft:
        return self.chooser.draft()


__all__ = ["ModelDrafter", "propose_together"]
