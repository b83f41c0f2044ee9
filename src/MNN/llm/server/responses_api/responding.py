"""A response from a verified request: asked for as a chat, told as items."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from MNN.errors import MNNError
from MNN.llm.server import responses
from MNN.llm.server.answering import Answering
from MNN.llm.server.errors import RequestError
from MNN.llm.server.jobs import Jobs
from MNN.llm.server.responses import Envelope
from MNN.llm.server.responses_api.items import Event, ResponseWriter, encoded
from MNN.llm.server.responses_api.kept import KeptResponses
from MNN.llm.server.responses_api.requests import ResponseAsked, in_own_words


class Responding:
    """One response. ``kept``: where it is put when it has ended, if that is asked for; ``adapter`` and ``seconds``: as
    :class:`~MNN.llm.server.answering.Answering` has them."""

    def __init__(
        self, jobs: Jobs, asked: ResponseAsked, kept: KeptResponses, adapter: str = "", seconds: float | None = None
    ) -> None:
        self._asked, self._kept, self._tokenizer = asked, kept, jobs.model.tokenizer
        envelope = Envelope("chat.completion", asked.chat.model)
        self._answering = Answering(jobs, asked.chat, envelope, adapter, seconds)
        self._writer = ResponseWriter(asked)

    async def prepare(self) -> None:
        """See :meth:`Answering.prepare`."""
        with in_own_words():
            await self._answering.prepare()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._answering.cancel()

    async def whole(self, gone: Callable[[], Awaitable[bool]]) -> dict[str, Any]:
        """The response in one piece. ``gone``: whether the client has left, which is asked now and then."""
        watch = asyncio.ensure_future(self._answering.watch(gone))
        try:
            async for _ in self._events():
                pass
            return self._writer.body
        finally:
            watch.cancel()
            self.cancel()

    async def events(self) -> AsyncIterator[bytes]:
        """The response as server-sent events. A client that leaves ends it."""
        try:
            async for event in self._events():
                yield encoded(event)
        except MNNError as error:
            code = error.code if isinstance(error, RequestError) and error.code else "server_error"
            for event in self._writer.fail(str(error), code):
                yield encoded(event)
        finally:
            self.cancel()

    async def _events(self) -> AsyncIterator[Event]:
        writer = self._writer
        for event in writer.begin():
            yield event
        async for parts, found, end in self._answering.parts():
            told = responses.probabilities(found, self._tokenizer)["content"] if found else []
            for event in writer.take(parts, told):
                yield event
            if end is not None:
                thought = len(self._tokenizer.encode(writer.thoughts, add_special_tokens=False))
                last = list(writer.end(end, thought))
                if self._asked.store:  # before the client is told: it may go on at once
                    self._kept.keep(writer.body, [*self._asked.conversation, writer.message])
                for event in last:
                    yield event


__all__ = ["Responding"]
