"""What a model writes as the items of a response, with the events that tell of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

from MNN.llm.server.jobs import End
from MNN.llm.server.reading import Part
from MNN.llm.server.responses import as_json
from MNN.llm.server.responses_api.requests import ResponseAsked

Event = dict[str, Any]


def _identity(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"


class ResponseWriter:
    """One response, as far as it is known. Methods give the events of what has changed, numbered from 0 on."""

    def __init__(self, asked: ResponseAsked) -> None:
        self.id = _identity("resp")
        self._asked, self._created, self._number = asked, int(time.time()), 0
        self._output: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        """The item that is being written: a message, or what the model thinks."""
        self._status = "in_progress"
        self._rest: dict[str, Any] = {"usage": None, "error": None, "incomplete_details": None, "completed_at": None}
        self._pending: list[dict[str, Any]] = []
        """Probabilities of tokens whose text is not told yet."""
        self._latest: list[dict[str, Any]] = []

    @property
    def body(self) -> dict[str, Any]:
        """The response."""
        return {
            "id": self.id, "object": "response", "created_at": self._created, "status": self._status,
            "background": False, "model": self._asked.chat.model, "output": [*self._output], **self._asked.shown,
            **self._rest,
        }  # fmt: skip

    @property
    def message(self) -> dict[str, Any]:
        """What was written, as a message of a chat."""
        text, calls = "", []
        for item in self._output:
            if item["type"] == "message":
                text += item["content"][0]["text"]
            elif item["type"] == "function_call":
                function = {"name": item["name"], "arguments": item["arguments"]}
                calls.append({"id": item["call_id"], "type": "function", "function": function})
        return {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})

    @property
    def thoughts(self) -> str:
        """What the model thought before it answered."""
        return "".join(item["content"][0]["text"] for item in self._output if item["type"] == "reasoning")

    def begin(self) -> Iterator[Event]:
        yield self._event("response.created", response=self.body)
        yield self._event("response.in_progress", response=self.body)

    def take(self, parts: list[Part], probabilities: list[dict[str, Any]]) -> Iterator[Event]:
        """``probabilities``: of the tokens that brought these parts, as a chat tells them."""
        self._pending += probabilities
        self._latest = probabilities
        for part in parts:
            if part.call is not None:
                yield from self._close()
                yield from self._call(part.call)
            elif part.text:
                yield from self._written("reasoning" if part.kind == "thought" else "message", part.text)

    def end(self, end: End, thought: int) -> Iterator[Event]:
        """``thought``: tokens of what the model thought."""
        yield from self._close("incomplete" if end.reason == "length" else "completed")
        cut = end.reason == "length"
        self._status = "incomplete" if cut else "completed"
        self._rest |= {
            "completed_at": int(time.time()),
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "usage": {
                "input_tokens": end.prompt,
                "input_tokens_details": {"cached_tokens": end.reused, "cache_write_tokens": 0},
                "output_tokens": end.written,
                "output_tokens_details": {"reasoning_tokens": min(thought, end.written)},
                "total_tokens": end.prompt + end.written,
            },
        }
        yield self._event(f"response.{self._status}", response=self.body)

    def fail(self, message: str, code: str) -> Iterator[Event]:
        self._status, self._open = "failed", None
        self._rest["error"] = {"code": code, "message": message}
        yield self._event("response.failed", response=self.body)

    # -- items ------------------------------------------------------------------------------------------------------

    def _event(self, kind: str, **values: Any) -> Event:
        found = {"type": kind, "sequence_number": self._number, **values}
        self._number += 1
        return found

    def _written(self, kind: str, text: str) -> Iterator[Event]:
        if self._open is None or self._open["type"] != kind:
            yield from self._close()
            yield from self._start(kind)
        assert self._open is not None
        content = self._open["content"][0]
        content["text"] += text
        if kind == "reasoning":
            yield self._event("response.reasoning_text.delta", **self._place(), delta=text)
            return
        told, self._pending = self._pending, []
        content["logprobs"] += told
        yield self._event("response.output_text.delta", **self._place(), delta=text, logprobs=told)

    def _place(self) -> dict[str, Any]:
        assert self._open is not None
        return {"item_id": self._open["id"], "output_index": len(self._output) - 1, "content_index": 0}

    def _start(self, kind: str) -> Iterator[Event]:
        if kind == "reasoning":
            item: dict[str, Any] = {"id": _identity("rs"), "type": kind, "summary": [], "status": "in_progress"}
            part: dict[str, Any] = {"type": "reasoning_text", "text": ""}
        else:
            item = {"id": _identity("msg"), "type": kind, "role": "assistant", "status": "in_progress"}
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            if self._output:  # the others are of thoughts, calls and marks before
                self._pending = [*self._latest]
        self._output.append(item)
        yield self._event("response.output_item.added", output_index=len(self._output) - 1, item=item | {"content": []})
        self._open = item
        yield self._event("response.content_part.added", **self._place(), part=dict(part))
        item["content"] = [part]

    def _close(self, status: str = "completed") -> Iterator[Event]:
        item = self._open
        if item is None:
            return
        part, place = item["content"][0], self._place()
        item["status"] = status
        if item["type"] == "reasoning":
            yield self._event("response.reasoning_text.done", **place, text=part["text"])
        else:
            part["logprobs"] += self._pending
            yield self._event("response.output_text.done", **place, text=part["text"], logprobs=part["logprobs"])
        yield self._event("response.content_part.done", **place, part=part)
        yield self._event("response.output_item.done", output_index=place["output_index"], item=item)
        self._open = None

    def _call(self, call: dict[str, Any]) -> Iterator[Event]:
        function, at = call["function"], len(self._output)
        item = {
            "id": _identity("fc"), "type": "function_call", "call_id": call["id"], "name": function["name"],
            "arguments": "", "status": "in_progress",
        }  # fmt: skip
        yield self._event("response.output_item.added", output_index=at, item=dict(item))
        item |= {"arguments": function["arguments"], "status": "completed"}
        self._output.append(item)
        place = {"item_id": item["id"], "output_index": at}
        yield self._event("response.function_call_arguments.delta", **place, delta=item["arguments"])
        yield self._event(
            "response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"]
        )  # fmt: skip
        yield self._event("response.output_item.done", output_index=at, item=item)


def encoded(event: Event) -> bytes:
    """A server-sent event."""
    return f"event: {event['type']}\n".encode() + b"data: " + as_json(event) + b"\n\n"


__all__ = ["ResponseWriter", "encoded"]
