"""Clients that leave, that are many, and that wait too long."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import openai
import pytest
from starlette.requests import ClientDisconnect

from MNN.llm.server.app import Server, Settings
from tests.llm.server.running import NAME, Scripted, served
from tests.llm.server.test_server import ASK, script, tokenizer

pytestmark = pytest.mark.real


def settle(condition: Any, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def test_clients_that_leave() -> None:
    """In mid-stream, before their turn, and while they wait for a whole answer: nothing more is written for them."""
    model = Scripted(tokenizer(), script, pause=0.01)
    long: list[Any] = [{"role": "user", "content": "count"}]
    with served(model) as (url, server), openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = client.chat.completions.create(model=NAME, messages=long, stream=True)
        for i, _ in enumerate(stream):
            if i == 5:
                stream.close()
                break
        assert settle(lambda: server.metrics.value("mnn_cancelled_total") == 1)
        assert model.written < 200
        body = {"model": NAME, "messages": long}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/v1/chat/completions", json=body, timeout=0.5)
        assert settle(lambda: server.metrics.value("mnn_cancelled_total") == 2)
        before = model.written
        assert client.chat.completions.create(model=NAME, messages=ASK).choices[0].finish_reason == "stop"
        assert model.written - before < 200
        assert (server.metrics.value("mnn_running"), server.metrics.value("mnn_waiting")) == (0, 0)


@pytest.mark.parametrize(
    ("path", "field"), [("chat/completions", "messages"), ("responses", "input")], ids=("chat", "responses")
)
def test_a_client_that_leaves_before_its_stream(path: str, field: str) -> None:
    """As servers of ASGI 2.4 tell of it: nothing can be sent."""
    model = Scripted(tokenizer(), script, pause=0.005)
    server = Server(model, Settings(NAME))
    body = json.dumps({"model": NAME, "stream": True, field: [{"role": "user", "content": "count"}]}).encode()
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "POST",
        "path": f"/v1/{path}", "raw_path": b"", "query_string": b"", "root_path": "", "scheme": "http",
        "headers": [(b"content-type", b"application/json")], "client": ("a", 1), "server": ("b", 2),
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        raise OSError("the client has left")

    async def asked() -> int:
        with pytest.raises(ClientDisconnect):
            await server.application()(scope, receive, send)
        await asyncio.sleep(0.5)  # a loop that has ended would be noticed, too
        return model.written

    assert asyncio.run(asked()) < 20
    assert server.metrics.value("mnn_cancelled_total") == 1
    assert server._jobs is not None
    server._jobs.close()


def test_many_clients() -> None:
    """32 connections at once: each gets its own answer, many in a step, and no page is lost."""
    model = Scripted(tokenizer(), lambda prompt, options: f"answer to {prompt.split('user')[1].split('<')[0].strip()}.")

    async def all_of_them(url: str) -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0, timeout=60) as client:

            async def one(i: int) -> str:
                messages: list[Any] = [{"role": "user", "content": f"number {i}"}]
                if i % 2:
                    answer = await client.chat.completions.create(model=NAME, messages=messages)
                    return answer.choices[0].message.content or ""
                stream = await client.chat.completions.create(model=NAME, messages=messages, stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            found = await asyncio.gather(*(one(i) for i in range(32)))
            await one(32)  # all of those may have begun in one step, where there was nothing to begin from
            return found

    with served(model) as (url, server):
        model.scripted.pause = 0.02
        assert asyncio.run(all_of_them(url)) == [f"answer to number {i}." for i in range(32)]
        assert max(len(step) for step in model.scripted.steps) > 8
        assert server.metrics.value("mnn_generated_tokens_total") == model.written
        assert server.metrics.value("mnn_reused_tokens_total") > 0  # the beginning of the template


@pytest.mark.parametrize("stream", [False, True])
def test_time_limit(stream: bool) -> None:
    """An answer that takes too long is an error, and is written no further."""
    slow = Scripted(tokenizer(), script, pause=0.05)
    with served(slow, seconds=0.5) as (url, server):
        body = {"model": NAME, "messages": [{"role": "user", "content": "count"}], "stream": stream}
        response = httpx.post(f"{url}/v1/chat/completions", json=body)
        assert response.status_code == (200 if stream else 504)
        assert '"code":"timeout"' in response.text.replace(": ", ":")
        assert settle(lambda: server.metrics.value("mnn_cancelled_total") == 1)


def test_too_many_clients() -> None:
    """Beyond those that may wait, 429. A client that waits no more makes room for another one at once."""
    slow = Scripted(tokenizer(), script, pause=0.05)
    with served(slow, waiting=1, parallel=1) as (url, server):
        body = {"model": NAME, "messages": [{"role": "user", "content": "count"}], "stream": True}
        path = f"{url}/v1/chat/completions"
        with httpx.stream("POST", path, json=body):
            assert settle(lambda: server.metrics.value("mnn_running") == 1)
            for _ in range(2):
                with httpx.stream("POST", path, json=body):
                    assert server.metrics.value("mnn_waiting") == 1
                    response = httpx.post(path, json=body)
                    assert (response.status_code, response.json()["error"]["code"]) == (429, "queue_full")
                    assert response.headers["retry-after"] == "1"
                assert settle(lambda: server.metrics.value("mnn_waiting") == 0)
                assert server.metrics.value("mnn_running") == 1
