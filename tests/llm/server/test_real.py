"""The server in front of SmolLM2, spoken to by the ``openai`` client: what it writes, what it shares, who leaves."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest

import MNN
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.server.app import Server
from MNN.llm.speculation import Lookup
from MNN.llm.speculation.together import each_its_own
from tests import zoo
from tests.llm.server.running import NAME, served
from tests.llm.server.test_clients import settle

pytestmark = pytest.mark.real
Running = tuple[openai.OpenAI, str, Server, MNN.llm.LanguageModel]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    llm = MNN.llm.load(zoo.path("smollm2_gguf"), max_length=2048)
    with (
        served(llm) as (url, server),
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=120) as client,
    ):
        yield client, url, server, llm


def ask(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def pages_held(running: Running) -> int:
    """Pages of texts that nobody works on, less those of finished ones that are kept."""
    _, _, server, llm = running
    assert isinstance(llm.decoder, PagedDecoder)
    assert server._jobs is not None
    texts: Any = server._jobs._scheduler._texts
    kept = {page for text in texts._kept for page in text.lists[0].pages}
    return llm.decoder.pools[0].used - len(kept)


def idle(running: Running) -> bool:
    server = running[2]
    return settle(lambda: server.metrics.value("mnn_running") == server.metrics.value("mnn_waiting") == 0, 60)


def test_answers(running: Running) -> None:
    client, _, _, llm = running
    question = ask("What is the capital of France?")
    alone = llm.answer(question, max_tokens=12)
    llm.reset()
    answer = client.chat.completions.create(model=NAME, messages=question, temperature=0, max_tokens=12)
    assert answer.choices[0].message.content == alone
    assert "Paris" in alone
    again = client.chat.completions.create(model=NAME, messages=question, temperature=0, max_tokens=12)
    assert again.choices[0].message.content == alone
    assert again.usage is not None
    assert again.usage.prompt_tokens_details is not None
    assert again.usage.prompt_tokens_details.cached_tokens == again.usage.prompt_tokens - 1
    assert idle(running)
    assert pages_held(running) == 0


def test_choices_with_seeds(running: Running) -> None:
    """They differ, and are the same again; streams of several choices come side by side."""
    client = running[0]
    options: dict[str, Any] = {
        "model": NAME, "messages": ask("Name an animal."), "n": 3, "seed": 5, "max_tokens": 10, "temperature": 1.2,
        "logprobs": True, "top_logprobs": 2,
    }  # fmt: skip
    first = client.chat.completions.create(**options)
    texts = [choice.message.content for choice in first.choices]
    assert len(set(texts)) > 1
    pieces: list[list[str]] = [[], [], []]
    order = []
    for chunk in client.chat.completions.create(**options, stream=True):
        for choice in chunk.choices:
            pieces[choice.index].append(choice.delta.content or "")
            order.append(choice.index)
    assert ["".join(piece) for piece in pieces] == texts
    assert order != sorted(order)
    for choice in first.choices:
        assert choice.logprobs is not None
        for one in choice.logprobs.content or []:
            assert one.logprob <= one.top_logprobs[0].logprob <= 0
            assert np.exp([top.logprob for top in one.top_logprobs]).sum() <= 1 + 1e-5


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_forced_calls(running: Running, choice: Any) -> None:
    client = running[0]
    place = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
    parameters = {
        **place,
        "properties": {"city": {"$ref": "#/$defs/city"}},
        "$defs": {"city": {"enum": ["Rome", "Oslo"]}},
    }
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
    options: dict[str, Any] = {"model": NAME, "messages": ask("Weather in Oslo?"), "tools": tools, "temperature": 0}
    answer = client.chat.completions.create(**options, tool_choice=choice, max_tokens=60)
    (call,) = answer.choices[0].message.tool_calls or []
    assert (answer.choices[0].finish_reason, call.function.name) == ("tool_calls", "weather")  # type: ignore[union-attr]
    assert json.loads(call.function.arguments)["city"] in ("Rome", "Oslo")  # type: ignore[union-attr]


def test_json(running: Running) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form: Any = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    answer = running[0].chat.completions.create(
        model=NAME, messages=ask("Invent a person."), response_format=form, seed=1, max_tokens=120
    )
    found = json.loads(answer.choices[0].message.content or "")
    assert set(found) == {"name", "age"}
    assert isinstance(found["age"], int)
    form["json_schema"]["schema"] = {"type": "no such type"}
    with pytest.raises(openai.BadRequestError, match="grammar cannot be used") as told:
        running[0].chat.completions.create(model=NAME, messages=ask("Hi"), response_format=form)
    assert told.value.param == "response_format"
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": {"type": "no such type"}}}]
    with pytest.raises(openai.BadRequestError, match="grammar cannot be used") as told:
        running[0].chat.completions.create(model=NAME, messages=ask("Hi"), tools=tools, tool_choice="required")
    assert told.value.param == "tools"


def test_drafts(running: Running) -> None:
    """Several that are written at the same time are what each is without; what was taken is counted."""
    llm = running[3]
    word = "The river rises in the hills north of the town and flows for about ninety kilometres."
    questions = [ask(f"Repeat the following text word for word:\n\n{word}"), ask("What is the capital of France?")]
    alone = [llm.answer(question, max_tokens=24) for question in questions]
    llm.reset()
    with (
        served(llm, draft=each_its_own(Lookup())) as (url, server),
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=120) as client,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        options: dict[str, Any] = {"model": NAME, "temperature": 0, "max_tokens": 24}
        found = pool.map(lambda asked: client.chat.completions.create(messages=asked, **options), questions)
        assert [answer.choices[0].message.content for answer in found] == alone
        told = httpx.get(f"{url}/metrics").text
        drafted, kept = (server.metrics.value(f"mnn_{kind}_tokens_total") for kind in ("drafted", "accepted"))
        assert 0 < kept <= drafted
        assert f"mnn_accepted_tokens_total {kept:g}\n" in told
        assert server._jobs is not None
        texts: Any = server._jobs._scheduler._texts
        for text in list(texts._kept):
            texts.drop(text)


def test_a_million_tokens(running: Running) -> None:
    """Is refused, and the next one is answered."""
    client = running[0]
    with pytest.raises(openai.BadRequestError, match="the model has room for 2048") as told:
        client.chat.completions.create(model=NAME, messages=ask("one two three " * 330_000))
    assert told.value.code == "context_length_exceeded"
    assert client.completions.create(model=NAME, prompt=[1, 2, 3], max_tokens=2).choices
    with pytest.raises(openai.BadRequestError, match="is no token") as told:
        client.completions.create(model=NAME, prompt=[1, 10**6], max_tokens=2)
    assert told.value.param == "prompt"
    expected = "logit_bias: 1000000 is no token; tokens are numbers from 0 to"
    with pytest.raises(openai.BadRequestError, match=expected) as told:
        client.completions.create(model=NAME, prompt=[1, 2], max_tokens=2, logit_bias={"1000000": 5})
    assert told.value.param == "logit_bias"
    template: Any = {"chat_template_kwargs": {"chat_template": "{{ ''.__class__ }}"}}
    with pytest.raises(openai.BadRequestError, match="reaches for the attribute") as told:
        client.chat.completions.create(model=NAME, messages=ask("Hi"), extra_body=template)
    assert told.value.param == "chat_template_kwargs"


def test_32_connections_of_which_some_leave(running: Running) -> None:
    """Each gets the answer that it would get alone; those who leave in mid-stream hold nothing."""
    _, url, server, llm = running

    async def all_of_them() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, timeout=200) as client:

            async def one(i: int) -> str:
                options: dict[str, Any] = {"model": NAME, "messages": ask(f"What is {i} plus {i}?"), "temperature": 0}
                stream = await client.chat.completions.create(
                    **options, max_tokens=200 if i % 4 == 1 else 8, stream=True
                )
                found = ""
                async for chunk in stream:
                    found += chunk.choices[0].delta.content or ""
                    if i % 4 == 1 and len(found) > 5:
                        await stream.close()
                        break
                return found

            return await asyncio.gather(*(one(i) for i in range(32)))

    cancelled = server.metrics.value("mnn_cancelled_total")
    found = asyncio.run(all_of_them())
    assert idle(running)
    assert server.metrics.value("mnn_cancelled_total") == cancelled + 8
    assert pages_held(running) == 0
    metrics = httpx.get(f"{url}/metrics").text
    assert f"mnn_cached_tokens {server.metrics.value('mnn_cached_tokens'):g}" in metrics
    assert server.metrics.value("mnn_cached_tokens") > 0
    equal = 0
    for i in (0, 2, 3, 8, 18, 31):
        equal += found[i] == llm.answer(ask(f"What is {i} plus {i}?"), max_tokens=8)
    llm.reset()
    assert equal >= 5  # words that are as probable as each other may change places
