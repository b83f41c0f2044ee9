"""Runs a decoder on several texts at once, each at its own length, with caches in pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.ir.shape import elements
from MNN.llm.engine.adapters import AdapterBank
from MNN.llm.engine.decoder import Decoder, Text, common, pieces
from MNN.llm.engine.embeddings import Table, embedded
from MNN.llm.engine.features import Features
from MNN.llm.engine.large_pages import LargePages
from MNN.llm.engine.marks import MarkForm, Marks, laid_out
from MNN.llm.engine.pages import PageList, PagePool, pages_of
from MNN.llm.engine.spilling import Spilling
from MNN.llm.engine.variants import Variants
from MNN.llm.files.adapters import Changes
from MNN.llm.models.adapted.layers import MASK
from MNN.llm.models.cache import PAGE, TILE, CacheForm
from MNN.llm.models.heads.eagle import GIVEN
from MNN.llm.models.heads.features import FEATURES
from MNN.runtime.session import Session

MOST_TEXTS = 64
"""Texts that go on together in one run."""
_FEWEST = 3
"""Smaller numbers of tokens and rows than this have plans of their own (docs/new-sizes.md); 1 is worth one."""
_TILES = 32 + MOST_TEXTS
"""Rows of the table of tiles up to which it has this size: one plan less; as of that of segments."""
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(eq=False)
class PagedText(Text):
    """A text whose keys and values lie in pages of the model's one state."""

    lists: list[PageList] = field(default_factory=list)
    features: Features | None = None
    """What a model that shows it made of the tokens."""
    marks: Marks | None = None
    """Where a text of a model with recurrent layers can go back to."""

    def __del__(self) -> None:
        """Pages and slots of a text that nobody has any more are free."""
        self.give_back(0)

    def give_back(self, length: int) -> None:
        """Has no pages and slots behind so many tokens."""
        for one in self.lists:
            one.cut(length)
        if self.marks is not None:
            self.marks.cut(length)


@dataclass
class Work:
    """What one text goes on by in a step. ``rows``: behind how many of the last ``tokens`` logits are wanted. ``given``
    f32 ``[tokens, width]``: what a head takes beside tokens. ``drafted``: how many of the last tokens may be taken
    back."""

    text: PagedText
    tokens: Sequence[int]
    rows: int = 1
    given: Array | None = None
    drafted: int = 0


class PagedDecoder(Decoder):
    """The graph of a model with its caches in pages, ready to run."""

    bank: AdapterBank | None = None
    """The adapters of a model that was made for some."""
    variants: Variants | None = None
    """Its graphs for steps that need fewer of the adapters than all."""
    told: str = ""
    """How weights, keys and values are rounded: those of another form are not these."""

    def __init__(
        self,
        session: Session,
        states: Mapping[str, str],
        cache: CacheForm,
        embeddings: Table,
        max_length: int | None = None,
        switch: int = 0,
        columns: int = 0,
        spilling: Spilling | None = None,
    ) -> None:
        """``session``: of the graph, made for these ``states`` and this ``cache``
        (:class:`MNN.llm.models.layers.Layers`). ``embeddings``: the table that its tokens are looked up in.
        ``max_length``: how many tokens a text may have. ``switch``: beyond how many tokens all positions turn in
        another way (0: none). ``columns``: those for adapters, of a graph of
        :class:`MNN.llm.models.adapted.layers.AdaptedLayers`. ``spilling``: where pages lie of which not all stay in
        memory.
        """
        super().__init__(session, states, None, switch, None if spilling is None else spilling.zeros)
        self.spilling, self._large = spilling, LargePages()
        self.max_length = max_length
        self.cache, self.embeddings = cache, embeddings
        caches: dict[str, list[str]] = json.loads(session.card.facts.get("caches", "{}"))
        self._windows = [int(window) for window in caches]
        self._states = list(caches.values())
        """Of layers with each window."""
        self.pools = [PagePool(cache.pages) for _ in self._windows]
        """Of each window; layers with the same one have the same pages."""
        self.recurrent: list[str] = json.loads(session.card.facts.get("recurrent", "[]"))
        """The states of recurrent layers."""
        self.slots = PagePool(cache.slots if self.recurrent else 0, "slots of recurrent layers")
        sizes = (session.inputs[name].shape or () for name in self.recurrent)
        self._marks = MarkForm.of(4 * sum(elements(tuple(map(int, shape[1:]))) for shape in sizes))
        if columns:
            self.bank = AdapterBank(session.card.facts, columns, self.model.state)

    @property
    def shows(self) -> bool:
        """Whether texts have features: the model was loaded with heads, or is one."""
        return FEATURES in self.model.outputs

    @property
    def words(self) -> int:
        return self.embeddings.shape[0]

    @property
    def adapters(self) -> Sequence[str]:
        return () if self.bank is None else tuple(self.bank.names)

    def add_adapter(self, name: str, changes: Changes) -> None:
        """Puts an adapter beside others, between two steps where other threads have it run. Raises
        :class:`MNNError` where there is no room for it."""
        if self.bank is None:
            raise MNNError("the model was loaded without adapters")
        with self.turns:
            self.bank.add(name, changes)
            if self.variants is not None:
                self.variants.add(name, changes)

    def remove_adapter(self, name: str) -> None:
        """Gives its room back. Raises :class:`MNNError` for one that is not there."""
        if self.bank is None:
            raise MNNError("the model was loaded without adapters")
        with self.turns:
            self.bank.remove(name)
            if self.variants is not None:
                self.variants.remove(name)

    @property
    def window_states(self) -> Sequence[Sequence[str]]:
        """The names of the states that hold the pages of each list of a text."""
        return self._states

    def pool(self, name: str) -> Array:
        """All pages of a state, to be read or changed in place until the next run."""
        self._ready()
        return self.model.state.view(name)

    def _ready(self) -> None:
        """Has the pages be there, before something is put into them: by a run of one token."""
        if not self.model.state.shapes:
            text = self.text()
            self.feed(text, [0])
            self.cut(text, 0)

    # -- texts ------------------------------------------------------------------------------------------------------

    def text(self, adapter: str = "") -> PagedText:
        self._check_adapter(adapter)
        lists = [PageList(pool, window) for pool, window in zip(self.pools, self._windows, strict=True)]
        marks = Marks(self.slots, self._marks) if self.recurrent else None
        return PagedText(self.model.state, [], lists, Features() if self.shows else None, marks, adapter=adapter)

    def fork(self, text: PagedText, length: int | None = None) -> PagedText:
        """Another text that goes on from the first ``length`` tokens (by default all), whose pages are shared; from
        fewer where recurrent layers do not know what they had made of these."""
        count = len(text.tokens) if length is None else length
        count = count if text.marks is None else text.marks.reach(count)
        lists = [one.fork(count) for one in text.lists]
        features = None if text.features is None else text.features.fork(count)
        marks = None if text.marks is None else text.marks.fork(count)
        return PagedText(text.state, text.tokens[:count], lists, features, marks, adapter=text.adapter)

    def reach(self, text: PagedText, length: int) -> int:
        """The most tokens up to ``length`` that a text can go back to: windows have given nothing back that is needed
        then, and recurrent layers know what they had made of these."""
        length = length if text.marks is None else text.marks.reach(length)
        return length if all(one.reaches(length) for one in text.lists) else 0

    def cut(self, text: Text, length: int) -> None:
        """Goes back to the first ``length`` tokens; to fewer of them where what these see is not kept."""
        assert isinstance(text, PagedText)
        length = self.reach(text, length)
        text.give_back(length)
        del text.tokens[length:]
        if text.features is not None:
            text.features.cut(length)

    def resume(self, text: Text, tokens: Sequence[int]) -> list[int]:
        """Goes back to what ``text`` and ``tokens`` begin with alike, and gives the tokens that are then missing, at
        least one. Of a text whose positions turn as those of longer ones do, nothing serves a shorter one."""
        turned = len(text.tokens) > self._switch >= len(tokens)
        self.cut(text, 0 if turned else common(text.tokens, tokens[:-1]))
        return list(tokens[len(text.tokens) :])

    # -- running ----------------------------------------------------------------------------------------------------

    def feed(
        self, text: Text, tokens: Sequence[int], every: bool = False, given: Array | None = None, *, drafted: int = 0
    ) -> Array:
        """Goes on by ``tokens`` and gives the logits behind the last one, ``[1, vocabulary]``, or behind ``every`` one;
        ``given`` and ``drafted``: as :class:`Work` has them.

        Raises :class:`MNNError` where there are none, or more than the caches may hold; the text is then as it was, or
        empty where what it held is of no use any more.
        """
        assert isinstance(text, PagedText)
        self._check(text, len(tokens))
        before, total = len(text.tokens), len(text.tokens) + len(tokens)
        tokens_given = self._restarted(text, tokens)
        found = []
        if text.marks is not None:
            text.marks.hold = len(text.tokens)
        try:
            for piece in pieces(len(tokens_given)):
                part, beside = tokens_given[piece], None if given is None else given[piece]
                behind = max(drafted - (len(tokens_given) - piece.stop), 0)
                with self.turns:
                    found += self._run([Work(text, part, len(part) if every else 1, beside, behind)], total)
        except BaseException:
            restarted = tokens_given is not tokens  # what there is turns as the longer text would
            self.cut(text, 0 if restarted else min(before, len(text.tokens)))
            raise
        finally:
            if text.marks is not None:
                text.marks.hold = None
        return np.concatenate(found)[-len(tokens) :] if every else found[-1]

    def _check(self, text: PagedText, count: int) -> None:
        if not count:
            raise MNNError("there are no tokens to go on by")
        total = len(text.tokens) + count
        if self.max_length is not None and total > self.max_length:
            raise MNNError(
                f"the text would have {total} tokens; the model was loaded for {self.max_length}. Shorten it, reset "
                "the conversation, or load the model with a larger max_length"
            )

    def _restarted(self, text: PagedText, tokens: Sequence[int]) -> Sequence[int]:
        """What a text has to go on by for ``tokens``: from its beginning where, with these, all positions turn in
        another way."""
        if not len(text.tokens) or not len(text.tokens) <= self._switch < len(text.tokens) + len(tokens):
            return tokens
        given = [*text.tokens, *tokens]
        self.cut(text, 0)
        return given

    def step(self, works: Sequence[Work]) -> list[Array]:
        """Has several texts go on together, each by at most :data:`~.decoder.CHUNK` tokens in all, and gives the
        logits of each, ``[rows, vocabulary]``.

        Raises :class:`MNNError` where a text would be too long, before any goes on, or where pages run out. More than
        :data:`MOST_TEXTS` texts, and those of models whose positions turn by the length, go on in parts: where one
        raises, those before it have gone on. All others are as they were.
        """
        for work in works:
            self._check(work.text, len(work.tokens))
        return self._together(works)

    def _together(self, works: Sequence[Work]) -> list[Array]:
        if not self._told and len(works) <= MOST_TEXTS and self._entries(works) <= self.cache.entries:
            with self.turns:
                return self._run(works, 0)
        if len(works) == 1:
            (work,) = works
            logits = self.feed(work.text, work.tokens, work.rows > 1, drafted=work.drafted)
            return [logits[len(logits) - work.rows :]]
        half = len(works) // 2  # positions that turn by a text's length, or too many pages for one table
        return self._together(works[:half]) + self._together(works[half:])

    def _entries(self, works: Sequence[Work]) -> int:
        return sum(-(-(len(w.text.tokens) + len(w.tokens)) // PAGE) for w in works)

    def _run(self, works: Sequence[Work], total: int) -> list[Array]:
        before = [len(work.text.tokens) for work in works]
        try:
            for work, old in zip(works, before, strict=True):
                for one in work.text.lists:
                    one.grow(old + len(work.tokens))
            segments = [
                [] if work.text.marks is None else work.text.marks.grow(old, len(work.tokens), work.drafted)
                for work, old in zip(works, before, strict=True)
            ]
            self._copy_shared(works, before)
            variant = None if self.variants is None else self.variants.choose({work.text.adapter for work in works})
            feeds = self._feeds(works, before, self.bank if variant is None else variant.bank)
            if self.recurrent:
                feeds["segments"] = laid_out(
                    segments, [len(work.tokens) for work in works], feeds["positions"].size, _TILES
                )
            if self._told:
                feeds["length"] = np.array([total], np.int64)
            self._ask(works)
            made = (self.model if variant is None else variant).run(feeds)
            logits: Array = made["logits"][0]
        except BaseException:
            for work, old in zip(works, before, strict=True):
                work.text.give_back(old)
            raise
        found, at, row = [], 0, 0
        for work, old in zip(works, before, strict=True):
            if work.text.features is not None:
                work.text.features.append(made[FEATURES][0, row : row + len(work.tokens)])
                row += len(work.tokens)
            work.text.tokens += work.tokens
            for one in work.text.lists:
                one.slide(len(work.text.tokens))
            if work.text.marks is not None:
                work.text.marks.settle(old)
            found.append(logits[at : at + work.rows])
            at += work.rows
        if self.spilling is None:
            self._large.follow(self.model.state, self._states, self.pools)
        else:
            self.spilling.follow([[self.model.state.view(name) for name in names] for names in self._states])
            self.spilling.used(pages_of(work.text.lists for work in works))
        return found

    def _ask(self, works: Sequence[Work]) -> None:
        """Has what a step reads be read from the disk where it is not in memory."""
        if self.spilling is not None and self.model.state.shapes:
            self.spilling.ask(pages_of(work.text.lists for work in works))

    def _feeds(self, works: Sequence[Work], before: Sequence[int], bank: AdapterBank | None) -> dict[str, Array]:
        """The inputs of the graph for a step, padded to sizes that have plans; of one with the adapters of a
        ``bank``."""
        tokens: list[int] = []
        positions: list[Array] = []
        rows: list[int] = []
        tiles: list[tuple[int, int, int, int]] = []
        tables = [np.zeros(self.cache.entries, np.int64) for _ in self._windows]
        places: list[list[Array]] = [[] for _ in self._windows]
        entry = 0
        for work, old in zip(works, before, strict=True):
            first, count = len(tokens), len(work.tokens)
            tokens += work.tokens
            own = np.arange(old, old + count)
            positions.append(own)
            rows += range(first + count - work.rows, first + count)
            tiles += [(first + i, min(TILE, count - i), entry, old + i) for i in range(0, count, TILE)]
            for table, part, one in zip(tables, places, work.text.lists, strict=True):
                table[entry : entry + len(one.pages)] = one.pages
                part.append(table[entry + own // PAGE] * PAGE + own % PAGE)
            entry += len(work.text.lists[0].pages) if work.text.lists else 0
        extra = 1 if len(tokens) == _FEWEST - 1 else 0
        if extra:  # a token that is written nowhere, and of which nobody asks anything
            tokens.append(0)
            positions.append(np.zeros(1, np.int64))
            for part in places:
                part.append(np.full(1, -1))
            first, count, begin, position = tiles[-1]
            tiles.append((first + count, 1, begin, position))
        if len(rows) > 1 or len(tokens) > 1:
            size = _TILES if len(tiles) <= _TILES else -(-len(tiles) // TILE) * TILE
            tiles += [(0, 0, 0, 0)] * (size - len(tiles))
        if len(rows) == _FEWEST - 1:
            rows = [*rows, rows[-1]]
        feeds = {
            "embedded": embedded(self.embeddings, tokens),
            "positions": np.concatenate(positions, dtype=np.int64)[None],
            "rows": np.array(rows, np.int64),
        }
        if self._windows:  # a layer of attention at least
            feeds["tiles"] = np.array(tiles, np.int64)
        if works[0].given is not None:
            parts = [work.given for work in works if work.given is not None]
            feeds[GIVEN] = np.concatenate([*parts, np.zeros((extra, parts[0].shape[1]), np.float32)])[None]
        if bank is not None:
            counts = [(work.text.adapter, len(work.tokens)) for work in works]
            feeds[MASK] = bank.mask([*counts, ("", extra)])
        for n, (table, part) in enumerate(zip(tables, places, strict=True)):
            feeds[f"table{n}"], feeds[f"places{n}"] = table, np.concatenate(part, dtype=np.int64)
        return feeds

    def _copy_shared(self, works: Sequence[Work], before: Sequence[int]) -> None:
        """Gives texts that are about to write into a page of others one of their own, with what it holds."""
        for number, names in enumerate(self._states):
            for work, old in zip(works, before, strict=True):
                moved = work.text.lists[number].own_last(old)
                if moved is not None:
                    for name in names:
                        pool = self.model.state.view(name)
                        pool[moved[1]] = pool[moved[0]]


__all__ = ["MOST_TEXTS", "PagedDecoder", "PagedText", "Work"]
