"""``/v1/responses``, spoken to by the ``openai`` client: what it makes of bodies and of events has to fit together."""

from __future__ import annotations

import functools
import json
from typing import Any

import httpx
import openai
import pydantic
import pytest

from MNN.llm.server.app import Server
from MNN.llm.server.errors import RequestError
from MNN.llm.server.responses_api.kept import KeptResponses
from MNN.llm.server.responses_api.requests import response
from MNN.llm.text import Tokenizer, load_tokenizer
from tests import zoo
from tests.llm.server.running import NAME

TOOL: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Köln"}}\n</tool_call>'


@functools.cache
def tokenizer() -> Tokenizer:
    return load_tokenizer(zoo.path("smollm2_gguf"))


def script(prompt: str, options: dict[str, Any]) -> str:
    """Answers by what the last message of the user asks."""
    asked = prompt.rpartition("<|im_start|>user\n")[2]
    if "<|im_start|>tool" in asked or "12 degrees" in asked:
        return "It is 12 degrees."
    if options["schema"] is not None:
        return json.dumps({"fits": sorted(options["schema"].get("properties", {}))})
    if "weather" in asked:
        return f"<think>hm, let me\n</think>\n\n{CALL}\n{CALL}"
    if "crash" in asked:
        raise ZeroDivisionError("inside")
    if "everything" in asked:
        return prompt.replace("<|im_start|>", "[").replace("<|im_end|>", "]")
    return "It is 你好 and naïve."


@pytest.mark.real
def test_whole(client: openai.OpenAI) -> None:
    found = client.responses.create(model=NAME, input="Say it.", metadata={"a": "b"}, temperature=0.5)
    assert found.output_text == "It is 你好 and naïve."
    assert (found.status, found.error, found.incomplete_details, found.model) == ("completed", None, None, NAME)
    assert (found.metadata, found.temperature) == ({"a": "b"}, 0.5)
    prompt = tokenizer().apply_chat_template([{"role": "user", "content": "Say it."}])
    assert found.usage is not None
    assert found.usage.input_tokens == len(tokenizer().encode(prompt, add_special_tokens=False))
    assert found.usage.output_tokens == len(tokenizer().encode(found.output_text))
    assert found.usage.total_tokens == found.usage.input_tokens + found.usage.output_tokens
    again = client.responses.retrieve(found.id)
    assert again.output == found.output


@pytest.mark.real
@pytest.mark.parametrize("question", ["Say it.", "the weather, please"])
def test_stream(client: openai.OpenAI, question: str) -> None:
    """The client's own accumulation of the events is the response that the last one has."""
    with client.responses.stream(model=NAME, input=question, tools=[TOOL]) as stream:
        events = list(stream)
        last = stream.get_final_response()
    assert [event.sequence_number for event in events] == sorted({event.sequence_number for event in events})
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == len(last.output)
    whole = client.responses.create(model=NAME, input=question, tools=[TOOL])
    plain = [
        [item.model_dump(exclude={"id", "call_id", "parsed_arguments", "content"}) for item in one.output]
        for one in (last, whole)
    ]
    assert plain[0] == plain[1]
    assert last.output_text == whole.output_text
    assert last.usage is not None
    assert whole.usage is not None
    assert last.usage.model_dump(exclude={"input_tokens_details"}) == whole.usage.model_dump(
        exclude={"input_tokens_details"}
    )
    done = [event for event in events if event.type == "response.output_item.done"]
    assert [event.item.id for event in done] == [item.id for item in last.output]  # type: ignore[union-attr]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == last.output_text


@pytest.mark.real
def test_functions_and_what_follows(client: openai.OpenAI) -> None:
    first = client.responses.create(model=NAME, input="the weather, please", tools=[TOOL])
    assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
    calls = [item for item in first.output if item.type == "function_call"]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("weather", {"place": "Köln"})] * 2
    assert first.usage is not None
    assert first.usage.output_tokens_details.reasoning_tokens > 2
    results: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"} for call in calls]
    second = client.responses.create(model=NAME, input=results, previous_response_id=first.id, tools=[TOOL])
    assert second.output_text == "It is 12 degrees."
    whole: Any = [
        {"role": "user", "content": "the weather, please"},
        *(item.model_dump(exclude_none=True) for item in first.output), *results,
    ]  # fmt: skip
    third = client.responses.create(model=NAME, input=whole, tools=[TOOL])
    assert third.usage is not None
    assert second.usage is not None
    assert third.usage.input_tokens == second.usage.input_tokens
    assert second.previous_response_id == first.id


@pytest.mark.real
def test_instructions_are_of_one_response(client: openai.OpenAI) -> None:
    first = client.responses.create(model=NAME, input="Say it.", instructions="Be brave.")
    told = client.responses.create(model=NAME, input="everything", previous_response_id=first.id).output_text
    assert "Be brave" not in told
    assert told.index("Say it.") < told.index("你好") < told.index("everything")
    client.responses.delete(first.id)
    with pytest.raises(openai.BadRequestError, match="there is no response"):
        client.responses.create(model=NAME, input="more", previous_response_id=first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    secret = client.responses.create(model=NAME, input="Say it.", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(secret.id)


class Fits(pydantic.BaseModel):
    fits: list[str]


@pytest.mark.real
def test_forms(client: openai.OpenAI) -> None:
    parsed = client.responses.parse(model=NAME, input="Say it.", text_format=Fits).output_parsed
    assert parsed == Fits(fits=["fits"])
    cut = client.responses.create(model=NAME, input="Say it.", max_output_tokens=3)
    assert cut.status == "incomplete"
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"
    told = client.responses.create(
        model=NAME, input="Say it.", top_logprobs=2, include=["message.output_text.logprobs"]
    )  # fmt: skip
    (item,) = told.output
    assert item.type == "message"
    (part,) = item.content
    assert part.type == "output_text"
    assert part.logprobs is not None
    assert b"".join(bytes(one.bytes) for one in part.logprobs).decode() == part.text
    assert all(len(one.top_logprobs) == 2 for one in part.logprobs)


@pytest.mark.real
def test_failures(client: openai.OpenAI, server: tuple[str, Server]) -> None:
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model=NAME, input="crash")
    with client.responses.create(model=NAME, input="crash", stream=True) as stream:
        last = list(stream)[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert "ZeroDivisionError" in last.response.error.message
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.responses.create(model="another", input="Say it.")
    answer = httpx.post(f"{server[0]}/v1/responses", json={"model": NAME, "input": "many words " * 4000})
    told = answer.json()["error"]
    assert (told["code"], told["param"]) == ("context_length_exceeded", "input")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"input": 3}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0]"),
        ({"input": [{"role": "cook", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        ({"input": [{"type": "function_call", "name": "f", "call_id": "c"}]}, "input[0].arguments"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"input": "x", "tool_choice": "required"}, "tool_choice"),
        ({"input": "x", "tools": [TOOL], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
        ({"input": "x", "text": {"format": {"type": "grammar"}}}, "text.format"),
        ({"input": "x", "text": {"format": "json"}}, "text.format"),
        ({"input": "x", "text": {"format": {"type": "json_schema", "schema": 3}}}, "text.format.schema"),
        (
            {"input": "x", "text": {"format": {"type": "json_object"}}, "tools": [TOOL], "tool_choice": "required"},
            "text.format",
        ),
        ({"input": "x", "reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "truncation": "auto"}, "truncation"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "x", "metadata": {"a": 1}}, "metadata"),
        ({"input": "x", "previous_response_id": 7}, "previous_response_id"),
        ({"input": "x", "temperature": "hot"}, "temperature"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_be_used(body: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as refused:
        response({"model": NAME, **body})
    assert refused.value.param == field
    assert str(refused.value).startswith(f"{field}: ")


def test_what_is_kept() -> None:
    kept = KeptResponses(count=3, nbytes=300)
    for i in range(5):
        kept.keep({"id": f"r{i}"}, [])
    assert len(kept) == 3
    kept.keep({"id": "big"}, [{"role": "user", "content": "x" * 250}])
    assert kept.conversation("big")
    with pytest.raises(RequestError):
        kept.body("r2")
    kept.keep({"id": "too big"}, [{"role": "user", "content": "x" * 500}])
    assert len(kept) == 0
