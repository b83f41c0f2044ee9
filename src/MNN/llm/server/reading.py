"""What a model writes, taken apart while it streams: thoughts, calls of functions, and text."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

THINK, THOUGHT = "<think>", "</think>"
CALL, CALLED = "<tool_call>", "</tool_call>"
LIST = "[TOOL_CALLS]"


@dataclass(frozen=True)
class Part:
    """``kind``: ``text``, ``thought`` or ``call``. ``call``: a call as OpenAI's protocol has it."""

    kind: str
    text: str = ""
    call: dict[str, Any] | None = None


class AnswerReader:
    """Takes pieces of text, gives parts. ``tools``: whether calls are looked for. ``thinking``: whether the prompt has
    begun a thought. ``single``: whether all calls but the first are left out.

    Thoughts lie in ``<think>``, calls in ``<tool_call>`` (Hermes, Qwen), behind ``[TOOL_CALLS]`` (Mistral), or are the
    whole answer (Llama 3). What is no call in the end is text.
    """

    def __init__(self, tools: bool, thinking: bool = False, single: bool = False) -> None:
        self._single = single
        self._tools, self._state = tools, "thought" if thinking else "begin"
        self._held, self._something = "", thinking
        self.calls = 0

    def push(self, text: str) -> list[Part]:
        """The parts that are sure."""
        self._held += text
        parts: list[Part] = []
        while self._step(parts):
            pass
        return parts

    def finish(self) -> list[Part]:
        """What is held back."""
        rest, self._held = self._held, ""
        if self._state in ("call", "whole"):
            return self._called(rest, (CALL if self._state == "call" else "") + rest)
        if self._state in ("begin", "thought"):
            rest = rest.rstrip() if self._state == "thought" else rest.strip() if self._something else rest
        return [Part("thought" if self._state == "thought" else "text", rest)] if rest else []

    def _step(self, parts: list[Part]) -> bool:
        """One change of state; false where more text is needed."""
        if self._state == "begin":
            return self._begin()
        if self._state == "text":
            return self._until(CALL if self._tools else "", "text", "call", parts)
        if self._state == "thought":
            return self._until(THOUGHT, "thought", "begin", parts)
        if self._state == "call" and CALLED in self._held:
            inside, _, self._held = self._held.partition(CALLED)
            parts += self._called(inside, CALL + inside + CALLED)
            self._state, self._something = "begin", True
            return True
        return False

    def _begin(self) -> bool:
        """At the beginning, or behind a thought or a call: what follows?"""
        ahead = self._held.lstrip()
        if not ahead:
            return False
        if ahead.startswith(THINK):
            self._held, self._state, self._something = ahead[len(THINK) :], "thought", True
            return True
        if self._tools and ahead.startswith((LIST, "{", "[{")):
            self._held, self._state = ahead, "whole"
            return False
        if any(mark.startswith(ahead) for mark in (THINK, *((CALL, LIST) if self._tools else ()))):
            return False
        self._held, self._state = (ahead if self._something else self._held), "text"
        return True

    def _until(self, mark: str, kind: str, after: str, parts: list[Part]) -> bool:
        """Gives what stands before a mark; what may be its beginning is held back."""
        place = self._held.find(mark) if mark else -1
        if place >= 0:
            before, self._held, self._state = self._held[:place], self._held[place + len(mark) :], after
        else:
            ends = [n for n in range(1, len(mark)) if self._held.endswith(mark[:n])]
            cut = len(self._held) - max(ends, default=0)
            if kind == "thought":  # what follows a thought is no part of it
                cut = len(self._held[:cut].rstrip())
            before, self._held = self._held[:cut], self._held[cut:]
        if kind == "thought" and place >= 0:
            before = before.rstrip()
        if before:
            parts.append(Part(kind, before))
        return place >= 0

    def _called(self, inside: str, written: str) -> list[Part]:
        calls = _calls(inside.removeprefix(LIST))
        if not calls:
            return [Part("text", written)]
        found = []
        for name, arguments in calls:
            if self._single and self.calls:
                break
            call = {
                "id": f"call_{uuid.uuid4().hex[:24]}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
            found.append(Part("call", call={"index": self.calls, **call}))
            self.calls += 1
        return found


def _calls(text: str) -> list[tuple[str, Any]]:
    """Names and arguments of the calls that a JSON text is; none where it is something else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    calls = []
    for call in found if isinstance(found, list) else [found]:
        name = call.get("name") if isinstance(call, dict) else None
        if not isinstance(name, str) or not name:
            return []
        arguments = call.get("arguments", call.get("parameters", {}))
        if not isinstance(arguments, dict):
            return []
        calls.append((name, arguments))
    return calls
