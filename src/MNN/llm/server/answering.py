"""From a verified request to answers: prompts made, jobs asked for, their events put into OpenAI's form."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from MNN.errors import MNNError
from MNN.llm.sampling import LogProbability
from MNN.llm.server import responses
from MNN.llm.server.errors import RequestError, wrong
from MNN.llm.server.jobs import End, Job, Jobs, Piece
from MNN.llm.server.reading import THINK, AnswerReader, Part
from MNN.llm.server.requests import Asked, Chat, Completion
from MNN.llm.server.responses import Envelope, Usage


class Answering:
    """The answers to one request: ``n`` for each prompt."""

    def __init__(self, jobs: Jobs, asked: Chat | Completion, envelope: Envelope) -> None:
        self._jobs, self._asked, self._envelope = jobs, asked, envelope
        self._tokenizer = jobs.model.tokenizer
        self._thinking = False
        self._prompts: list[list[int]] = []
        self._open: list[Job] = []

    async def prepare(self) -> None:
        """Makes the prompts and takes places in the queue. RequestError where that cannot be."""
        self._prompts = await run_in_threadpool(self._make_prompts)
        options = self._options()
        try:
            for prompt in self._prompts:
                for choice in range(self._asked.choices):
                    self._open.append(self._jobs.submit(prompt, _seeded(options, choice)))
        except RequestError:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Nobody waits any more."""
        for job in self._open:
            job.cancel()

    def _make_prompts(self) -> list[list[int]]:
        asked, tokenizer = self._asked, self._tokenizer
        if isinstance(asked, Chat):
            text = tokenizer.apply_chat_template(asked.messages, tools=asked.tools or None, **asked.template)
            self._thinking = text.rstrip().endswith(THINK)
            prompts = [tokenizer.encode(text, add_special_tokens=False)]
        else:
            prompts = [tokenizer.encode(p) if isinstance(p, str) else p for p in asked.prompts]
        longest = self._jobs.model.max_length
        for prompt in prompts:
            if not prompt:
                raise wrong("messages" if isinstance(asked, Chat) else "prompt", "there is nothing to continue")
            if len(prompt) >= longest:
                raise RequestError(
                    400,
                    f"the prompt has {len(prompt)} tokens; the model has room for {longest}, answer included",
                    "messages" if isinstance(asked, Chat) else "prompt",
                    "context_length_exceeded",
                )
        return prompts

    def _options(self) -> dict[str, Any]:
        asked = self._asked
        found = {"max_tokens": asked.max_tokens, "stop": list(asked.stop), **asked.sampling}
        return found | {"logprobs": asked.logprobs, "schema": asked.grammar}

    def _reader(self) -> AnswerReader | None:
        asked = self._asked
        return AnswerReader(bool(asked.tools), self._thinking) if isinstance(asked, Chat) else None

    async def whole(self, gone: Callable[[], Awaitable[bool]]) -> dict[str, Any]:
        """The answer in one piece. ``gone``: whether the client has left, which is asked now and then."""
        watch = asyncio.ensure_future(self._watch(gone))
        try:
            usage, choices = Usage(), []
            for i, job in enumerate(self._open):
                parts: list[Part] = []
                found: list[LogProbability] = []
                reader = self._reader()
                if isinstance(self._asked, Completion) and self._asked.echo:
                    parts.append(Part("text", self._shown(i)))
                async for event in job:
                    if isinstance(event, Piece):
                        parts += _parts(reader, event.text)
                        found += event.probabilities
                    else:
                        end = event
                parts += reader.finish() if reader else []
                usage.add(end, i % self._asked.choices > 0)
                choices.append(self._choice(i, parts, end, found))
            return self._envelope.body(choices, False, usage.body)
        finally:
            watch.cancel()
            self.cancel()

    async def _watch(self, gone: Callable[[], Awaitable[bool]]) -> None:
        while not await gone():
            await asyncio.sleep(0.2)
        self.cancel()

    def _shown(self, index: int) -> str:
        """The text of a prompt, which ``echo`` asks for."""
        assert isinstance(self._asked, Completion)
        place = index // self._asked.choices
        given = self._asked.prompts[place]
        return given if isinstance(given, str) else self._tokenizer.decode(given)

    def _choice(self, index: int, parts: list[Part], end: End, found: list[Any]) -> dict[str, Any]:
        called = any(part.call is not None for part in parts)
        told = None if self._asked.logprobs is None else responses.probabilities(found, self._tokenizer)
        what: dict[str, Any] = (
            {"message": responses.message(parts)}
            if self._envelope.chat
            else {"text": "".join(part.text for part in parts)}
        )
        return {"index": index, **what, "logprobs": told, "finish_reason": responses.reason(end, called)}

    async def events(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events. A client that leaves ends it."""
        usage = Usage()
        try:
            for i, job in enumerate(self._open):
                async for body in self._chunks(i, job, usage):
                    yield responses.event(body)
            if self._asked.usage:
                yield responses.event(self._envelope.body([], True, usage.body))
            yield responses.DONE
        except MNNError as error:
            told = error if isinstance(error, RequestError) else RequestError(400, str(error))
            yield responses.event(told.body)
        finally:
            self.cancel()

    async def _chunks(self, index: int, job: Job, usage: Usage) -> AsyncIterator[dict[str, Any]]:
        reader, called, envelope = self._reader(), False, self._envelope

        def chunk(delta: dict[str, Any], reason: str | None = None, found: Any = ()) -> dict[str, Any]:
            told = responses.probabilities(list(found), self._tokenizer) if found else None
            return envelope.body([envelope.piece(index, delta, reason, told)], True)

        if envelope.chat:
            yield chunk({"role": "assistant", "content": ""})
        elif isinstance(self._asked, Completion) and self._asked.echo:
            yield chunk({"content": self._shown(index)})
        async with contextlib.aclosing(aiter(job)) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, End):
                    for part in reader.finish() if reader else []:
                        called = called or part.call is not None
                        yield chunk(responses.delta(part))
                    usage.add(event, index % self._asked.choices > 0)
                    yield chunk({}, responses.reason(event, called))
                    continue
                found = event.probabilities
                for part in _parts(reader, event.text):
                    called = called or part.call is not None
                    yield chunk(responses.delta(part), None, found)
                    found = ()
                if found:
                    yield chunk({"content": ""}, None, found)


def _parts(reader: AnswerReader | None, text: str) -> list[Part]:
    if reader is not None:
        return reader.push(text)
    return [Part("text", text)] if text else []


def _seeded(options: dict[str, Any], choice: int) -> dict[str, Any]:
    """Several answers to one prompt differ, with a seed too."""
    seed = options.get("seed")
    return options if seed is None else options | {"seed": seed + choice}


__all__ = ["Answering", "Asked"]
