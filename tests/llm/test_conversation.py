"""Conversations on the command line, in front of a model that only notes what it is given."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from MNN.cli.language import chat
from MNN.cli.language.conversation import Conversation, Reply
from MNN.errors import MNNError
from MNN.llm.answer import Cost


def talk(template: str | None) -> tuple[Conversation, list[Any]]:
    """A conversation, and what the model is asked with."""
    asked: list[Any] = []

    def stream(messages: Any, max_tokens: int | None, **options: Any) -> Any:
        asked.append(messages)
        return SimpleNamespace(text=f" answer {len(asked)}")

    llm: Any = SimpleNamespace(
        adapters=(), tokenizer=SimpleNamespace(chat_template=template), stream=stream, prompt=list, max_length=99
    )  # fmt: skip
    return Conversation(llm, {"temperature": 0.0}), asked


def say(conversation: Conversation, question: str) -> None:
    conversation.keep(question, conversation.ask(question))


def test_without_a_template_the_model_goes_on_with_the_text() -> None:
    conversation, asked = talk(None)
    say(conversation, "Once upon")
    say(conversation, "And then")
    assert asked == ["Once upon", "Once upon answer 1\nAnd then"]
    told = conversation.obey("/tokens")
    assert told == Reply(f"{len('Once upon answer 1') + len('/And then answer 2')} of 99")


def test_with_a_template_it_is_given_messages() -> None:
    conversation, asked = talk("{{ messages }}")
    say(conversation, "Hello")
    say(conversation, "Again")
    assert [message["content"] for message in asked[1]] == ["Hello", " answer 1", "Again"]


@pytest.mark.parametrize("line", ["/file {}/absent", "/file {}", "/open {}/absent", "/open {}", "/save {}/absent/x"])
def test_files_that_are_not_there_end_no_conversation(line: str, tmp_path: Path) -> None:
    conversation, _ = talk(None)
    say(conversation, "Hello")
    with pytest.raises(MNNError, match=str(tmp_path)):
        conversation.obey(line.format(tmp_path))
    assert len(conversation.messages) == 2


@pytest.mark.parametrize(
    "line", ["/file a\0b", "/file ~no such user/x", "/save ~no such user/x", "/set temperature " + "[" * 100_000]
)
def test_what_python_refuses_ends_no_conversation(line: str) -> None:
    with pytest.raises(MNNError, match=f"^{line.split()[0]} "):
        talk(None)[0].obey(line)


def test_devices_are_not_read_without_end() -> None:
    with pytest.raises(MNNError, match="/dev/zero has more than 1048576 characters"):
        talk(None)[0].obey("/file /dev/zero")


def test_whether_is_no_number_of_tokens() -> None:
    with pytest.raises(MNNError, match="max_tokens is a number from 1 on, not true"):
        talk(None)[0].obey("/set max_tokens true")


def test_what_is_no_text_is_saved_and_opened(tmp_path: Path) -> None:
    """Terminals give such bytes where someone pastes them."""
    conversation, _ = talk(None)
    say(conversation, "a \udcff byte")
    before = list(conversation.messages)
    for line in (f"/save {tmp_path}/saved", "/reset", f"/open {tmp_path}/saved"):
        conversation.obey(line)
    assert conversation.messages == before


def test_bytes_that_are_no_text_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation, asked = talk(None)
    given = io.TextIOWrapper(io.BytesIO(b"a \xff byte\n"), encoding="utf-8", errors="strict")
    monkeypatch.setattr(sys, "stdin", given)
    with mock.patch.object(chat, "_answer", lambda told, question, say: told.ask(question)):
        chat._talk(conversation, lambda cost: None)
    assert asked == ["a \ufffd byte"]


@pytest.mark.parametrize("terminal", [True, False])
def test_ctrl_c_before_there_is_an_answer(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    """Ends the answer in a terminal, and nothing of it is kept; others end."""
    conversation, _ = talk(None)
    say(conversation, "Hello")
    conversation.beams = 4
    before = list(conversation.messages)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: terminal))
    lines = mock.Mock(side_effect=["/again", "/exit"])
    monkeypatch.setattr("builtins.input", lines)
    with mock.patch.object(conversation, "best", side_effect=KeyboardInterrupt):
        if terminal:
            chat._talk(conversation, lambda cost: None)
            assert (conversation.messages, lines.call_count) == (before, 2)
        else:
            with pytest.raises(KeyboardInterrupt):
                chat._talk(conversation, lambda cost: None)


def test_an_answer_that_goes_round_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    conversation, _ = talk(None)

    class Endless:
        """Says two tokens in turn until it is cancelled."""

        def __init__(self) -> None:
            self.tokens: list[int] = []
            self.ended, self.text, self.cost = False, "", Cost()

        def __iter__(self) -> Iterator[str]:
            while not self.ended:
                self.tokens.append(len(self.tokens) % 2)
                assert len(self.tokens) < 1000
                yield "ab"[self.tokens[-1]]

        def cancel(self) -> None:
            self.ended = True

    answer: Any = Endless()
    with mock.patch.object(conversation, "ask", return_value=answer):
        chat._answer(conversation, "What?", lambda cost: None)
    assert len(answer.tokens) == 256
    shown = capsys.readouterr()
    assert shown.out.strip() == "ab" * 128
    assert "the last 2 tokens again and again" in shown.err
