"""Answers in the order in which they are asked for: a queue in front of one model, and one thread that computes."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from MNN.errors import MNNError
from MNN.llm.sampling import LogProbability
from MNN.llm.server.errors import RequestError
from MNN.llm.server.metrics import Metrics
from MNN.llm.text import Tokenizer

_LOG = logging.getLogger(__name__)  # those who run the server see what its users are not told


class Writing(Protocol):
    """An answer as the engine gives it."""

    ended: str
    tokens: list[int]
    cost: Any
    probabilities: list[LogProbability]

    def __iter__(self) -> Iterator[str]: ...

    def cancel(self) -> None: ...


class Model(Protocol):
    """A language model as this room needs it: :class:`MNN.llm.LanguageModel` is one."""

    tokenizer: Tokenizer

    @property
    def max_length(self) -> int: ...

    def stream(self, messages: Any, **options: Any) -> Any: ...


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


@dataclass(eq=False)
class Job:
    """One answer. ``options``: arguments of the model's ``stream``."""

    tokens: list[int]
    options: dict[str, Any]
    loop: asyncio.AbstractEventLoop
    events: asyncio.Queue[Piece | End | Exception] = field(default_factory=asyncio.Queue)
    cancelled: threading.Event = field(default_factory=threading.Event)
    asked: float = field(default_factory=time.perf_counter)
    answer: Writing | None = None

    def cancel(self) -> None:
        """Ends the answer at its next token, or before it begins."""
        self.cancelled.set()
        if self.answer is not None:
            self.answer.cancel()

    def tell(self, event: Piece | End | Exception) -> None:
        """Hands an event to the loop that waits for it, which may have gone."""
        try:
            self.loop.call_soon_threadsafe(self.events.put_nowait, event)
        except RuntimeError:
            self.cancel()

    async def __aiter__(self) -> AsyncIterator[Piece | End]:
        """What happens, up to the end; errors are raised. Leaving early ends the answer."""
        try:
            while True:
                event = await self.events.get()
                if isinstance(event, Exception):
                    raise event
                yield event
                if isinstance(event, End):
                    return
        finally:
            self.cancel()


class Jobs:
    """The queue of a model. ``waiting``: how many answers may wait."""

    def __init__(self, model: Model, metrics: Metrics, waiting: int = 64) -> None:
        self.model, self.metrics = model, metrics
        self._queue: queue.Queue[Job | None] = queue.Queue()
        self._slots = threading.Semaphore(waiting)
        self._limit = waiting
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="mnn-serve", daemon=True)
        self._thread.start()

    def submit(self, tokens: list[int], options: dict[str, Any]) -> Job:
        """Asks for an answer. RequestError where too many wait."""
        if self._closed:
            raise RequestError(503, "the server is shutting down")
        if not self._slots.acquire(blocking=False):
            raise RequestError(429, f"{self._limit} answers are waiting; try again later", code="queue_full")
        job = Job(tokens, options, asyncio.get_running_loop())
        self.metrics.add("mnn_waiting")
        self._queue.put(job)
        return job

    def close(self) -> None:
        """Ends the thread after the answer that it writes; those that wait are refused."""
        self._closed = True
        self._queue.put(None)
        self._thread.join(timeout=30)

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            self._slots.release()
            self.metrics.add("mnn_waiting", -1)
            if self._closed:
                job.tell(RequestError(503, "the server is shutting down"))
                continue
            if job.cancelled.is_set():
                self.metrics.add("mnn_cancelled_total")
                continue
            self.metrics.add("mnn_running")
            try:
                self._write(job)
            except Exception as error:  # noqa: BLE001 - the next answer must be written whatever happened to this one
                if not isinstance(error, MNNError):
                    _LOG.exception("an answer could not be written")
                job.tell(error if isinstance(error, MNNError) else _internal(error))
            finally:
                self.metrics.add("mnn_running", -1)

    def _write(self, job: Job) -> None:
        answer: Writing = self.model.stream(job.tokens, **job.options)
        job.answer = answer
        if job.cancelled.is_set():
            answer.cancel()
        told, first = 0, True
        for text in answer:
            if first:
                self.metrics.observe("mnn_first_token_seconds", time.perf_counter() - job.asked)
                first = False
            found = tuple(answer.probabilities[told:])
            told += len(found)
            job.tell(Piece(text, found))
            if self._closed:
                answer.cancel()
        cost = answer.cost
        if answer.ended == "cancelled":
            self.metrics.add("mnn_cancelled_total")
        for name, amount in (
            ("mnn_prompt_tokens_total", cost.prompt),
            ("mnn_reused_tokens_total", cost.reused),
            ("mnn_generated_tokens_total", cost.written),
            ("mnn_prompt_seconds_total", cost.reading),
            ("mnn_generate_seconds_total", cost.writing + cost.choosing),
        ):
            self.metrics.add(name, amount)
        rest = tuple(answer.probabilities[told:])
        if rest:
            job.tell(Piece("", rest))
        job.tell(End(answer.ended, cost.prompt, cost.reused, cost.written))


def _internal(error: Exception) -> RequestError:
    return RequestError(500, f"the answer could not be written: {type(error).__name__}")
