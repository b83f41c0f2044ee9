"""Text to tokens and back."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from MNN.errors import MNNError
from MNN.llm.text.library import refused, tokenizers
from MNN.llm.text.literal import LiteralTexts
from MNN.llm.text.special import SpecialTokens
from MNN.llm.text.streaming import TextStream
from MNN.llm.text.templates import ChatTemplate, plain

SPACE = "\u2581"
"""What stands for a space in SentencePiece's tokens."""


@functools.cache
def byte_characters() -> dict[str, int]:
    """The characters that stand for bytes in the tokens of byte-level BPE (GPT-2), and their bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


_UNENCODED = "the model's tokenizer cannot encode the text"
_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")
_OTHERS = 16
"""Compiled templates up to which those that are asked for by a name or a source are kept."""
_HELD = 1 << 18
"""Characters of all that are kept then: a compiled template takes a hundred times as much memory."""


class Prompt(NamedTuple):
    """A conversation as the model reads it."""

    text: str
    tokens: list[int]


class Tokenizer:
    """A model's tokenizer. ``core``: a ``tokenizers.Tokenizer``; ``templates``: chat templates by name."""

    def __init__(self, core: Any, special: SpecialTokens, templates: Mapping[str, str] | None = None) -> None:
        self.core = core
        self.special = special
        self._templates = dict(templates or {})
        self._compiled: dict[str, ChatTemplate] = {}
        self._added: dict[int, str] = {i: token.content for i, token in core.get_added_tokens_decoder().items()}
        self.special_ids: set[int] = {i for i, token in core.get_added_tokens_decoder().items() if token.special}
        self._literal: LiteralTexts | None = None
        parts = _decoder_parts(core)
        self._kinds = {part["type"] for part in parts}
        self._stripped = sum(part["start"] for part in parts if part["type"] == "Strip" and part["content"] == " ")

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text, or None."""
        return self.special.bos

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text, or None."""
        return self.special.eos

    @property
    def pad_id(self) -> int | None:
        """The token that fills up a batch, or None."""
        return self.special.pad

    @property
    def stop_ids(self) -> frozenset[int]:
        """All tokens that end an answer."""
        return self.special.stops

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, added ones included. The model's own table may have more rows."""
        return int(self.core.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text. ``add_special_tokens``: with the tokens at its beginning and end that the model expects.

        MNNError for what is no text.
        """
        if not isinstance(text, str):
            raise MNNError(f"a text is expected, not {type(text).__name__}")
        with refused(_UNENCODED):
            ids: list[int] = self.core.encode(_encodable(text), add_special_tokens=add_special_tokens).ids
        return ids

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = True) -> list[list[int]]:
        """The ids of several texts, each for itself."""
        given = [_encodable(text) for text in texts]
        with refused(_UNENCODED):
            found = self.core.encode_batch(given, add_special_tokens=add_special_tokens)
        return [encoding.ids for encoding in found]

    def encode_pair(self, first: str, second: str, longest: int) -> tuple[list[int], list[int]]:
        """The ids of two texts as one, and of which of them each token is (0 or 1). The longer one is cut at its end
        until there are no more than ``longest``. MNNError where nothing would be left of a text."""
        added = self.core.num_special_tokens_to_add(is_pair=True)
        with refused(_UNENCODED):
            both = [self.core.encode(_encodable(t), add_special_tokens=False) for t in (first, second)]
        over = sum(len(e.ids) for e in both) + added - longest
        while over > 0:
            longer = max((0, 1), key=lambda i: len(both[i].ids))
            left = len(both[longer].ids) - max(min(over, len(both[longer].ids) - len(both[1 - longer].ids)), 1)
            if left < 1:
                raise MNNError(f"a pair of texts does not fit into {longest} tokens")
            both[longer].truncate(left)
            over = sum(len(e.ids) for e in both) + added - longest
        found = self.core.post_process(*both, add_special_tokens=True)
        return list(found.ids), list(found.type_ids)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """The text of tokens. MNNError for numbers that are no ids."""
        try:
            numbers = [int(i) for i in ids]
        except (OverflowError, TypeError, ValueError) as error:
            raise MNNError(f"ids of tokens are natural numbers: {error}") from error
        wrong = next((i for i in numbers if not 0 <= i < 1 << 32), None)
        if wrong is not None:
            raise MNNError(f"ids of tokens are natural numbers of 32 bits, not {wrong}")
        with refused("the model's tokenizer cannot decode these tokens"):
            text: str = self.core.decode(numbers, skip_special_tokens=skip_special_tokens)
        return text

    def stream(self, skip_special_tokens: bool = True) -> TextStream:
        """Text as tokens come: ``push(id)`` gives what is sure, ``finish()`` the rest."""

        def of_token(token: int, first: bool) -> bytes | None:
            return None if skip_special_tokens and token in self.special_ids else self._bytes(token, first)

        return TextStream(of_token, self._stripped)

    def bytes_of(self, token: int) -> bytes:
        """The bytes of one token within a text; none for ids without a token."""
        return self._bytes(token, first=False) or b""

    def _bytes(self, token: int, first: bool) -> bytes | None:
        """The bytes of a token, at the beginning of a text or within it. None for ids without a token."""
        added = self._added.get(token)
        text: str | None = self.core.id_to_token(token) if added is None else added
        if text is None:
            return None
        if "ByteLevel" in self._kinds:
            table = byte_characters()
            plain = added is not None or not all(c in table for c in text)
            return text.encode() if plain else bytes(table[c] for c in text)
        if "ByteFallback" in self._kinds and (byte := _BYTE.fullmatch(text)):
            return bytes([int(byte[1], 16)])
        begins = first and not self._stripped  # else a stream strips the text, of which the token may be only a part
        before, after = ([], 0) if begins else (["a"], 1)
        whole, behind = self._joined([*before, text, "b"]), self._joined(["a", "b"])[1:]
        return whole[after : len(whole) - len(behind)].encode()

    def _joined(self, tokens: list[str]) -> str:
        """The text of tokens given by their texts."""
        decoder = self.core.decoder
        text: str = " ".join(tokens) if decoder is None else decoder.decode(tokens)
        return text

    def id_of(self, token: str) -> int | None:
        """The id of a token by its text in the vocabulary, or None."""
        found: int | None = self.core.token_to_id(token)
        return found

    @property
    def chat_template(self) -> str | None:
        """The source of the model's chat template, or None."""
        return self._templates.get("default")

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **values: Any,
    ) -> str:
        """The text that the model was trained on for a conversation; encode it without special tokens.

        ``messages``: ``role`` and ``content`` and what else the template knows. ``tools``: functions in JSON schema, as
        OpenAI's protocol has them. ``add_generation_prompt``: ends where the model's answer begins. ``values``: what
        else the template takes (``enable_thinking=False``); ``chat_template`` is another template, by its name or
        source. MNNError where there is no template, it refuses the messages, or it fails.
        """
        chosen = values.pop("chat_template", None)
        name = chosen or ("tool_use" if tools and "tool_use" in self._templates else "default")
        source = self._templates.get(name, chosen)
        if source is None:
            raise MNNError("the model has no chat template; give one (chat_template=...), or write the prompt yourself")
        template = self._compiled.get(source)
        if template is None:
            template = ChatTemplate(source)
            held = len(source) + sum(map(len, self._compiled))
            if not chosen or (len(self._compiled) < _OTHERS and held <= _HELD):  # clients of a server give any
                self._compiled[source] = template
        return template.render(
            messages=messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            **{"documents": None, **self.special.texts, **values},
        )

    def prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **values: Any,
    ) -> Prompt:
        """What :meth:`apply_chat_template` gives, with its tokens."""
        if self._literal is not None:
            told = plain(messages, "messages"), plain(tools, "tools"), plain(values.get("documents"), "documents")
            marked = self._literal.marked(told[0]), *map(self._literal.marked_value, told[1:])
            if marked != told:
                values |= {"documents": marked[2]}
                return Prompt(*self._literal.encode(self.apply_chat_template(*marked[:2], **values)))
        text = self.apply_chat_template(messages, tools, **values)
        return Prompt(text, self.encode(text, add_special_tokens=False))

    def read_literally(self, literal: bool = True) -> None:
        """Has control tokens of prompts be those of the chat template alone: a message with ``<|im_end|>`` in it has
        the tokens of these characters, and does not end there. Takes a second or two for a large vocabulary. MNNError
        for tokenizers that cannot."""
        if literal and self._literal is None:
            self._literal = LiteralTexts(self.core, self._templates.values())
        elif not literal:
            self._literal = None

    def __repr__(self) -> str:
        return f"Tokenizer({self.vocab_size} tokens)"


def _encodable(text: str) -> str:
    """Lone surrogates, which no UTF-8 has, become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _decoder_parts(core: Any) -> list[dict[str, Any]]:
    """What the decoder is made of."""
    decoder = core.decoder
    if decoder is None:
        return []
    state = json.loads(decoder.__getstate__())
    return [state, *state.get("decoders", [])]


def core_from_json(text: str, where: str) -> Any:
    """A ``tokenizers.Tokenizer`` from the text of a ``tokenizer.json``. MNNError where it is none."""
    with refused(f"{where} cannot be read as a tokenizer"):
        core = tokenizers().Tokenizer.from_str(text)
    core.no_truncation()  # these are habits of how it was trained, not of the tokenizer
    core.no_padding()
    return core
