"""Conversations whose texts are never read as control tokens, whatever is written in them.

A chat template writes one text, in which the control tokens of the template (``<|im_end|>``) and those that somebody
wrote into a message look alike. So the latter are marked before: some digits that are drawn for each model, which no
template changes and nobody guesses, stand behind their first character. In the text that the template gives, each
control token that is not marked becomes a name of its own, by which alone a twin of the tokenizer knows it; then the
marks are taken out. To the twin all else is text, and it cuts texts as the tokenizer itself does.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from MNN.errors import FormatError
from MNN.llm.text.library import refused, tokenizers

_DRAWN = 20
"""Digits of a mark and of the beginning of names."""
_NUMBERED = 7
_NO_CHARACTERS = {ord("0") + i: 0xFDD0 + i for i in range(10)}
"""Of names: code points that are no characters, nor of words, of which some tokens ask that none is beside them."""
_WHOLE = ("role", "type")
"""What of a message is no text: templates compare it, and some write it into control tokens."""
_TRUSTED = ("assistant", "system", "developer")
"""Whose thoughts and calls may be tokens: the model wrote them, or who made the program tells what they are."""


class LiteralTexts:
    """Marks and reads the texts of conversations. ``core``: a ``tokenizers.Tokenizer``. ``templates``: sources of the
    model's chat templates: added tokens that these name are control tokens too (``<tool_call>``, which files often do
    not call special), but for messages of the model itself and of the system, which have them."""

    def __init__(self, core: Any, templates: Iterable[str]) -> None:
        sources = list(templates)
        added = sorted(core.get_added_tokens_decoder().items())
        named = {t.content: t.special for _, t in added if t.special or any(t.content in s for s in sources)}
        named = {text: special for text, special in named.items() if special or any(c.isalnum() for c in text)}
        self._core = core
        self._drawn = [str(10 ** (_DRAWN - 1) + secrets.randbelow(9 * 10 ** (_DRAWN - 1))) for _ in range(2)]
        self._names = {
            text: f"{self._drawn[1]}{i:0{_NUMBERED}}".translate(_NO_CHARACTERS) for i, text in enumerate(named)
        }
        tokens = [token for _, token in added if token.content]
        self._words = {token.content for token in tokens if token.single_word}
        self._written = [_any_of([t for t in tokens if t.normalized is late]) for late in (False, True)]
        self._special = _Marks(self._drawn[0], [text for text, special in named.items() if special])
        self._all = _Marks(self._drawn[0], list(named))
        self._twin = self._made_twin()

    def marked(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages, with marks where control tokens are written in them; the same where there are none."""
        return [self._of_message(message) for message in messages]

    def marked_value(self, value: Any) -> Any:
        """The same for tools and documents."""
        return self._all.of(value)

    def _of_message(self, message: dict[str, Any]) -> dict[str, Any]:
        marks = self._special if message.get("role") in _TRUSTED else self._all
        return {key: value if key in _WHOLE else marks.of(value) for key, value in message.items()}

    def encode(self, text: str) -> tuple[str, list[int]]:
        """The text that a template made of marked values, without marks, and its tokens."""
        drawn = self._drawn[0]
        ours = self._named(text, self._written).replace(drawn, "")
        with refused("the model's tokenizer cannot encode the text"):
            ids: list[int] = self._twin.encode(ours, add_special_tokens=False).ids
        return text.replace(drawn, ""), ids

    def _named(self, text: str, patterns: Sequence[re.Pattern[str]]) -> str:
        """The text with control tokens by their own names. Tokens of one pattern are found before those of the next."""
        if not patterns:
            return text
        parts, place = [], 0
        for found in patterns[0].finditer(text):
            if found[0] in self._words and _within(text, found):
                continue
            parts += [self._named(text[place : found.start()], patterns[1:]), self._names.get(found[0], found[0])]
            place = found.end()
        return "".join([*parts, self._named(text[place:], patterns[1:])])

    def _made_twin(self) -> Any:
        """The tokenizer, which knows control tokens by other names."""
        told = json.loads(self._core.to_str())
        for token in told["added_tokens"]:
            if token["content"] in self._names:  # where they stand is known, whatever is beside them
                token |= {"content": self._names[token["content"]], "normalized": False, "single_word": False}
        _rename(told["model"], self._names)
        with refused("the model's tokenizer has no form in which texts are free of control tokens"):
            twin = tokenizers().Tokenizer.from_str(json.dumps(told))
        for text, name in self._names.items():
            if twin.token_to_id(name) != self._core.token_to_id(text):
                raise FormatError(
                    f"the token {text!r} cannot be kept apart from texts by this tokenizer; leave out literal"
                )
        return twin


class _Marks:
    """Marks texts that are one of several."""

    def __init__(self, mark: str, texts: Collection[str]) -> None:
        self._mark, self._texts = mark, texts
        places = "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
        self._begins = re.compile(f"(?={places})") if texts else None

    def of(self, value: Any) -> Any:
        """A value of JSON in whose texts, names of members among them, these are marked behind the first character."""
        if isinstance(value, str):
            return self._of_text(value)
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if isinstance(value, Mapping):
            return {self._of_text(key): self.of(item) for key, item in value.items()}
        return value

    def _of_text(self, text: str) -> str:
        if self._begins is None:
            return text
        places = [found.start() + 1 for found in self._begins.finditer(text)]
        end = len(text.rstrip())
        places += [i + 1 for i in range(max(end - self._longest, 0), end) if self._goes_on(text[i:end])]
        ends = sorted(set(places))
        return self._mark.join(text[a:b] for a, b in itertools.pairwise([0, *ends, len(text)]))

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._texts))

    def _goes_on(self, rest: str) -> bool:
        """Whether a text that ends so may become one of these by what a template writes behind it: another text."""
        return any(text.startswith(rest) for text in self._texts)


def _any_of(tokens: Iterable[Any]) -> re.Pattern[str]:
    """Finds these as the library does: from the left, the longest first; with none, nothing."""
    known = sorted(tokens, key=lambda token: len(token.content), reverse=True)
    return re.compile("|".join(re.escape(token.content) for token in known) or r"(?!)")


def _within(text: str, found: re.Match[str]) -> bool:
    """Whether what is found goes on as a word on one side or stands behind one, as the library's engine knows words."""
    beside = (text[max(found.start() - 1, 0) : found.start()], text[found.end() : found.end() + 1])
    return any(c == "_" or (c.isalnum() and unicodedata.category(c) != "No") for c in beside)


def _rename(model: dict[str, Any], names: Mapping[str, str]) -> None:
    """Gives tokens of a vocabulary other names, in place; what would be merged to one of them is no more."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(text, text): number for text, number in vocabulary.items()}
    else:  # pieces with their scores
        model["vocab"] = [[names.get(text, text), score] for text, score in vocabulary]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if "merges" in model:
        pairs = [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in model["merges"]]
        model["merges"] = [(a, b) for a, b in pairs if a not in names and b not in names and a + b not in names]
