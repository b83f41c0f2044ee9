"""Answers in OpenAI's form: whole, and as chunks of a stream."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from MNN.llm.sampling import LogProbability
from MNN.llm.server.jobs import End
from MNN.llm.server.reading import Part
from MNN.llm.text import Tokenizer


@dataclass
class Usage:
    """Tokens of all choices of a request."""

    prompt: int = 0
    reused: int = 0
    written: int = 0

    def add(self, end: End, counted: bool) -> None:
        """``counted``: whether the prompt is that of an earlier choice."""
        if not counted:
            self.prompt += end.prompt
            self.reused += end.reused
        self.written += end.written

    @property
    def body(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.written,
            "total_tokens": self.prompt + self.written,
            "prompt_tokens_details": {"cached_tokens": self.reused},
        }


@dataclass(frozen=True)
class Envelope:
    """What all chunks of one answer have in common. ``kind``: ``chat.completion`` or ``text_completion``."""

    kind: str
    model: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def chat(self) -> bool:
        return self.kind == "chat.completion"

    def body(self, choices: list[dict[str, Any]], chunk: bool, usage: dict[str, Any] | None = None) -> dict[str, Any]:
        """A whole answer, or one chunk."""
        found = {
            "id": f"{'chatcmpl' if self.chat else 'cmpl'}-{self.id}",
            "object": f"{self.kind}.chunk" if chunk and self.chat else self.kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }
        return found if usage is None else found | {"usage": usage}

    def piece(self, index: int, delta: dict[str, Any], reason: str | None, logprobs: Any = None) -> dict[str, Any]:
        """A choice within a chunk. ``delta``: of a chat; of plain completions its ``content`` is the text."""
        what = {"delta": delta} if self.chat else {"text": delta.get("content", "")}
        return {"index": index, **what, "logprobs": logprobs, "finish_reason": reason}


def delta(part: Part) -> dict[str, Any]:
    """What a part adds to a message."""
    if part.call is not None:
        return {"tool_calls": [part.call]}
    return {"reasoning_content" if part.kind == "thought" else "content": part.text}


def message(parts: list[Part]) -> dict[str, Any]:
    """The message that parts make."""
    text, thought = ("".join(part.text for part in parts if part.kind == kind) for kind in ("text", "thought"))
    calls = [{k: v for k, v in part.call.items() if k != "index"} for part in parts if part.call is not None]
    found: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
    if thought:
        found["reasoning_content"] = thought
    if calls:
        found["tool_calls"] = calls
    return found


def reason(end: End, called: bool) -> str:
    """``finish_reason``."""
    return "tool_calls" if called and end.reason == "stop" else "length" if end.reason == "length" else "stop"


def probabilities(found: list[LogProbability], tokenizer: Tokenizer) -> dict[str, Any]:
    """``logprobs`` of a chat."""

    def entry(token: int, value: float) -> dict[str, Any]:
        data = tokenizer.bytes_of(token)
        return {"token": data.decode("utf-8", "replace"), "logprob": max(value, -9999.0), "bytes": list(data)}

    return {
        "content": [
            entry(one.token, one.value) | {"top_logprobs": [entry(token, value) for token, value in one.top]}
            for one in found
        ],
        "refusal": None,
    }


class TokenLog:
    """``logprobs`` of a plain completion, whole or chunk after chunk: tokens as texts, their logarithms, the best ones
    beside each, and where in the text they begin. Parts of characters are written as OpenAI does: ``bytes:\\xe4``."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._seen = tokenizer, b""

    def take(self, found: list[LogProbability]) -> dict[str, Any]:
        """What the next tokens add."""
        offsets = []
        for one in found:
            offsets.append(len(self._seen.decode("utf-8", "ignore")))
            self._seen += self._tokenizer.bytes_of(one.token)
        return {
            "tokens": [self._text(one.token) for one in found],
            "token_logprobs": [max(one.value, -9999.0) for one in found],
            "top_logprobs": [{self._text(token): max(value, -9999.0) for token, value in one.top} for one in found],
            "text_offset": offsets,
        }

    def _text(self, token: int) -> str:
        data = self._tokenizer.bytes_of(token)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def as_json(body: Any) -> bytes:
    """JSON in UTF-8; U+FFFD for halves of surrogate pairs, which clients cut off and models write."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def event(body: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + as_json(body) + b"\n\n"


DONE = b"data: [DONE]\n\n"
