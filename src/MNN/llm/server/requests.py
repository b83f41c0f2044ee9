"""Requests of OpenAI's protocol: what is asked for, verified."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from MNN.llm.server import fields, toolcalls
from MNN.llm.server.errors import wrong

CHOICES = 16
STOPS = 16
TOP = 20
TEXTS = 2048
ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True)
class Asked:
    """What both ways to ask share. ``sampling``: arguments of :class:`MNN.llm.SamplingOptions`.

    ``logprobs``: how many of the most probable tokens to tell of each, or None. ``grammar``: what the answer has to be,
    as ``response_format`` says it. ``usage``: whether a stream ends with the numbers of tokens.
    """

    model: str
    stream: bool = False
    usage: bool = False
    choices: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: dict[str, Any] = field(default_factory=dict)
    logprobs: int | None = None
    grammar: dict[str, Any] | None = None


@dataclass(frozen=True)
class Chat(Asked):
    """A conversation to be continued. ``template``: what else the chat template takes. ``calls``: whether the answer is
    a call, which ``grammar`` then describes; ``single``: whether it has one call at most."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    calls: bool = False
    single: bool = False
    tools: list[dict[str, Any]] = field(default_factory=list)
    template: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Completion(Asked):
    """Texts, or tokens, to be continued."""

    prompts: list[str | list[int]] = field(default_factory=list)
    echo: bool = False


@dataclass(frozen=True)
class Embedding:
    """Texts whose vectors are wanted. ``base64``: as the bytes of little-endian floats, not as numbers; ``size``: their
    first numbers alone, of the length 1 again (Matryoshka, arXiv:2205.13147)."""

    model: str
    texts: list[str]
    base64: bool = False
    size: int | None = None


@dataclass(frozen=True)
class Rerank:
    """Texts to be put in order. ``top``: how many are wanted, or None for all; ``shown``: whether to give them back."""

    model: str
    query: str
    documents: list[str]
    top: int | None = None
    shown: bool = False


def rerank(body: Mapping[str, Any]) -> Rerank:
    """``POST /v1/rerank``. RequestError for what cannot be used."""
    model, query = (body.get(name) for name in ("model", "query"))
    if not isinstance(model, str) or not model:
        raise wrong("model", "the name of a model is expected")
    if not isinstance(query, str) or not query:
        raise wrong("query", "a text is expected")
    given = body.get("documents")
    listed = given if isinstance(given, list) else []
    plain = [one.get("text") if isinstance(one, dict) else one for one in listed]
    documents = fields.texts({"documents": plain}, "documents", TEXTS)
    if not documents:
        raise wrong("documents", f"a list of at most {TEXTS} texts is expected")
    return Rerank(model, query, documents, fields.whole(body, "top_n", 1, TEXTS), fields.flag(body, "return_documents"))


def embedding(body: Mapping[str, Any]) -> Embedding:
    """``POST /v1/embeddings``. RequestError for what cannot be used."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise wrong("model", "the name of a model is expected")
    found = fields.texts(body, "input", TEXTS)
    if not found:
        raise wrong("input", f"a text or a list of at most {TEXTS} texts is expected")
    form = body.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise wrong("encoding_format", "float or base64 is expected")
    return Embedding(model, found, form == "base64", fields.whole(body, "dimensions", 1, 1 << 20))


def chat(body: Mapping[str, Any]) -> Chat:
    """``POST /v1/chat/completions``. RequestError for what cannot be used."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise wrong("messages", "a list of one message or more is expected")
    tools = _tools(body)
    calls = toolcalls.forced(tools, body.get("tool_choice"))
    if calls is not None and _format(body) is not None:
        raise wrong("response_format", "an answer that has to be a call has no other form; leave out one of them")
    top = fields.whole(body, "top_logprobs", 0, TOP)
    wanted = fields.flag(body, "logprobs")
    if top is not None and not wanted:
        raise wrong("top_logprobs", "logprobs has to be true for these")
    return Chat(
        **_shared(body),
        logprobs=(top or 0) if wanted else None,
        grammar=_format(body) if calls is None else calls,
        calls=calls is not None,
        single=body.get("parallel_tool_calls") is not None and not fields.flag(body, "parallel_tool_calls"),
        messages=[_message(message, f"messages[{i}]") for i, message in enumerate(messages)],
        tools=tools,
        template=_template(body),
    )


def completion(body: Mapping[str, Any]) -> Completion:
    """``POST /v1/completions``. RequestError for what cannot be used."""
    if body.get("suffix") is not None:
        raise wrong("suffix", "this is not offered for plain completions")
    logprobs, echo = fields.whole(body, "logprobs", 0, TOP), fields.flag(body, "echo")
    if echo and logprobs is not None:
        raise wrong("logprobs", "those of the prompt are not known; leave out echo")
    return Completion(
        **_shared(body), grammar=_format(body), prompts=_prompts(body.get("prompt")), echo=echo, logprobs=logprobs
    )


def _shared(body: Mapping[str, Any]) -> dict[str, Any]:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise wrong("model", "the name of a model is expected")
    sampling: dict[str, Any] = {
        "temperature": fields.number(body, "temperature", 0, 2),
        "top_p": fields.number(body, "top_p", 0, 1),
        "top_k": fields.whole(body, "top_k", 0, 1 << 30),
        "min_p": fields.number(body, "min_p", 0, 1),
        "typical": fields.number(body, "typical_p", 0, 1),
        "presence_penalty": fields.number(body, "presence_penalty", -2, 2),
        "frequency_penalty": fields.number(body, "frequency_penalty", -2, 2),
        "repetition_penalty": fields.number(body, "repetition_penalty", 0.01, 100),
        "tail_free": fields.number(body, "tail_free", 0, 1),
        "penalty_window": fields.whole(body, "penalty_window", 0, 1 << 30),
        "dry_multiplier": fields.number(body, "dry_multiplier", 0, 100),
        "dry_base": fields.number(body, "dry_base", 1, 100),
        "dry_allowed_length": fields.whole(body, "dry_allowed_length", 1, 1 << 30),
        "dry_window": fields.whole(body, "dry_window", 0, 1 << 30),
        "seed": fields.whole(body, "seed", -(1 << 63), (1 << 63) - 1),
        "logit_bias": _bias(body) or None,
    }
    if sampling["seed"] is not None:
        sampling["seed"] = int(sampling["seed"]) & ((1 << 63) - 1)
    newer = fields.whole(body, "max_completion_tokens", 1, 1 << 30)
    most = newer if newer is not None else fields.whole(body, "max_tokens", 1, 1 << 30)
    options = fields.mapping(body, "stream_options")
    return {
        "model": model,
        "stream": fields.flag(body, "stream"),
        "usage": fields.flag(options, "include_usage"),
        "choices": fields.whole(body, "n", 1, CHOICES) or 1,
        "max_tokens": most,
        "stop": tuple(fields.texts(body, "stop", STOPS)),
        "sampling": {"temperature": 1.0} | {name: value for name, value in sampling.items() if value is not None},
    }


def _bias(body: Mapping[str, Any]) -> dict[int, float]:
    found = {}
    for token, amount in fields.mapping(body, "logit_bias").items():
        digits = token.isascii() and token.isdigit() and len(token) < 19
        if not digits or not isinstance(amount, int | float) or not -100 <= amount <= 100:
            raise wrong("logit_bias", "tokens with numbers from -100 to 100 are expected")
        found[int(token)] = float(amount)
    return found


def _format(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """A JSON schema that the answer has to fit, or None."""
    wanted = fields.mapping(body, "response_format")
    match wanted.get("type", "text"):
        case "text":
            return None
        case "json_object":
            return {"type": "object"}
        case "json_schema":
            schema = fields.mapping(fields.mapping(wanted, "json_schema"), "schema")
            return schema or {"type": "object"}
    raise wrong("response_format", "type has to be text, json_object or json_schema")


def _template(body: Mapping[str, Any]) -> dict[str, Any]:
    found = fields.mapping(body, "chat_template_kwargs")
    taken = next((name for name in ("self", "messages", "tools") if name in found), None)
    if taken is not None:
        raise wrong("chat_template_kwargs", f"{taken} is nothing that a template takes from here")
    if not isinstance(found.get("chat_template") or "", str):
        raise wrong("chat_template_kwargs", "chat_template is a text")
    return found


def _tools(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = body.get("tools") or []
    if not isinstance(tools, list):
        raise wrong("tools", "a list is expected")
    for i, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise wrong(f"tools[{i}]", "a function with a name is expected")
    return [] if body.get("tool_choice") == "none" else tools


def _message(message: Any, where: str) -> dict[str, Any]:
    """A message as chat templates take it: contents as texts, arguments of calls as objects."""
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise wrong(where, f"an object with a role of {', '.join(ROLES)} is expected")
    found = {key: value for key, value in message.items() if value is not None}
    found["role"] = "system" if message["role"] == "developer" else message["role"]
    calls = message.get("tool_calls")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_part(part, f"{where}.content[{i}]") for i, part in enumerate(content))
    if content is None and not calls:
        raise wrong(f"{where}.content", "a text is expected")
    if content is not None and not isinstance(content, str):
        raise wrong(f"{where}.content", "a text or a list of parts is expected")
    found["content"] = content or ""
    if calls is not None:
        if not isinstance(calls, list):
            raise wrong(f"{where}.tool_calls", "a list is expected")
        found["tool_calls"] = [_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls)]
    return found


def _part(part: Any, where: str) -> str:
    if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
        kind = part.get("type") if isinstance(part, dict) else None
        raise wrong(where, f"this model takes texts, not {kind!r:.60}")
    text: str = part["text"]
    return text


def _call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise wrong(where, "a call of a function with a name is expected")
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError, RecursionError):  # as the model wrote it, which may be no JSON
            arguments = json.loads(arguments)
    return {**call, "function": {**function, "arguments": arguments}}


def _prompts(value: Any) -> list[str | list[int]]:
    """A text, several, the tokens of one, or those of several."""
    given = value if isinstance(value, list) and value and not isinstance(value[0], int) else [value]
    found: list[str | list[int]] = []
    for prompt in given:
        tokens = isinstance(prompt, list) and bool(prompt)
        if tokens and all(isinstance(t, int) and not isinstance(t, bool) and t >= 0 for t in prompt):
            found.append(list(prompt))
        elif isinstance(prompt, str):
            found.append(prompt)
        else:
            raise wrong("prompt", "a text, a list of texts, tokens or lists of tokens are expected")
    if len(found) > CHOICES:
        raise wrong("prompt", f"at most {CHOICES} prompts are taken at once")
    return found
