"""Many answers at the same time by one decoder (continuous batching): whoever has a next token goes on in every step,
new prompts are read in between."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from MNN.errors import MNNError, RunError
from MNN.llm.engine.decoder import CHUNK, Decoder, Text, pieces
from MNN.llm.engine.texts import Step, texts_of
from MNN.llm.generation import Generation
from MNN.llm.speculation.draft import Draft, Drafter, Drafting
from MNN.llm.speculation.together import ROWS, drafting_for, propose_all

BETWEEN = 128
"""Tokens of a step where somebody waits for a next one: the end of a range of sizes (docs/new-sizes.md)."""


@dataclass(frozen=True)
class Progress:
    """A piece of the text of an answer. ``ended``: nothing follows; ``error``: why, where that was not to be."""

    generation: Generation
    piece: str = ""
    ended: bool = False
    error: Exception | None = None


@dataclass(eq=False)
class _Task:
    """Answers that have one text: several until their prompt is read, one from then on. ``draft``: what follows the
    known tokens in this step, perhaps."""

    generations: list[Generation]
    text: Text | None = None
    started: float = 0.0
    drafting: Drafting | None = None
    draft: Draft = field(default_factory=Draft)

    @property
    def length(self) -> int:
        """Tokens that are known."""
        return len(self.generations[0].prompt) + len(self.generations[0].tokens)

    @property
    def missing(self) -> int:
        """Known tokens that the caches do not have."""
        return self.length - (len(self.text.tokens) if self.text else 0)


@dataclass(eq=False)
class Scheduler:
    """Belongs to one thread; a :class:`~MNN.llm.generation.Generation` may be cancelled by others. ``parallel``: how
    many answers are written at the same time at most. ``draft``: makes for each answer what proposes its tokens, where
    few are written; all are those that would be written without.

    Answers begin in the order in which they came, where the caches have room for their prompts. Where the room ends
    later on, the one that began last waits, and is read again when there is room.
    """

    decoder: Decoder
    parallel: int = 32
    draft: Callable[[], Drafter] | None = None
    preempted: int = field(default=0, init=False)
    """How often an answer had to make room."""

    def __post_init__(self) -> None:
        self._texts = texts_of(self.decoder)
        self._most = max(min(self.parallel, self._texts.most), 1)
        self._waiting: deque[_Task] = deque()
        self._running: list[_Task] = []

    def add(self, generations: Sequence[Generation]) -> None:
        """Answers to one prompt, which is read once where texts can be forked."""
        if self._texts.most > 1:
            self._waiting.append(_Task(list(generations)))
        else:
            self._waiting += [_Task([one]) for one in generations]

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._waiting or self._running)

    @property
    def running(self) -> int:
        """Answers that are read or written now."""
        return sum(len(task.generations) for task in self._running)

    @property
    def cached(self) -> int:
        """Tokens of finished texts that others may begin with."""
        return self._texts.kept

    def started(self) -> Iterator[Generation]:
        """Those that are read or written now."""
        return (one for task in self._running for one in task.generations)

    def advance(self) -> list[Progress]:
        """One step of all that run; what it gave. Those that have ended, or were cancelled, are told too."""
        with self.decoder.turns:
            return self._advance()

    def _advance(self) -> list[Progress]:
        found = self._leave() + self._refuse()
        self._admit()
        try:
            steps = self._steps()
        except RunError as error:  # others may have room
            return found + self._fail(self._running[0], error)
        if not steps:
            return found
        if self.draft is not None:
            self._propose(steps)
        begin = time.perf_counter()
        try:
            logits = self._texts.step(
                [(t.text, [*tokens, *t.draft.tokens], len(t.draft.tokens) + 1) for t, tokens in steps if t.text]
            )
        except Exception as error:  # noqa: BLE001 - whoever was in the step is told
            return found + [told for task, _ in steps for told in self._fail(task, error)]
        spent = time.perf_counter() - begin
        for (task, _), rows in zip(steps, logits, strict=True):
            for one in task.generations:
                if one.tokens:
                    one.cost.writing += spent
            draft, task.draft = task.draft, Draft()
            if task.missing > 0:
                continue
            began = not task.generations[0].tokens
            for part in self._split(task):
                (one,) = part.generations
                if began:
                    one.cost.reading = time.perf_counter() - task.started
                kept = one.cost.kept
                try:
                    piece = "".join(one.take_drafted(rows, draft))
                except Exception as error:  # noqa: BLE001 - the others go on
                    found += self._fail(part, error)
                    continue
                if part.drafting is not None and part.text is not None and draft.tokens:
                    part.drafting.note(len(draft.tokens), one.cost.kept - kept)
                    self._texts.cut(part.text, min(part.length - 1, len(part.text.tokens)))
                found.append(Progress(one, piece))
        return found + self._leave()

    def close(self, error: Exception | None = None) -> list[Progress]:
        """Cancels all, or has all fail by an ``error``."""
        tasks = [*self._waiting, *self._running]
        if error is not None:
            return [told for task in tasks for told in self._fail(task, error)]
        for task in tasks:
            for one in task.generations:
                one.cancel()
        return self._leave()

    # -- beginning and ending ---------------------------------------------------------------------------------------

    def _leave(self) -> list[Progress]:
        """Takes out what has ended; its text is kept for others."""
        found: list[Progress] = []
        for tasks in (self._waiting, self._running):
            for task in [t for t in tasks if any(one.ended for one in t.generations)]:
                found += [Progress(one, one.finish(), True) for one in task.generations if one.ended]
                task.generations = [one for one in task.generations if not one.ended]
                if not task.generations:
                    tasks.remove(task)
                    if task.drafting is not None:
                        task.drafting.close()
                    if task.text is not None:
                        self._texts.keep(task.text)
        return found

    def _refuse(self) -> list[Progress]:
        """Takes out those whose adapter was removed: the others go on."""
        known, found = {"", *self.decoder.adapters}, []
        for task in [*self._waiting, *self._running]:
            name = task.generations[0].adapter
            if name not in known:
                found += self._fail(task, MNNError(f"the adapter {name!r:.60} was removed before the answer was done"))
        return found

    def _fail(self, task: _Task, error: Exception) -> list[Progress]:
        (self._running if task in self._running else self._waiting).remove(task)
        if task.drafting is not None:
            task.drafting.close()
        if task.text is not None:
            self._texts.drop(task.text)
        return [Progress(one, "", True, error) for one in task.generations]

    def _admit(self) -> None:
        """Begins those that have waited longest, as long as there is room."""
        while self._waiting:
            task = self._waiting[0]
            if self._running and self.running + len(task.generations) > self._most:
                return
            prompt = task.generations[0].behind(0)
            others = [other.text for other in self._running if other.text]
            task.text = self._texts.begin(prompt, others, task.generations[0].adapter)
            reused = len(task.text.tokens)
            steps: list[Step] = [(task.text, prompt[reused:])]
            steps += [(t.text, t.generations[0].behind(len(t.text.tokens))) for t in self._running if t.text]
            spare = self.running + len(task.generations)  # a page more for each to write into
            if self._running and not self._texts.fits(steps, spare):
                self._texts.drop(task.text)
                task.text = None
                return
            for one in task.generations:
                if not one.tokens:
                    one.cost.reused = reused
            task.started = time.perf_counter()
            self._running.append(self._waiting.popleft())

    def _split(self, task: _Task) -> list[_Task]:
        """Each answer to a prompt that is read gets a text of its own."""
        if len(task.generations) == 1 or task.text is None:
            return [task]
        parts = [_Task([one], self._texts.fork(task.text), task.started) for one in task.generations[1:]]
        del task.generations[1:]
        self._running += parts
        return [task, *parts]

    # -- steps ------------------------------------------------------------------------------------------------------

    def _steps(self) -> list[tuple[_Task, list[int]]]:
        """What each goes on by: those that write by a token, those that read by what the step has room for. RunError
        where the only one that is left has no room."""
        while True:
            steps = self._planned()
            if self._texts.fits([(task.text, tokens) for task, tokens in steps if task.text is not None]):
                return steps
            if len(self._running) == 1:
                raise RunError("the cache has no room for one text")
            self._preempt(self._running[-1])

    def _propose(self, steps: Sequence[tuple[_Task, list[int]]]) -> None:
        """Gives those that write a draft, as far as a step and the caches have room."""
        assert self.draft is not None
        writing = [task for task, _ in steps if task.missing == 1 and task.generations[0].tokens]
        most = (ROWS - len(writing)) // len(writing) if writing else 0
        if most < 1:
            return
        begin = time.perf_counter()
        asked = []
        for task in writing:
            (one,) = task.generations
            assert task.text is not None
            if task.drafting is None:
                task.drafting = drafting_for(self.draft, one.options)
            room = min(most, one.most - len(one.tokens) - 1, self.decoder.at_once(task.text) - 1)
            asked.append((task.drafting, one.behind(0), room, task.text))
        drafts = propose_all(asked, self.decoder.words)
        longer = [(task.text, tokens) for task, tokens in steps if task not in writing and task.text]
        longer += [(t.text, [0] * (1 + len(d.tokens))) for t, d in zip(writing, drafts, strict=True) if t.text]
        if not self._texts.fits(longer):
            return
        spent = time.perf_counter() - begin
        for task, draft in zip(writing, drafts, strict=True):
            task.draft, cost = draft, task.generations[0].cost
            cost.drafted += len(draft.tokens)
            cost.drafting += spent

    def _planned(self) -> list[tuple[_Task, list[int]]]:
        writing = [task for task in self._running if task.missing == 1]
        left = (BETWEEN if writing else CHUNK) - len(writing)
        found = []
        for task in self._running:
            assert task.text is not None
            count = task.missing
            if count > 1:
                if self._texts.chunked and count > left:
                    count = next(pieces(count, left)).stop if left > 0 else 0
                left -= count
            if count > 0:
                found.append((task, task.generations[0].behind(len(task.text.tokens), count)))
        return found

    def _preempt(self, task: _Task) -> None:
        assert task.text is not None
        self._texts.drop(task.text)
        task.text = None
        self._running.remove(task)
        self._waiting.appendleft(task)
        self.preempted += 1


__all__ = ["BETWEEN", "Progress", "Scheduler"]
