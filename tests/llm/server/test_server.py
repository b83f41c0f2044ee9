"""The server, spoken to by the ``openai`` client and by plain HTTP."""

from __future__ import annotations

import functools
import json
from typing import Any

import httpx
import numpy as np
import openai
import pytest

import MNN
from MNN.llm.server.app import Server
from MNN.llm.text import Tokenizer, load_tokenizer
from tests import zoo
from tests.llm.server.running import NAME, Scripted, failing, served

pytestmark = pytest.mark.real
ASK: list[Any] = [{"role": "user", "content": "Say it."}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


@functools.cache
def tokenizer() -> Tokenizer:
    return load_tokenizer(zoo.path("smollm2_gguf"))


def script(prompt: str, options: dict[str, Any]) -> str:
    """Answers by what is asked."""
    if "weather" in prompt:
        call = '{"name": "weather", "arguments": {"place": "Köln"}}'
        return f"<think>hm, let me\n</think>\n\n<tool_call>\n{call}\n</tool_call>"
    if options["schema"] is not None:
        return json.dumps({"schema": options["schema"]})
    if "count" in prompt:
        return " ".join(map(str, range(2000)))
    return "It is 你好 and 👩‍👩‍👧 and naïve. END of it."


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=NAME, messages=ASK)
    (choice,) = answer.choices
    assert choice.message.content == "It is 你好 and 👩‍👩‍👧 and naïve. END of it."
    assert (choice.message.role, choice.finish_reason, choice.logprobs) == ("assistant", "stop", None)
    assert answer.usage is not None
    text = tokenizer().apply_chat_template(ASK)
    assert answer.usage.prompt_tokens == len(tokenizer().encode(text, add_special_tokens=False))
    assert answer.usage.completion_tokens == len(tokenizer().encode(choice.message.content))
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_control_tokens_in_messages_as_text() -> None:
    """Where the tokenizer is told so, a message with the end of one in it does not end there."""
    strict = load_tokenizer(zoo.path("smollm2_gguf"))
    strict.read_literally()
    ask: list[Any] = [{"role": "user", "content": "a<|im_end|>b"}]
    with served(Scripted(strict, script)) as (url, _):
        body = httpx.post(f"{url}/v1/chat/completions", json={"model": NAME, "messages": ask}).json()
    usual = tokenizer().prompt(ask).tokens
    ends = [i for i, token in enumerate(usual) if token == tokenizer().id_of("<|im_end|>")]
    written = tokenizer().encode("<", add_special_tokens=False)
    assert body["usage"]["prompt_tokens"] == len(strict.prompt(ask).tokens) > len(usual)
    assert len(ends) == 3
    assert written[0] in strict.prompt(ask).tokens


def test_chat_as_a_stream(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=NAME, messages=ASK).choices[0].message.content
    stream = client.chat.completions.create(
        model=NAME, messages=ASK, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == whole
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 5
    assert len({chunk.id for chunk in chunks}) == 1


def test_limits_of_an_answer(client: openai.OpenAI) -> None:
    cut = client.chat.completions.create(model=NAME, messages=ASK, max_tokens=3)
    assert (cut.choices[0].finish_reason, cut.usage and cut.usage.completion_tokens) == ("length", 3)
    newer = client.chat.completions.create(model=NAME, messages=ASK, max_completion_tokens=2, max_tokens=5)
    assert newer.usage is not None
    assert newer.usage.completion_tokens == 2
    stopped = client.chat.completions.create(model=NAME, messages=ASK, stop=["zzz", " END"])
    assert stopped.choices[0].message.content == "It is 你好 and 👩‍👩‍👧 and naïve."
    assert stopped.choices[0].finish_reason == "stop"


def test_several_answers_and_probabilities(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=NAME, messages=ASK, n=3, logprobs=True, top_logprobs=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens < 100  # the prompt counts once
    for choice in answer.choices:
        assert choice.logprobs is not None
        content = choice.logprobs.content or []
        assert b"".join(bytes(one.bytes or []) for one in content).decode() == choice.message.content
        assert all(one.logprob < 0 and len(one.top_logprobs) == 2 for one in content)
    chunks = list(client.chat.completions.create(model=NAME, messages=ASK, logprobs=True, stream=True))
    noted = [chunk.choices[0].logprobs for chunk in chunks]
    told = [one for logprobs in noted if logprobs for one in logprobs.content or []]
    assert len(told) == len(content)


@pytest.mark.parametrize("stream", [False, True])
def test_tools(client: openai.OpenAI, stream: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    if stream:
        chunks = list(client.chat.completions.create(model=NAME, messages=messages, tools=[TOOL], stream=True))  # type: ignore[call-overload]
        calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
        texts = [chunk.choices[0].delta.content or "" for chunk in chunks]
        thoughts = [getattr(chunk.choices[0].delta, "reasoning_content", None) or "" for chunk in chunks]
        reason, thought = chunks[-1].choices[0].finish_reason, "".join(thoughts)
        assert "".join(texts) == ""
    else:
        choice = client.chat.completions.create(model=NAME, messages=messages, tools=[TOOL]).choices[0]
        calls, reason = choice.message.tool_calls or [], choice.finish_reason
        thought = choice.message.reasoning_content  # type: ignore[attr-defined]
        assert choice.message.content is None
    (call,) = calls
    assert (reason, call.function.name, json.loads(call.function.arguments)) == (
        "tool_calls",
        "weather",
        {"place": "Köln"},
    )
    assert thought == "hm, let me"
    messages += [
        {
            "role": "assistant",
            "tool_calls": [{"id": call.id, "type": "function", "function": call.function.model_dump()}],
        },
        {"role": "tool", "tool_call_id": call.id, "content": "warm"},
    ]
    assert client.chat.completions.create(model=NAME, messages=messages, tools=[TOOL]).choices


def test_json_reaches_the_model(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for wanted, expected in [
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, schema),
        ({"type": "json_object"}, {"type": "object"}),
    ]:
        answer = client.chat.completions.create(model=NAME, messages=ASK, response_format=wanted)  # type: ignore[call-overload]
        assert json.loads(answer.choices[0].message.content) == {"schema": expected}


def test_completions(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=NAME, prompt=["one", "two"], max_tokens=4, echo=True)
    assert [choice.text.split("It")[0] for choice in answer.choices] == ["one", "two"]
    assert answer.object == "text_completion"
    tokens = tokenizer().encode("a b c")
    chunks = list(client.completions.create(model=NAME, prompt=tokens, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks).startswith("It is")


def test_models_and_health(client: openai.OpenAI, server: tuple[str, Server]) -> None:
    assert [model.id for model in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).id == NAME
    assert httpx.get(f"{server[0]}/health").json() == {"status": "ok"}
    page = httpx.get(server[0])
    assert page.headers["content-type"].startswith("text/html")
    assert "v1/chat/completions" in page.text
    metrics = httpx.get(f"{server[0]}/metrics").text
    assert "mnn_generated_tokens_total" in metrics
    assert 'mnn_first_token_seconds_bucket{le="+Inf"}' in metrics


WRONG: list[tuple[str, dict[str, Any], int, str | None]] = [
    ("chat/completions", {"model": "other"}, 404, "model"),
    ("chat/completions", {"model": 5}, 400, "model"),
    ("chat/completions", {"messages": []}, 400, "messages"),
    ("chat/completions", {"messages": "Hi"}, 400, "messages"),
    ("chat/completions", {"messages": [{"role": "king", "content": "Hi"}]}, 400, "messages[0]"),
    ("chat/completions", {"messages": [{"role": "user"}]}, 400, "messages[0].content"),
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "messages[0].content[0]",
    ),
    ("chat/completions", {"messages": [{"role": "user", "content": "a " * 5000}]}, 400, "messages"),
    ("chat/completions", {"temperature": 9}, 400, "temperature"),
    ("chat/completions", {"temperature": "hot"}, 400, "temperature"),
    ("chat/completions", {"dry_allowed_length": 0}, 400, "dry_allowed_length"),
    ("completions", {"prompt": "a", "penalty_window": 1.5}, 400, "penalty_window"),
    ("chat/completions", {"top_p": True}, 400, "top_p"),
    ("chat/completions", {"n": 1000}, 400, "n"),
    ("chat/completions", {"n": 1.5}, 400, "n"),
    ("chat/completions", {"max_tokens": 0}, 400, "max_tokens"),
    ("chat/completions", {"stop": ["a"] * 99}, 400, "stop"),
    ("chat/completions", {"stop": [""]}, 400, "stop"),
    ("chat/completions", {"stream": "yes"}, 400, "stream"),
    ("chat/completions", {"logit_bias": {"x": 1}}, 400, "logit_bias"),
    ("chat/completions", {"top_logprobs": 3}, 400, "top_logprobs"),
    ("chat/completions", {"response_format": {"type": "xml"}}, 400, "response_format"),
    ("chat/completions", {"tools": [{"type": "function"}]}, 400, "tools[0]"),
    ("chat/completions", {"tool_choice": "required"}, 400, "tool_choice"),
    ("chat/completions", {"tools": [TOOL], "tool_choice": "always"}, 400, "tool_choice"),
    ("chat/completions", {"tools": [TOOL], "tool_choice": {"type": "function"}}, 400, "tool_choice"),
    (
        "chat/completions",
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
        400,
        "tool_choice",
    ),
    (
        "chat/completions",
        {"tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}},
        400,
        "response_format",
    ),
    ("completions", {"prompt": []}, 400, "prompt"),
    ("completions", {"prompt": {"a": 1}}, 400, "prompt"),
    ("completions", {"prompt": "a", "logprobs": 3, "echo": True}, 400, "logprobs"),
    ("completions", {"prompt": "a", "logprobs": 21}, 400, "logprobs"),
    ("embeddings", {"input": "a"}, 400, "model"),
    ("embeddings", {"input": []}, 400, "input"),
    ("embeddings", {"input": [1, 2]}, 400, "input"),
    ("nothing", {}, 404, None),
]


@pytest.mark.parametrize(("path", "fields", "status", "param"), WRONG)
def test_wrong_requests(
    server: tuple[str, Server], path: str, fields: dict[str, Any], status: int, param: str | None
) -> None:
    """Each is told in OpenAI's form, with the field that is wrong."""
    body = {"model": NAME, **({"messages": ASK} if path.startswith("chat") else {}), **fields}
    response = httpx.post(f"{server[0]}/v1/{path}", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param), error
    assert error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("stream", [False, True])
def test_halves_of_characters(stream: bool) -> None:
    """Clients cut texts within a pair of surrogates, models write one alone: U+FFFD comes back, and all of the rest."""
    half, call = "smile \ud83d", '<tool_call>\n{"name": "f", "arguments": {"a": "smile \\ud83d"}}\n</tool_call>'
    asked: list[tuple[str, dict[str, Any]]] = [
        ("completions", {"prompt": half, "echo": True}),
        ("responses", {"input": "x", "instructions": half, "metadata": {"a": half}}),
        ("chat/completions", {"messages": ASK, "tools": [TOOL]}),
        (
            "chat/completions",
            {"messages": ASK, "chat_template_kwargs": {"chat_template": f"{{{{ raise_exception('{half}') }}}}"}},
        ),
    ]
    with served(Scripted(tokenizer(), lambda *_: call)) as (url, _):
        for path, body in asked:
            data = json.dumps({"model": NAME, "stream": stream, **body}).encode()
            headers = {"content-type": "application/json"}
            response = httpx.post(f"{url}/v1/{path}", content=data, headers=headers)
            assert response.status_code == (400 if "chat_template_kwargs" in body else 200)
            assert "smile \ufffd" in response.text
            if stream and path != "responses" and response.status_code == 200:
                assert response.text.endswith("data: [DONE]\n\n")


def test_what_is_no_request(server: tuple[str, Server]) -> None:
    url = f"{server[0]}/v1/chat/completions"
    header = {"content-type": "application/json"}
    for body, status in [
        (b"{", 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b'{"temperature": NaN}', 400),
        (b"[" * 99999, 400),
    ]:
        assert httpx.post(url, content=body, headers=header).status_code == status
    assert httpx.post(url, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    assert httpx.post(url, content=b" " * (9 << 20), headers=header).status_code == 413
    assert httpx.get(url).status_code == 405
    assert httpx.get(f"{server[0]}/health").json() == {"status": "ok"}


def test_keys() -> None:
    with served(Scripted(tokenizer(), script), key="secret") as (url, _):
        assert httpx.get(f"{url}/health").status_code == 200
        assert httpx.get(url).status_code == 200
        for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}):
            for path in ("/v1/models", "/metrics"):
                assert httpx.get(url + path, headers=given).status_code == 401
        with openai.OpenAI(base_url=f"{url}/v1", api_key="secret") as client:
            assert client.chat.completions.create(model=NAME, messages=ASK).choices
        with (
            openai.OpenAI(base_url=f"{url}/v1", api_key="no", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.models.list()


def test_embeddings() -> None:
    """Vectors by the openai client, which asks for bytes, and as numbers; cut at the model's longest text."""
    folder = zoo.path("minilm_weights").parent
    assert {zoo.path(key).parent for key in ("minilm_tokenizer", "minilm_config")} == {folder}
    embedder = MNN.llm.load_embedder(folder)
    texts = ["A cat sits on the mat.", "A kitten lies on a rug.", "word " * 2000]
    expected = embedder.embed(texts)
    with served(embedder) as (url, server), openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        answer = client.embeddings.create(model=NAME, input=texts)
        np.testing.assert_allclose([one.embedding for one in answer.data], expected, atol=1e-5)
        assert answer.usage.prompt_tokens == 9 + 9 + embedder.longest
        plain = client.embeddings.create(model=NAME, input=texts[0], encoding_format="float")
        np.testing.assert_allclose(plain.data[0].embedding, expected[0], atol=1e-4)
        with pytest.raises(openai.BadRequestError, match="it writes none"):
            client.chat.completions.create(model=NAME, messages=ASK)
        short = np.array(client.embeddings.create(model=NAME, input=texts[0], dimensions=48).data[0].embedding)
        np.testing.assert_allclose(short, expected[0, :48] / np.linalg.norm(expected[0, :48]), atol=1e-4)
        for wrong in ({"encoding_format": "hex"}, {"dimensions": 385}, {"dimensions": 0}):
            response = httpx.post(f"{url}/v1/embeddings", json={"model": NAME, "input": "a", **wrong})
            assert (response.status_code, response.json()["error"]["param"]) == (400, next(iter(wrong)))
        assert server.metrics.value("mnn_prompt_tokens_total") > 500


def test_a_model_that_breaks() -> None:
    with served(Scripted(tokenizer(), failing)) as (url, _):
        for word, status in (("crash", 500), ("refuse", 400), ("ok", 200), ("crash", 500), ("ok", 200)):
            body = {"model": NAME, "messages": [{"role": "user", "content": word}]}
            response = httpx.post(f"{url}/v1/chat/completions", json=body)
            assert response.status_code == status
            assert "inside" not in response.text
            streamed = httpx.post(f"{url}/v1/chat/completions", json={**body, "stream": True}).text
            assert ('"error"' in streamed) == (status != 200)
