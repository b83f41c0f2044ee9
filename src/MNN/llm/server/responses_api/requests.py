"""Requests for responses: what is asked for, verified, and as the chat that it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from MNN.llm.server import fields, requests
from MNN.llm.server.errors import RequestError, wrong

ROLES = ("system", "developer", "user", "assistant")
LOGPROBS = "message.output_text.logprobs"
"""What ``include`` says where probabilities are wanted."""
METADATA = 16
_NOT_OFFERED = ("background", "conversation", "prompt", "max_tool_calls", "n")
_TEXTS = ("input_text", "output_text", "text")
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_OWN = (
    "input", "instructions", "tools", "tool_choice", "text", "reasoning", "include", "metadata", "store", "truncation",
    "previous_response_id", "top_logprobs", *_LIMITS,
)  # fmt: skip
"""Fields that mean something else in a chat, or nothing."""
_FIELDS = {
    "messages": "input",
    "prompt": "input",
    "response_format": "text.format",
    "json_schema": "text.format",
    "schema": "text.format.schema",
    "max_completion_tokens": "max_output_tokens",
}
"""What fields of a chat are called here."""


@dataclass(frozen=True)
class ResponseAsked:
    """``chat``: what the model is asked. ``conversation``: its messages without ``instructions``, which a response that
    goes on from this one has before its own. ``shown``: fields that a response repeats."""

    chat: requests.Chat
    conversation: list[dict[str, Any]]
    store: bool = True
    shown: dict[str, Any] = field(default_factory=dict)


@contextlib.contextmanager
def in_own_words() -> Iterator[None]:
    """Errors about the chat that a response is name the field of the response."""
    try:
        yield
    except RequestError as error:
        given = error.param or ""
        name = _FIELDS.get(given.partition("[")[0])  # a chat's messages are counted from another one on
        if name is None:
            raise
        raise RequestError(
            error.status, f"{name}: {str(error).removeprefix(f'{given}: ')}", name, error.code
        ) from error


def previous(body: Mapping[str, Any]) -> str | None:
    """The response that this one goes on from."""
    found = body.get("previous_response_id")
    if found is not None and (not isinstance(found, str) or not found):
        raise wrong("previous_response_id", "the id of a response is expected")
    return found


def response(body: Mapping[str, Any], before: Sequence[Mapping[str, Any]] = ()) -> ResponseAsked:
    """``POST /v1/responses``. ``before``: the messages of the response that this one goes on from. RequestError for
    what cannot be used."""
    for name in _NOT_OFFERED:
        if body.get(name) not in (None, False):
            raise wrong(name, "this is not offered here; leave it out")
    if body.get("truncation") not in (None, "disabled"):
        raise wrong("truncation", "nothing is left out by itself here; leave this out and shorten the conversation")
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise wrong("instructions", "a text is expected")
    conversation = [*(dict(message) for message in before), *_messages(body.get("input"))]
    if not conversation:
        raise wrong("input", "a text or a list of items is expected")
    tools, choice = _tools(body)
    form = fields.mapping({"text.format": fields.mapping(body, "text").get("format")}, "text.format")
    top = fields.whole(body, "top_logprobs", 0, requests.TOP)
    asked_for = body.get("include") or []
    if not isinstance(asked_for, list):
        raise wrong("include", "a list is expected")
    most = fields.whole(body, "max_output_tokens", 1, 1 << 30)
    effort = fields.mapping(body, "reasoning").get("effort")
    if effort is not None and not isinstance(effort, str):
        raise wrong("reasoning.effort", "a text is expected")
    wanted = LOGPROBS in asked_for or bool(top)
    told = {key: value for key, value in body.items() if key not in _OWN}
    told |= {
        "messages": [*([{"role": "system", "content": instructions}] if instructions else []), *conversation],
        "tools": tools,
        "tool_choice": choice,
        "response_format": _format(form),
        "max_completion_tokens": most,
        "logprobs": wanted,
        "top_logprobs": top if wanted else None,
        "chat_template_kwargs": _template(effort) | fields.mapping(body, "chat_template_kwargs"),
    }
    with in_own_words():
        chat = requests.chat(told)
    store = body.get("store") is None or fields.flag(body, "store")
    shown = {
        "instructions": instructions,
        "max_output_tokens": most,
        "metadata": _metadata(body),
        "parallel_tool_calls": body.get("parallel_tool_calls") is None or fields.flag(body, "parallel_tool_calls"),
        "previous_response_id": previous(body),
        "reasoning": {"effort": effort, "summary": None},
        "store": store,
        "temperature": chat.sampling["temperature"],
        "text": {"format": form or {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_logprobs": top or 0,
        "top_p": chat.sampling.get("top_p", 1.0),
        "truncation": "disabled",
    }
    return ResponseAsked(chat, conversation, store, shown)


def _template(effort: str | None) -> dict[str, Any]:
    """How much a model is to think, as chat templates take it: gpt-oss by its name, others only whether at all."""
    if effort is None:
        return {}
    return {"reasoning_effort": effort} | ({"enable_thinking": False} if effort in ("none", "minimal") else {})


def _metadata(body: Mapping[str, Any]) -> dict[str, Any]:
    found = fields.mapping(body, "metadata")
    if len(found) > METADATA or not all(isinstance(value, str) for value in found.values()):
        raise wrong("metadata", f"at most {METADATA} texts by their names are expected")
    return found


def _format(form: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = form.get("type", "text")
    if kind not in ("text", "json_object", "json_schema"):
        raise wrong("text.format", "type has to be text, json_object or json_schema")
    if kind == "json_schema":
        return {"type": kind, "json_schema": {"schema": form.get("schema")}}
    return {"type": kind}


def _tools(body: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    """Functions, and what is to be chosen of them, as chats have them."""
    given = body.get("tools") or []
    if not isinstance(given, list):
        raise wrong("tools", "a list is expected")
    found: list[dict[str, Any]] = []
    for i, tool in enumerate(given):
        if not isinstance(tool, Mapping) or tool.get("type") != "function" or not isinstance(tool.get("name"), str):
            kind = tool.get("type") if isinstance(tool, Mapping) else None
            raise wrong(f"tools[{i}]", f"a function with a name is expected, not {str(kind)[:60]!r}: none is run here")
        function = {key: value for key, value in tool.items() if key not in ("type", "strict") and value is not None}
        found.append({"type": "function", "function": function})
    choice = body.get("tool_choice")
    if not isinstance(choice, Mapping):
        return found, choice
    if choice.get("type") == "function":
        return found, {"type": "function", "function": {"name": choice.get("name")}}
    if choice.get("type") != "allowed_tools":
        raise wrong("tool_choice", "auto, none, required, a function with a name, or allowed_tools are expected")
    allowed = choice.get("tools")
    names = [one.get("name") for one in allowed if isinstance(one, Mapping)] if isinstance(allowed, list) else []
    return [tool for tool in found if tool["function"]["name"] in names], choice.get("mode", "auto")


def _messages(given: Any) -> list[dict[str, Any]]:
    """Items as the messages of a chat: a call belongs to the message of the assistant before it."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}] if given else []
    if given is not None and not isinstance(given, list):
        raise wrong("input", "a text or a list of items is expected")
    found: list[dict[str, Any]] = []
    for i, item in enumerate(given or ()):
        where = f"input[{i}]"
        if not isinstance(item, Mapping):
            raise wrong(where, "an object is expected")
        kind = item.get("type", "message")
        if kind == "message":
            found.append(_message(item, where))
        elif kind == "function_call":
            _add_call(found, item, where)
        elif kind == "function_call_output":
            content = _text(item.get("output"), f"{where}.output")
            found.append({"role": "tool", "tool_call_id": _name(item, "call_id", where), "content": content})
        elif kind != "reasoning":  # earlier thoughts are not told again
            raise wrong(where, f"items of the type {str(kind)[:60]!r} are not taken here")
    return found


def _message(item: Mapping[str, Any], where: str) -> dict[str, Any]:
    if item.get("role") not in ROLES:
        raise wrong(f"{where}.role", f"one of {', '.join(ROLES)} is expected")
    return {"role": item["role"], "content": _text(item.get("content"), f"{where}.content")}


def _add_call(messages: list[dict[str, Any]], item: Mapping[str, Any], where: str) -> None:
    arguments = item.get("arguments")
    if not isinstance(arguments, str):
        raise wrong(f"{where}.arguments", "a text with JSON is expected")
    function = {"name": _name(item, "name", where), "arguments": arguments}
    call = {"id": _name(item, "call_id", where), "type": "function", "function": function}
    if messages and messages[-1]["role"] == "assistant":
        messages[-1] = messages[-1] | {"tool_calls": [*messages[-1].get("tool_calls", ()), call]}
    else:
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})


def _name(item: Mapping[str, Any], name: str, where: str) -> str:
    found = item.get(name)
    if not isinstance(found, str) or not found:
        raise wrong(f"{where}.{name}", "a text is expected")
    return found


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise wrong(where, "a text or a list of parts is expected")
    found = []
    for i, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, Mapping) else None
        if kind not in (*_TEXTS, "refusal") or not isinstance(text, str):
            raise wrong(f"{where}[{i}]", f"this model takes texts, not {str(kind)[:60]!r}")
        found.append(text)
    return "".join(found)


__all__ = ["ResponseAsked", "in_own_words", "previous", "response"]
