"""Answers taken apart: the same parts come out however the text is cut into pieces."""

from __future__ import annotations

import json
import random

import pytest

from MNN.llm.server.reading import AnswerReader, Part

CALL = '{"name": "f", "arguments": {"x": "<tool_call>"}}'
OTHER = '{"name": "g", "parameters": {}}'


def read(text: str, tools: bool, thinking: bool, rng: random.Random) -> list[tuple[str, object]]:
    """Kinds with their texts, neighbours joined; calls with names and arguments."""
    reader, parts, place = AnswerReader(tools, thinking), [], 0
    while place < len(text):
        step = rng.randint(1, 12)
        parts += reader.push(text[place : place + step])
        place += step
    parts += reader.finish()
    found: list[tuple[str, object]] = []
    for part in parts:
        if part.call is not None:
            function = part.call["function"]
            found.append(("call", (function["name"], json.loads(function["arguments"]))))
        elif found and found[-1][0] == part.kind:
            found[-1] = part.kind, str(found[-1][1]) + part.text
        else:
            found.append((part.kind, part.text))
    return found


@pytest.mark.parametrize(
    ("text", "tools", "thinking", "expected"),
    [
        ("plain text", False, False, [("text", "plain text")]),
        ("  plain ", False, False, [("text", "  plain ")]),
        ("plain ", True, False, [("text", "plain ")]),
        ("", True, True, []),
        ("<think>a b\n\n</think>\n\nyes", False, False, [("thought", "a b"), ("text", "yes")]),
        ("a < b\n</think>yes </think>", False, True, [("thought", "a < b"), ("text", "yes </think>")]),
        ("<think>endless ", False, False, [("thought", "endless")]),
        ("<thin air", False, False, [("text", "<thin air")]),
        ("yes <think>", False, False, [("text", "yes <think>")]),
        (f"<tool_call>\n{CALL}\n</tool_call>", True, False, [("call", ("f", {"x": "<tool_call>"}))]),
        (f"<tool_call>{CALL}</tool_call>", False, False, [("text", f"<tool_call>{CALL}</tool_call>")]),
        (
            f"Look: <tool_call>{CALL}</tool_call>\n<tool_call>{OTHER}</tool_call> ",
            True,
            False,
            [("text", "Look: "), ("call", ("f", {"x": "<tool_call>"})), ("call", ("g", {}))],
        ),
        (f"<tool_call>{OTHER}", True, False, [("call", ("g", {}))]),
        ("<tool_call>{broken</tool_call>", True, False, [("text", "<tool_call>{broken</tool_call>")]),
        (f"[TOOL_CALLS][{OTHER}, {CALL}]", True, False, [("call", ("g", {})), ("call", ("f", {"x": "<tool_call>"}))]),
        (OTHER, True, False, [("call", ("g", {}))]),
        ('{"no": "call"}', True, False, [("text", '{"no": "call"}')]),
        ('{"name": "f", "arguments": 3}', True, False, [("text", '{"name": "f", "arguments": 3}')]),
        (OTHER, False, False, [("text", OTHER)]),
        ("[" * 100_000, True, False, [("text", "[" * 100_000)]),
        ("1 <2, <tool_ and", True, False, [("text", "1 <2, <tool_ and")]),
    ],
)
def test_parts(text: str, tools: bool, thinking: bool, expected: list[tuple[str, object]]) -> None:
    for seed in range(30 if len(text) < 1000 else 1):
        assert read(text, tools, thinking, random.Random(seed)) == expected


def test_what_is_sure_is_given_at_once() -> None:
    reader = AnswerReader(tools=True)
    assert reader.push("Hello <too") == [Part("text", "Hello ")]
    assert reader.push("ls> and") == [Part("text", "<tools> and")]
    assert AnswerReader(tools=False).push("a") == [Part("text", "a")]


def test_a_single_call() -> None:
    """Where a client takes one call at a time, what a model calls besides is left out."""
    written = f"<tool_call>{CALL}</tool_call><tool_call>{OTHER}</tool_call> and [{CALL}]"
    reader = AnswerReader(True, single=True)
    parts = [*reader.push(written), *reader.finish()]
    names = [part.call["function"]["name"] for part in parts if part.call is not None]
    assert names == ["f"]
