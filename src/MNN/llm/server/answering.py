"""From a verified request to answers: prompts made, jobs asked for, their events put into OpenAI's form."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from MNN.errors import MNNError
from MNN.llm.generation import Generation
from MNN.llm.sampling import LogProbability
from MNN.llm.server import responses
from MNN.llm.server.errors import RequestError, naming, wrong
from MNN.llm.server.jobs import End, Inbox, Jobs, Piece
from MNN.llm.server.reading import THINK, AnswerReader, Part
from MNN.llm.server.requests import Asked, Chat, Completion
from MNN.llm.server.responses import Envelope, TokenLog, Usage


class Answering:
    """The answers to one request: ``n`` for each prompt. ``adapter``: the model's that writes them, or empty;
    ``seconds``: how long they may take."""

    def __init__(
        self, jobs: Jobs, asked: Chat | Completion, envelope: Envelope, adapter: str = "", seconds: float | None = None
    ) -> None:
        self._jobs, self._asked, self._envelope, self._seconds = jobs, asked, envelope, seconds
        self._adapter = adapter
        self._tokenizer = jobs.model.tokenizer
        self._thinking = False
        self._generations: list[Generation] = []

    async def prepare(self) -> None:
        """Makes the prompts and takes places in the queue. RequestError where that cannot be."""
        self._generations = await run_in_threadpool(self._make)
        self._inbox, count = Inbox(), self._asked.choices
        try:
            for first in range(0, len(self._generations), count):
                self._jobs.submit(self._inbox, first, self._generations[first : first + count])
        except RequestError:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._jobs.cancel(self._generations)

    def _make(self) -> list[Generation]:
        asked, options, model = self._asked, self._options(), self._jobs.model
        prompts = self._make_prompts()
        with naming("logit_bias"):
            model.checked(asked.sampling.get("logit_bias", ()), "logit_bias: ")
        source = "tools" if isinstance(asked, Chat) and asked.calls else "response_format"
        with contextlib.nullcontext() if asked.grammar is None else naming(source):
            return [
                model.generation(prompt, **_seeded(options, choice))
                for prompt in prompts
                for choice in range(asked.choices)
            ]

    def _make_prompts(self) -> list[list[int]]:
        asked, tokenizer = self._asked, self._tokenizer
        if isinstance(asked, Chat):
            with naming("chat_template_kwargs" if asked.template else "messages"):
                written = tokenizer.prompt(asked.messages, asked.tools or None, **asked.template)
            self._thinking = written.text.rstrip().endswith(THINK) and not asked.calls
            prompts = [written.tokens]
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
            with naming("prompt"):
                self._jobs.model.checked(prompt)
        return prompts

    def _options(self) -> dict[str, Any]:
        asked = self._asked
        found = {"max_tokens": asked.max_tokens, "stop": list(asked.stop), **asked.sampling}
        return found | {"logprobs": asked.logprobs, "schema": asked.grammar, "adapter": self._adapter}

    def _choice(self, index: int) -> _Choice:
        return _Choice(self._reader(), self._echo(index), TokenLog(self._tokenizer))

    def _reader(self) -> AnswerReader | None:
        asked = self._asked
        return AnswerReader(bool(asked.tools), self._thinking, asked.single) if isinstance(asked, Chat) else None

    async def whole(self, gone: Callable[[], Awaitable[bool]]) -> dict[str, Any]:
        """The answer in one piece. ``gone``: whether the client has left, which is asked now and then."""
        watch = asyncio.ensure_future(self.watch(gone))
        try:
            usage, choices = Usage(), [self._choice(i) for i in range(len(self._generations))]
            async for i, event in self._inbox.read(len(choices), self._seconds):
                choices[i].take(event)
                if isinstance(event, End):
                    usage.add(event, i % self._asked.choices > 0)
            return self._envelope.body([self._shown(i, choice) for i, choice in enumerate(choices)], False, usage.body)
        finally:
            watch.cancel()
            self.cancel()

    async def watch(self, gone: Callable[[], Awaitable[bool]]) -> None:
        """Cancels when the client has left."""
        while not await gone():
            await asyncio.sleep(0.2)
        self.cancel()

    async def parts(self) -> AsyncIterator[tuple[list[Part], list[LogProbability], End | None]]:
        """Of a single answer: what each of its events adds, with the tokens that this is of where they are told; the
        last comes with its end."""
        choice = self._choice(0)
        async for _, event in self._inbox.read(1, self._seconds):
            parts = choice.take(event)
            if isinstance(event, End):
                yield parts, [], event
            else:
                yield parts, list(event.probabilities), None

    def _echo(self, index: int) -> str:
        """The text of a prompt, where it is asked for."""
        if not isinstance(self._asked, Completion) or not self._asked.echo:
            return ""
        given = self._asked.prompts[index // self._asked.choices]
        return given if isinstance(given, str) else self._tokenizer.decode(given)

    def _shown(self, index: int, choice: _Choice) -> dict[str, Any]:
        told = None if self._asked.logprobs is None else self._told(choice, choice.found)
        what: dict[str, Any] = (
            {"message": responses.message(choice.parts)}
            if self._envelope.chat
            else {"text": "".join(part.text for part in choice.parts)}
        )
        return {"index": index, **what, "logprobs": told, "finish_reason": choice.reason}

    async def events(self) -> AsyncIterator[bytes]:
        """The answers as server-sent events, those of several choices as they come. A client that leaves ends them."""
        usage, choices = Usage(), [self._choice(i) for i in range(len(self._generations))]
        try:
            for i, choice in enumerate(choices):
                if self._envelope.chat:
                    yield self._chunk(i, {"role": "assistant", "content": ""})
                elif choice.parts:
                    yield self._chunk(i, {"content": choice.parts[0].text})
            async for i, event in self._inbox.read(len(choices), self._seconds):
                found = [] if isinstance(event, End) else list(event.probabilities)
                for part in choices[i].take(event):
                    yield self._chunk(i, responses.delta(part), None, self._told(choices[i], found))
                    found = []
                if found:
                    yield self._chunk(i, {"content": ""}, None, self._told(choices[i], found))
                if isinstance(event, End):
                    usage.add(event, i % self._asked.choices > 0)
                    yield self._chunk(i, {}, choices[i].reason)
            if self._asked.usage:
                yield responses.event(self._envelope.body([], True, usage.body))
            yield responses.DONE
        except MNNError as error:
            told = error if isinstance(error, RequestError) else RequestError(400, str(error))
            yield responses.event(told.body)
        finally:
            self.cancel()

    def _told(self, choice: _Choice, found: list[LogProbability]) -> dict[str, Any] | None:
        """What the model thought of some of an answer's tokens; None of none."""
        if not found and self._asked.stream:
            return None
        return responses.probabilities(found, self._tokenizer) if self._envelope.chat else choice.log.take(found)

    def _chunk(
        self, index: int, delta: dict[str, Any], reason: str | None = None, told: dict[str, Any] | None = None
    ) -> bytes:
        return responses.event(self._envelope.body([self._envelope.piece(index, delta, reason, told)], True))


class _Choice:
    """One of the answers, as far as it is known. ``echo``: what it begins with; ``log``: of a plain completion's
    tokens."""

    def __init__(self, reader: AnswerReader | None, echo: str, log: TokenLog) -> None:
        self._reader, self.log = reader, log
        self.parts = [Part("text", echo)] if echo else []
        self.found: list[LogProbability] = []
        self.reason = ""

    def take(self, event: Piece | End) -> list[Part]:
        """The parts that an event adds."""
        reader = self._reader
        if isinstance(event, End):
            parts = reader.finish() if reader else []
        else:
            self.found += event.probabilities
            parts = _parts(reader, event.text)
        self.parts += parts
        if isinstance(event, End):
            self.reason = responses.reason(event, any(part.call is not None for part in self.parts))
        return parts


def _parts(reader: AnswerReader | None, text: str) -> list[Part]:
    if reader is not None:
        return reader.push(text)
    return [Part("text", text)] if text else []


def _seeded(options: dict[str, Any], choice: int) -> dict[str, Any]:
    """Several answers to one prompt differ, with a seed too."""
    seed = options.get("seed")
    return options if seed is None else options | {"seed": seed + choice}


__all__ = ["Answering", "Asked"]
