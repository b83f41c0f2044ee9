"""Reads prototxt files: protobuf's text format, without a description of its messages.

So the fields of forks are read too, and what is done about each is the layer's matter. The format is at
https://protobuf.dev/reference/protobuf/textformat-spec/; names of extensions in brackets are not Caffe's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from MNN.errors import FormatError
from MNN.frontends.caffe.message import Field, Message

MAX_BYTES = 16 << 20
MAX_DEPTH = 32
MAX_TOKENS = 1 << 19
"""Far above the largest networks (ResNet-152 has 10,000 lines), low enough to end in seconds."""

_TOKEN = re.compile(
    r"""(?: (?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*')
      | (?P<number>-?\s*(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?)(?![\w.]))
      | (?P<word>-?[A-Za-z_]\w*)
      | (?P<sign>[][{}<>:;,])
      | (?P<end>\Z))""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\s+|#[^\n]*")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CLOSING = {"{": "}", "<": ">"}


def parse(data: bytes, name: str) -> Message:
    """The message that a prototxt file holds; ``name`` is what errors call the file.

    Raises :class:`FormatError`, with the line, for text that is none.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"{name} is text of {len(data) >> 20} MiB; descriptions of networks have at most 16")
    return _Parser(data.decode("utf-8-sig", "replace"), name).message()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.place = 0
        self.tokens = self._tokens()
        self.kind, self.token = "", ""
        self.advance()

    def _tokens(self) -> Iterator[tuple[str, str]]:
        at = 0
        for _ in range(MAX_TOKENS):
            while (blank := _BLANK.match(self.text, at)) is not None:
                at = blank.end()
            found = _TOKEN.match(self.text, at)
            if found is None or found.lastgroup is None:
                self.place = at
                raise self.wrong(f"{self.text[at : at + 20]!r} is no part of the format; is the file cut off?")
            self.place, at = found.start(found.lastgroup), found.end()
            yield found.lastgroup, found[found.lastgroup]
            if found.lastgroup == "end":
                return
        raise self.wrong(f"it goes on beyond {MAX_TOKENS} words")

    def advance(self) -> str:
        """Goes to the next token and gives this one."""
        token = self.token
        self.kind, self.token = next(self.tokens)
        return token

    def message(self) -> Message:
        whole = Message(self.name)
        open_messages, closings = [whole], [""]
        while True:
            if self.kind == "end":
                if closings[-1]:
                    raise self.wrong(f"the file ends where a '{closings[-1]}' is missing: is it cut off?")
                return whole
            if closings[-1] and self.token == closings[-1]:
                self.advance()
                self._skip_separator()
                open_messages.pop()
                closings.pop()
                continue
            if self.kind != "word":
                raise self.wrong(f"expected the name of a field, found '{self.token}'")
            current, name = open_messages[-1], self.advance()
            colon = self.token == ":"
            if colon:
                self.advance()
            if self.token in _CLOSING and self.kind == "sign":
                if len(closings) > MAX_DEPTH:
                    raise self.wrong(f"messages within messages, more than {MAX_DEPTH} deep")
                inner = Message(f"{current.where}, {name}")
                current.add(name, inner)
                open_messages.append(inner)
                closings.append(_CLOSING[self.advance()])
                continue
            if not colon:
                raise self.wrong(f"expected ':' or '{{' after '{name}', found '{self.token or 'the end'}'")
            for value in self._values():
                current.add(name, value)
            self._skip_separator()

    def _skip_separator(self) -> None:
        if self.kind == "sign" and self.token in (",", ";"):
            self.advance()

    def _values(self) -> Iterator[Field]:
        """One value, or those of a list."""
        if self.token != "[" or self.kind != "sign":
            yield self._value()
            return
        self.advance()
        while self.token != "]":
            yield self._value()
            if self.token == ",":
                self.advance()
            elif self.token != "]":
                raise self.wrong(f"expected ',' or ']' in a list, found '{self.token or 'the end'}'")
        self.advance()

    def _value(self) -> Field:
        if self.kind == "string":
            parts = []
            while self.kind == "string":
                parts.append(_ESCAPE.sub(_unescaped, self.advance()[1:-1]))
            return "".join(parts)
        if self.kind == "number":
            return self._number(self.advance().replace(" ", ""))
        if self.kind == "word":
            word = self.advance()
            return float(word) if word.lower() in ("-inf", "-infinity", "-nan") else word
        raise self.wrong(f"expected a value, found '{self.token or 'the end'}'")

    def _number(self, token: str) -> int | float:
        try:
            digits = token.lstrip("-")
            if digits[:2].lower() == "0x":
                return int(token, 16)
            if digits.isdecimal():
                return int(token, 8 if digits[0] == "0" and len(digits) > 1 and digits.isdigit() else 10)
            return float(token.rstrip("fF"))
        except ValueError as error:
            raise self.wrong(f"'{token:.40}' is no number") from error

    def wrong(self, problem: str) -> FormatError:
        line = self.text.count("\n", 0, self.place) + 1
        return FormatError(f"{self.name}, line {line}: {problem}")


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    if found[2] is not None:
        return chr(int(found[2], 8) & 0xFF)
    return _ESCAPED.get(found[3], found[3])
