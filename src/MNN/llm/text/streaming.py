"""Tokens to text as they come, with characters that are not complete yet held back."""

from __future__ import annotations

import codecs
from collections.abc import Callable


class TextStream:
    """Takes tokens one by one and gives the text that is sure.

    ``to_bytes``: a token's bytes, also by whether it is the text's first one; None for tokens that are no part of it.
    ``strip``: how many spaces at the very beginning are left out, as SentencePiece's texts have one. What is given,
    joined, is the bytes of all tokens in UTF-8, with U+FFFD for what is none.
    """

    def __init__(self, to_bytes: Callable[[int, bool], bytes | None], strip: int = 0) -> None:
        self._to_bytes, self._strip = to_bytes, strip
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._first, self._left = True, strip

    def push(self, token: int) -> str:
        """The text that the token adds; empty while a character is incomplete."""
        data = self._to_bytes(token, self._first)
        if data is None:
            return ""
        self._first = False
        return self._taken(self._decoder.decode(data))

    def finish(self) -> str:
        """What is held back; the next token begins a new text."""
        text = self._taken(self._decoder.decode(b"", True))
        self._decoder.reset()
        self._first, self._left = True, self._strip
        return text

    def _taken(self, text: str) -> str:
        """The text without those spaces of the beginning that are to be left out still."""
        if self._left and text:
            spaces = len(text) - len(text.lstrip(" "))
            cut = min(spaces, self._left)
            self._left = self._left - cut if cut == len(text) else 0
            return text[cut:]
        return text
