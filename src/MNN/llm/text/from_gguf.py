"""The tokenizer inside a GGUF file."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.gguf.reader import GGUF
from MNN.llm.text import builders
from MNN.llm.text.pretokenizers import KINDS, Kind
from MNN.llm.text.special import SpecialTokens, stop_ids
from MNN.llm.text.tokenizer import SPACE, Tokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_MERGED = (NORMAL, USER_DEFINED)
PREFIX = "tokenizer.ggml."
_TEMPLATE = "tokenizer.chat_template"
_NAMES = {
    "bos": "bos",
    "eos": "eos",
    "unknown": "unk",
    "padding": "pad",
    "seperator": "sep",
    "cls": "cls",
    "mask": "mask",
}


class _Vocabulary:
    """The tokens of a file with their kinds and scores, verified."""

    def __init__(self, file: GGUF) -> None:
        self.file = file
        tokens = file.get(f"{PREFIX}tokens", list)
        if set(map(type, tokens or ())) != {str}:
            raise FormatError(f"{file.path} has no {PREFIX}tokens; it holds no tokenizer")
        self.tokens: list[str] = tokens
        self.types = self._numbers("token_type", np.full(len(tokens), NORMAL)).astype(np.int64)
        self.ids = {token: i for i, token in enumerate(tokens)}

    def _numbers(self, name: str, default: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
        found = self.file.get(PREFIX + name, np.ndarray, default)
        if found.shape != (len(self.tokens),):
            raise FormatError(
                f"{self.file.path}: {PREFIX}{name} has {found.size} entries for {len(self.tokens)} tokens"
            )
        return np.asarray(found)

    @property
    def scores(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        found = self._numbers("scores", np.zeros(len(self.tokens))).astype(np.float64)
        if not np.isfinite(found).all():
            raise FormatError(f"{self.file.path}: {PREFIX}scores are not all numbers")
        return found

    @property
    def added(self) -> list[tuple[str, bool]]:
        chosen = np.flatnonzero(np.isin(self.types, (CONTROL, USER_DEFINED, UNKNOWN)))
        return [(self.tokens[i], bool(self.types[i] != USER_DEFINED)) for i in chosen]

    def special(self, name: str) -> int | None:
        """The id that the file names, if there is such a token."""
        found = self.file.get(f"{PREFIX}{name}_token_id", int)
        if found is None or not 0 <= found < len(self.tokens):
            return None
        return int(found)

    def flag(self, name: str, default: bool) -> bool:
        return bool(self.file.get(PREFIX + name, bool, default))


def tokenizer_of(file: GGUF) -> Tokenizer:
    """The tokenizer. FormatError where the file has none or a broken one, UnsupportedError for unknown kinds."""
    words = _Vocabulary(file)
    model = file.get(f"{PREFIX}model", str, "")
    makers = {"gpt2": _byte_level, "llama": _pieces, "t5": _unigram, "bert": _word_piece}
    if model not in makers:
        raise UnsupportedError(f"{file.path}: tokenizers of kind {model!r} cannot be read; {', '.join(makers)} can")
    core = makers[model](words)
    builders.add_tokens(core, words.added)
    ids = {name: words.special(name) for name in _NAMES}
    if model == "bert":
        ids["cls"] = ids["cls"] if ids["cls"] is not None else ids["bos"]
    begins, ends = _surrounding(words, model, ids)
    builders.surround(core, begins, ends)
    return Tokenizer(core, _special(words, ids), _templates(file))


def _special(words: _Vocabulary, ids: dict[str, int | None]) -> SpecialTokens:
    texts = {f"{_NAMES[name]}_token": words.tokens[i] for name, i in ids.items() if i is not None}
    added = dict(words.added)
    named = (ids["eos"], words.special("eot"), words.special("eom"))
    stops = stop_ids(named, lambda text: words.ids[text] if added.get(text) else None)
    return SpecialTokens(ids["bos"], ids["eos"], ids["padding"], ids["unknown"], stops, texts)


def _surrounding(
    words: _Vocabulary, model: str, ids: dict[str, int | None]
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The tokens before and after each text."""
    kind = KINDS.get(words.file.get(f"{PREFIX}pre", str, "default")) if model == "gpt2" else None
    begin = words.flag("add_bos_token", kind.begins if kind else model in ("llama", "bert"))
    end = words.flag("add_eos_token", model == "t5") or words.flag("add_sep_token", model == "bert")
    first = ids["cls"] if model == "bert" else ids["bos"]
    last = ids["seperator"] if model == "bert" else ids["eos"]
    before = [(words.tokens[first], first)] if begin and first is not None else []
    after = [(words.tokens[last], last)] if end and last is not None else []
    return before, after


def _templates(file: GGUF) -> dict[str, str]:
    default = file.get(_TEMPLATE, str)
    names = file.get("tokenizer.chat_templates", list, [])
    found = {str(name): file.get(f"{_TEMPLATE}.{name}", str) for name in names} | {"default": default}
    return {name: source for name, source in found.items() if source}


def _byte_level(words: _Vocabulary) -> Any:
    name = words.file.get(f"{PREFIX}pre", str, "default")
    kind: Kind | None = KINDS.get(name)
    if kind is None:
        raise UnsupportedError(f"{words.file.path}: texts cut as {name!r} ({PREFIX}pre) are not known")
    merges: list[str] = words.file.get(f"{PREFIX}merges", list, [])
    parts = [merge.partition(" ") for merge in merges]
    pairs = [(left, right) for left, _, right in parts if left and right]
    if len(pairs) < len(merges):
        wrong = next(merge for merge, (left, _, right) in zip(merges, parts, strict=True) if not (left and right))
        raise FormatError(f"{words.file.path}: the merge {wrong!r} is no pair of tokens")
    return builders.byte_level(words.ids, pairs, kind)


def _pieces(words: _Vocabulary) -> Any:
    unknown = words.special("unknown")
    if unknown is None:
        unknown = next((i for i, kind in enumerate(words.types) if kind == UNKNOWN), None)
    kinds, scores = words.types.tolist(), words.scores.tolist()
    normal = {t: s for t, s, kind in zip(words.tokens, scores, kinds, strict=True) if kind in _MERGED}
    merges = builders.scored_merges(normal, words.ids)
    fallback = any(kind == BYTE for kind in kinds)
    core = builders.piece_bpe(words.ids, merges, None if unknown is None else words.tokens[unknown], fallback)
    builders.spaces(core, prefix=words.flag("add_space_prefix", True))
    return core


def _unigram(words: _Vocabulary) -> Any:
    charsmap = words.file.get(f"{PREFIX}precompiled_charsmap", np.ndarray, np.zeros(0, np.uint8))
    core = builders.unigram(
        list(zip(words.tokens, words.scores.tolist(), strict=True)),
        words.special("unknown"),
        byte_fallback=bool((words.types == BYTE).any()),
    )
    builders.spaces(
        core,
        prefix=words.flag("add_space_prefix", True),
        collapse=words.flag("remove_extra_whitespaces", False),
        charsmap=charsmap.astype(np.uint8).tobytes(),
    )
    return core


def _word_piece(words: _Vocabulary) -> Any:
    """Words begin with a mark in these files, in BERT's vocabulary the rest of them does."""

    def own(token: str, kind: int) -> str:
        if kind not in (NORMAL, USER_DEFINED):
            return token
        return token[1:] if token.startswith(SPACE) else "##" + token

    words.tokens = [own(t, kind) for t, kind in zip(words.tokens, words.types.tolist(), strict=True)]
    words.ids = {token: i for i, token in enumerate(words.tokens)}
    unknown = words.special("unknown")
    text = words.tokens[unknown] if unknown is not None else "[UNK]"
    return builders.word_piece(words.ids, text, lowercase=True)
