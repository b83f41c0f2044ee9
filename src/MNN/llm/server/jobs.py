"""The answers that clients wait for, and one thread that has a scheduler write them together."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from MNN.errors import MNNError
from MNN.llm.engine.decoder import Decoder
from MNN.llm.engine.scheduler import Progress, Scheduler
from MNN.llm.generation import Generation
from MNN.llm.sampling import LogProbability
from MNN.llm.server.errors import RequestError
from MNN.llm.server.metrics import Metrics
from MNN.llm.speculation import Drafter
from MNN.llm.text import Tokenizer

_LOG = logging.getLogger(__name__)  # those who run the server see what its users are not told


class Model(Protocol):
    """A language model as this room needs it: :class:`MNN.llm.LanguageModel` is one."""

    decoder: Decoder
    tokenizer: Tokenizer

    @property
    def max_length(self) -> int: ...

    @property
    def adapters(self) -> Sequence[str]: ...

    def checked(self, tokens: Iterable[Any], where: str = "") -> list[int]: ...

    def generation(self, tokens: Sequence[int], **options: Any) -> Generation: ...


@dataclass(frozen=True)
class Piece:
    """Text, and the tokens that it is of where their probabilities are asked for."""

    text: str
    probabilities: tuple[LogProbability, ...] = ()


@dataclass(frozen=True)
class End:
    """``reason``: ``stop``, ``length`` or ``cancelled``. Tokens of the prompt, reused ones, and those of the answer."""

    reason: str
    prompt: int
    reused: int
    written: int


Event = Piece | End | Exception


class Inbox:
    """Where a client waits for the events of all its answers, each with the answer's number."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()

    def put(self, index: int, event: Event) -> bool:
        """From any thread; false where nobody can wait any more."""
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, (index, event))
        except RuntimeError:  # the loop has gone
            return False
        return True

    async def read(self, count: int, seconds: float | None = None) -> AsyncIterator[tuple[int, Piece | End]]:
        """What happens until ``count`` answers have ended; errors are raised, one where that takes more ``seconds``."""
        until = None if seconds is None else time.monotonic() + seconds
        while count:
            left = None if until is None else max(until - time.monotonic(), 0)
            try:
                index, event = await asyncio.wait_for(self._events.get(), left)
            except asyncio.TimeoutError:
                message = f"the answer took more than {seconds:g} seconds, which is the limit of this server"
                raise RequestError(504, message, code="timeout") from None
            if isinstance(event, Exception):
                raise event
            count -= isinstance(event, End)
            yield index, event


@dataclass(eq=False)
class Job:
    """One answer. ``index``: its number among those of a client."""

    generation: Generation
    index: int
    inbox: Inbox
    asked: float = field(default_factory=time.perf_counter)
    waits: bool = True
    told: int = 0
    """Probabilities that the client has."""

    def tell(self, event: Event) -> None:
        if not self.inbox.put(self.index, event):
            self.generation.cancel()


class Jobs:
    """The answers of a model. ``waiting``: how many may wait. ``parallel``: how many are written at the same time.
    ``draft``: makes for each what proposes its tokens."""

    def __init__(
        self, model: Model, metrics: Metrics, waiting: int = 64, parallel: int = 32,
        draft: Callable[[], Drafter] | None = None,
    ) -> None:  # fmt: skip
        self.model, self.metrics = model, metrics
        self._scheduler = Scheduler(model.decoder, parallel, draft)
        self._jobs: dict[Generation, Job] = {}
        self._arrived: list[list[Generation]] = []
        self._limit, self._waiting, self._closed = waiting, 0, False
        self._changed = threading.Condition()
        """Guards all of these but the scheduler, which belongs to the thread."""
        self._thread = threading.Thread(target=self._work, name="mnn-serve", daemon=True)
        self._thread.start()

    def submit(self, inbox: Inbox, first: int, generations: Sequence[Generation]) -> None:
        """Asks for answers to one prompt, numbered from ``first`` on. RequestError where too many wait."""
        with self._changed:
            if self._closed:
                raise _closing()
            if self._waiting and self._waiting + len(generations) > self._limit:
                raise RequestError(429, f"{self._waiting} answers are waiting; try again later", code="queue_full")
            for index, generation in enumerate(generations, first):
                self._jobs[generation] = Job(generation, index, inbox)
            self._arrived.append(list(generations))
            self._wait(len(generations))
            self._changed.notify()

    def cancel(self, generations: Sequence[Generation]) -> None:
        """Nobody waits for these any more: they end before their next token, and keep no one else waiting."""
        with self._changed:
            for generation in generations:
                generation.cancel()
                self._begun(self._jobs.get(generation))
            self._changed.notify()

    def close(self) -> None:
        """Ends the thread; answers that are not finished are cut off or refused."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout=30)

    def _wait(self, count: int) -> None:
        self._waiting += count
        self.metrics.add("mnn_waiting", count)

    def _begun(self, job: Job | None) -> None:
        if job is not None and job.waits:
            job.waits = False
            self._wait(-1)

    # -- the thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._take_in():
            try:
                progress = self._scheduler.advance()
            except Exception as error:  # noqa: BLE001 - the next answers must be written whatever happened to these
                progress = self._scheduler.close(error)
            with self._changed:
                for generation in self._scheduler.started():
                    self._begun(self._jobs.get(generation))
            self._show()  # before anyone is told: who has an answer and asks for the metrics finds it counted
            for one in progress:
                self._tell(one)
        for one in self._scheduler.close(_closing()):
            self._tell(one)
        for job in list(self._jobs.values()):  # those that the scheduler was not handed yet
            job.tell(_closing())
            self._forget(job)
        self._show()

    def _take_in(self) -> bool:
        """Waits for something to do and hands it to the scheduler; false at the end."""
        with self._changed:
            while not (self._arrived or self._scheduler.busy or self._closed):
                self._changed.wait()
            for generations in self._arrived if not self._closed else ():
                self._scheduler.add(generations)
            self._arrived.clear()
            return not self._closed

    def _tell(self, progress: Progress) -> None:
        generation, error = progress.generation, progress.error
        job = self._jobs[generation]
        if error is not None:
            if not isinstance(error, MNNError):
                _LOG.error("an answer could not be written", exc_info=error)
            job.tell(error if isinstance(error, MNNError) else _internal(error))
            self._forget(job)
            return
        if progress.piece and len(generation.text) == len(progress.piece):
            self.metrics.observe("mnn_first_token_seconds", time.perf_counter() - job.asked)
        found = tuple(generation.probabilities[job.told :])
        job.told += len(found)
        if progress.piece or found:
            job.tell(Piece(progress.piece, found))
        if progress.ended:
            self._count(generation)
            cost = generation.cost
            job.tell(End(generation.ended, cost.prompt, cost.reused, cost.written))
            self._forget(job)

    def _forget(self, job: Job) -> None:
        with self._changed:
            self._begun(job)
            del self._jobs[job.generation]

    def _count(self, generation: Generation) -> None:
        cost = generation.cost
        if generation.ended == "cancelled":
            self.metrics.add("mnn_cancelled_total")
        for name, amount in (
            ("mnn_prompt_tokens_total", cost.prompt),
            ("mnn_reused_tokens_total", cost.reused),
            ("mnn_generated_tokens_total", cost.written),
            ("mnn_drafted_tokens_total", cost.drafted),
            ("mnn_accepted_tokens_total", cost.kept),
            ("mnn_prompt_seconds_total", cost.reading),
            ("mnn_generate_seconds_total", cost.writing + cost.choosing + cost.drafting),
        ):
            self.metrics.add(name, amount)

    def _show(self) -> None:
        scheduler = self._scheduler
        self.metrics.set("mnn_running", scheduler.running)
        self.metrics.set("mnn_cached_tokens", scheduler.cached)
        self.metrics.set("mnn_preempted_total", scheduler.preempted)


def _closing() -> RequestError:
    return RequestError(503, "the server is shutting down")


def _internal(error: Exception) -> RequestError:
    return RequestError(500, f"the answer could not be written: {type(error).__name__}")
