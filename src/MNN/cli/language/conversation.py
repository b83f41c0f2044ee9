"""A conversation on the command line: what was said, and the commands that change how it goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from MNN.errors import MNNError
from MNN.llm.answer import Answer
from MNN.llm.beams import Beam
from MNN.llm.language_model import LanguageModel
from MNN.llm.sampling import SamplingOptions
from MNN.llm.sampling.penalties import PENALTIES
from MNN.llm.speculation import Drafter
from MNN.schema.files import replacing

LARGEST = 1 << 20
"""Bytes of a file that is talked about."""
HELP = """\
/help                 this list
/reset                forget what was said
/system TEXT          what the model is told first, from a new beginning; without TEXT: nothing
/file PATH            put a text file before the next question
/set NAME VALUE       an option such as temperature 0.7, top_k 40, max_tokens 200; without NAME: what is set
/adapter NAME         another adapter writes (of those given as --lora); none: the model by itself
/again                another answer to the last question
/save PATH            write the conversation to a JSON file
/open PATH            go on with a conversation that was saved
/tokens               how long the conversation is
/exit                 end"""


@dataclass(frozen=True)
class Reply:
    """What a command says, or a ``question`` to be answered."""

    text: str = ""
    question: str | None = None


class Conversation:
    """``messages`` as chat templates have them."""

    def __init__(
        self, llm: LanguageModel, sampling: dict[str, Any], system: str = "", max_tokens: int | None = None,
        draft: Drafter | None = None, beams: int = 1,
    ) -> None:  # fmt: skip
        """``beams``: above 1, answers are the most probable ones that so many find."""
        self.beams = beams
        self._llm, self._sampling, self._max_tokens, self._draft = llm, sampling, max_tokens, draft
        SamplingOptions(**sampling)
        self._adapter = next(iter(llm.adapters), "")
        self.messages: list[dict[str, str]] = []
        self._files: list[str]
        self._begin(system)

    def ask(self, question: str) -> Answer:
        """The answer, still to be written."""
        options = {**self._sampling, "draft": self._draft, "adapter": self._adapter}
        return self._llm.stream(self._prompt(self._asked(question)), self._max_tokens, **options)

    def best(self, question: str) -> Beam:
        """The most probable answer that beams find."""
        penalties = {name: value for name, value in self._sampling.items() if name in PENALTIES}
        asked = self._prompt(self._asked(question))
        found = self._llm.beams(asked, self.beams, self._max_tokens, adapter=self._adapter, **penalties)
        return found[0]

    def _asked(self, question: str) -> list[dict[str, str]]:
        return [*self.messages, {"role": "user", "content": "\n\n".join([*self._files, question])}]

    def _prompt(self, messages: list[dict[str, str]]) -> list[dict[str, str]] | str:
        """What the model is given: without a chat template it goes on with the text that was written so far."""
        if self._llm.tokenizer.chat_template is not None:
            return messages
        text = ""
        for message in messages:
            text += ("\n" if text and message["role"] == "user" else "") + message["content"]
        return text

    def keep(self, question: str, answer: Answer | Beam) -> None:
        """Notes what was said."""
        self.messages += [
            *self._asked(question)[-1:],
            {"role": "assistant", "content": answer.text},
        ]
        self._files = []

    def obey(self, line: str) -> Reply | None:
        """Does what a line says; None ends the conversation. Raises :class:`MNNError` for what cannot be done, files
        that cannot be read or written too: the conversation goes on."""
        name, _, rest = line[1:].partition(" ")
        if name in ("exit", "quit", "bye"):
            return None
        commands: dict[str, Callable[[str], Reply]] = {
            "help": lambda text: Reply(HELP), "reset": self._reset, "system": self._system, "file": self._file,
            "set": self._set, "adapter": self._choose, "again": self._again, "save": self._save, "open": self._open,
            "tokens": self._tokens,
        }  # fmt: skip
        if name not in commands:
            raise MNNError(f"there is no command /{name}; /help lists them")
        try:
            return commands[name](rest.strip())
        except OSError as error:
            raise MNNError(f"/{name} {rest.strip()}: {error.strerror or error}") from error
        except (ValueError, RuntimeError) as error:  # paths with a zero byte, of no user's home; JSON without end
            raise MNNError(f"/{name} {rest.strip()[:60]}: {error}") from error

    def add_file(self, path: Path) -> None:
        """Puts a text before the next question."""
        try:
            if path.stat().st_size > LARGEST:
                raise MNNError(f"{path} has {path.stat().st_size} bytes; at most {LARGEST} can be talked about")
            with path.open(encoding="utf-8") as file:
                text = file.read(LARGEST + 1)
            if len(text) > LARGEST:  # of a device, whose size nobody knows before
                raise MNNError(f"{path} has more than {LARGEST} characters; no more can be talked about")
        except UnicodeDecodeError:
            raise MNNError(f"{path} is no text in UTF-8") from None
        self._files.append(f"{path.name}:\n```\n{text}\n```")

    def _begin(self, system: str) -> None:
        self._files = []
        self.messages = [{"role": "system", "content": system}] if system else []

    def _reset(self, text: str) -> Reply:
        self._begin(self._told())
        return Reply("forgotten")

    def _told(self) -> str:
        first = self.messages[0] if self.messages else {"role": ""}
        return first["content"] if first["role"] == "system" else ""

    def _system(self, text: str) -> Reply:
        self._begin(text)
        return Reply("a new beginning")

    def _file(self, text: str) -> Reply:
        if not text:
            raise MNNError("/file needs a path")
        self.add_file(Path(text).expanduser())
        return Reply("it goes before the next question")

    def _set(self, text: str) -> Reply:
        name, _, value = text.partition(" ")
        if not name:
            options = {**self._sampling, "max_tokens": self._max_tokens}
            return Reply(", ".join(f"{key} {'none' if v is None else v}" for key, v in options.items()))
        try:
            number = None if value == "none" else json.loads(value)
        except ValueError:
            raise MNNError(f"/set {name}: {value!r} is no number") from None
        if name == "max_tokens":
            if number is not None and (type(number) is not int or number < 1):
                raise MNNError(f"max_tokens is a number from 1 on, not {value}")
            self._max_tokens = number
        elif name not in self._sampling:
            raise MNNError(f"there is no option '{name}'; options are {', '.join(self._sampling)}, max_tokens")
        else:
            SamplingOptions(**{**self._sampling, name: number})
            self._sampling[name] = number
        return Reply(f"{name} {value}")

    def _choose(self, text: str) -> Reply:
        known = self._llm.adapters
        if text and text != "none" and text not in known:
            raise MNNError(f"there is no adapter {text!r}; there are {', '.join(known) or 'none'}")
        if text:
            self._adapter = "" if text == "none" else text
        return Reply(f"{self._adapter or 'none'} of {', '.join(known) or 'none'}")

    def _again(self, text: str) -> Reply:
        if len(self.messages) < 2 or self.messages[-1]["role"] != "assistant":
            raise MNNError("nothing was asked yet")
        *self.messages, asked, _ = self.messages
        return Reply(question=asked["content"])

    def _save(self, text: str) -> Reply:
        if not text:
            raise MNNError("/save needs a path")
        path = Path(text).expanduser()
        with replacing(path) as file:
            text = json.dumps(self.messages, ensure_ascii=False, indent=1)
            file.write(text.encode(errors="backslashreplace"))  # halves of surrogate pairs, as JSON escapes them
        return Reply(f"written to {path}")

    def _open(self, text: str) -> Reply:
        path = Path(text).expanduser()
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise MNNError(f"{path} is no saved conversation: {error}") from None
        good = isinstance(found, list) and all(
            isinstance(m, dict) and set(m) == {"role", "content"} and all(isinstance(v, str) for v in m.values())
            for m in found
        )
        if not good:
            raise MNNError(f"{path} is no saved conversation: expected is a list of objects with role and content")
        self.messages = found
        return Reply(f"{len(found)} messages")

    def _tokens(self, text: str) -> Reply:
        held = len(self._llm.prompt(self._prompt(self.messages))) if self.messages else 0
        return Reply(f"{held} of {self._llm.max_length}")


__all__ = ["Conversation", "Reply"]
