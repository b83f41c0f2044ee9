"""Tokens to text as they come, with characters that are not complete yet held back."""

from __future__ import annotations

import codecs
from collections.abc import Callable


class TextStream:
    """Takes tokens one by one and gives the text that is sure.

    ``to_bytes``: a token's bytes. ``strip``: whether one space at the very beginning is left out, as SentencePiece's
    texts have it. What is given, joined, is the bytes of all tokens in UTF-8, with U+FFFD for what is none.
    """

    def __init__(self, to_bytes: Callable[[int], bytes], strip: bool = False) -> None:
        self._to_bytes, self._strip = to_bytes, strip
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that the token adds; empty while a character is incomplete."""
        return self._taken(self._decoder.decode(self._to_bytes(token)))

    def finish(self) -> str:
        """What is held back; the next token begins a new text."""
        text = self._taken(self._decoder.decode(b"", True))
        self._decoder.reset()
        return text

    def _taken(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text[1:] if text.startswith(" ") else text
        return text
