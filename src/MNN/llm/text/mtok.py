"""Tokenizers of the official engine, ``tokenizer.mtok``: a ``tokenizer.json`` in binary form, read and written.

Three lines of text (a mark; how many special tokens, stops and prefixes there are; their numbers), then normaliser,
pre-tokeniser, model, decoder, added tokens, chat template, texts of the end and the beginning, and what stands around
a text.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.mapped import JSON_LIMIT, map_file
from MNN.llm.text import builders
from MNN.llm.text.library import tokenizers
from MNN.llm.text.special import SpecialTokens, stop_ids
from MNN.llm.text.tokenizer import Tokenizer, core_from_json

MARK, KIND = 430, 4
_NESTING = 8
_LIGATURE = 0xFB01
"""A character that tables of NFKC hold, and those of NFC and NFD do not."""
STRING, BYTE, WORD = "string", "B", "I"
_LENGTH, _NUMBER = struct.Struct("<H").unpack_from, struct.Struct("<I").unpack_from
Fields = tuple[tuple[str, str], ...]
_METASPACE: Fields = (("replacement", STRING), ("add_prefix_space", BYTE))
BERT: Fields = (
    ("clean_text", BYTE), ("handle_chinese_chars", BYTE), ("strip_accents", BYTE), ("lowercase", BYTE),
)  # fmt: skip
NORMALIZERS: Mapping[int, tuple[str, Fields]] = {
    2: ("Prepend", (("prepend", STRING),)),
    3: ("Replace", (("pattern", STRING), ("content", STRING))),
    5: ("BertNormalizer", BERT),
    8: ("Strip", (("strip_left", BYTE), ("strip_right", BYTE))),
}
PRE_TOKENIZERS: Mapping[int, tuple[str, Fields]] = {
    1: ("ByteLevel", (("use_regex", BYTE),)),
    2: ("Digits", (("individual_digits", BYTE),)),
    3: ("Metaspace", _METASPACE),
    4: ("Split", (("pattern", STRING), ("invert", BYTE), ("behavior", BYTE))),
    5: ("BertPreTokenizer", ()),
}
DECODERS: Mapping[int, tuple[str, Fields]] = {
    0: ("ByteLevel", ()),
    1: ("ByteFallback", ()),
    2: ("Metaspace", _METASPACE),
    3: ("WordPiece", (("prefix", STRING), ("cleanup", BYTE))),
    4: ("Fuse", ()),
    5: ("Replace", (("pattern", STRING), ("content", STRING))),
    6: ("Strip", (("content", STRING), ("start", WORD), ("stop", WORD))),
}
SEQUENCES = {"normalizers": 4, "pretokenizers": 6, "decoders": 7}
TABLE, BERT_WITH_TABLE = 6, 7
BEHAVIORS = {0: "Isolated", 1: "Removed", 2: "MergedWithPrevious"}


def read_mtok(path: Path) -> Tokenizer:
    """The tokenizer in a file. FormatError for what the format forbids, UnsupportedError for older forms."""
    data = map_file(path)
    if data.size > JSON_LIMIT:
        raise FormatError(f"{path} has more than {JSON_LIMIT >> 20} MiB; a tokenizer has less")
    return _Reader(data.tobytes(), path).tokenizer()


class _Reader:
    """A place in the file that moves on, and never beyond the end."""

    def __init__(self, data: bytes, path: Path) -> None:
        self.data, self.path, self.place = data, path, 0

    def fail(self, what: str) -> FormatError:
        return FormatError(f"{self.path}: {what}, before byte {self.place}; write or download it again")

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.place:
            raise self.fail(f"it ends within {size} bytes that it tells of")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]

    def count(self, smallest: int) -> int:
        found = self.number("I")
        if found * smallest > len(self.data) - self.place:
            raise self.fail(f"it tells of {found} entries, more than it can hold")
        return int(found)

    def text(self, size: str = "H") -> str:
        try:
            return self.take(self.number(size)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail("a text is not in UTF-8") from error

    def line(self) -> list[int]:
        end = self.data.find(b"\n", self.place)
        words = self.data[self.place : max(end, self.place)].split()
        if end < 0 or not all(word.isdigit() and len(word) < 10 for word in words):
            raise self.fail("its first lines are no numbers")
        self.place = end + 1
        return [int(word) for word in words]

    def tokenizer(self) -> Tokenizer:
        mark = self.line()
        if mark[:1] != [MARK] or len(mark) != 2:
            raise self.fail(f"it does not begin with {MARK} and the kind of tokenizer")
        if mark[1] != KIND:
            raise UnsupportedError(
                f"{self.path} is a tokenizer of an older form ({mark[1]}); put the model's tokenizer.json beside it, "
                "or export the model again"
            )
        counts, ids = self.line(), self.line()
        if len(counts) != 3 or sum(counts) != len(ids):
            raise self.fail("its counts of special tokens are not those of the tokens")
        stops, prefix = ids[counts[0] : counts[0] + counts[1]], ids[counts[0] + counts[1] :]
        found: dict[str, Any] = {"version": "1.0", "normalizer": self.part(NORMALIZERS, "normalizers")}
        found["pre_tokenizer"] = self.part(PRE_TOKENIZERS, "pretokenizers")
        model, byte_level = self.model()
        found["model"] = model if isinstance(model, dict) else {"type": "BPE", "vocab": {}, "merges": []}
        found["decoder"] = self.part(DECODERS, "decoders")
        if byte_level:
            last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
            parts = [part for part in (found["pre_tokenizer"], last) if part is not None]
            found["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}
        added = [self.added() for _ in range(self.count(9))]
        template, end = self.text("I"), self.text()
        begin = ""
        if self.more():  # older files end here, or behind what follows
            self.take(1)
            begin = self.text() if self.more() else ""
        found["post_processor"] = self.surrounding(added, prefix)
        core = core_from_json(json.dumps(found), str(self.path))
        if not isinstance(model, dict):
            core.model = model
        core.add_tokens([tokenizers().AddedToken(**{k: v for k, v in token.items() if k != "id"}) for token in added])
        named = {"eos": core.token_to_id(end) if end else None, "bos": core.token_to_id(begin) if begin else None}
        texts = {f"{name}_token": text for name, text in (("eos", end), ("bos", begin)) if text}
        known = {token["content"] for token in added if token["special"]}
        ends = stop_ids([*stops, named["eos"]], lambda text: core.token_to_id(text) if text in known else None)
        special = SpecialTokens(named["bos"], named["eos"], None, None, ends, texts)
        return Tokenizer(core, special, {"default": template} if template else {})

    def part(self, known: Mapping[int, tuple[str, Fields]], name: str, depth: int = 0) -> dict[str, Any] | None:
        """A normaliser, pre-tokeniser or decoder, as ``tokenizer.json`` has it."""
        kind = self.number("B")
        if kind == SEQUENCES[name]:
            if depth >= _NESTING:
                raise self.fail("its parts nest too deep")
            parts = [self.part(known, name, depth + 1) for _ in range(self.count(1))]
            return {"type": "Sequence", name: [part for part in parts if part is not None]}
        if known is NORMALIZERS and kind == TABLE:
            return {"type": "NFKC" if _LIGATURE in self.table() else "NFC"}
        if known is NORMALIZERS and kind == BERT_WITH_TABLE:
            found = self.fields("BertNormalizer", BERT)
            self.table()
            return found
        if kind not in known:
            if kind == 0:
                return None
            raise self.fail(f"it has a part of the kind {kind}, which is not known")
        return self.fields(*known[kind])

    def fields(self, name: str, fields: Fields) -> dict[str, Any]:
        found: dict[str, Any] = {"type": name}
        for field, kind in fields:
            value: Any = self.text() if kind == STRING else self.number(kind)
            if field == "behavior":
                value = BEHAVIORS.get(value, "Isolated")
            elif field == "pattern":
                value = {"Regex" if name == "Split" else "String": value}
            found[field] = bool(value) if kind == BYTE and field != "behavior" else value
        if name == "ByteLevel":
            found |= {"add_prefix_space": False, "trim_offsets": True, "use_regex": found.get("use_regex", True)}
        if name == "Metaspace":
            found["prepend_scheme"] = "always" if found.pop("add_prefix_space") else "never"
            found["split"] = True
        return found

    def table(self) -> set[int]:
        """Characters that a normalisation changes."""
        found = set()
        for _ in range(self.count(6)):
            found.add(self.number("I"))
            self.take(self.number("H"))
        return found

    def vocabulary(self, size: int) -> dict[str, int]:
        """Texts with their numbers; there are hundreds of thousands, so this is a tight loop."""
        data, place, found = self.data, self.place, {}
        try:
            for _ in range(size):
                after = place + 2 + _LENGTH(data, place)[0]
                found[data[place + 2 : after].decode()] = _NUMBER(data, after)[0]
                place = after + 4
        except struct.error as error:
            raise self.fail("it ends within its tokens") from error
        except UnicodeDecodeError as error:
            raise self.fail("a text is not in UTF-8") from error
        self.place = place
        return found

    def model(self) -> tuple[dict[str, Any] | Any, bool]:
        """The model, as ``tokenizer.json`` has it or made, and whether it is of bytes though no pre-tokeniser says
        so."""
        kind = self.number("B")
        if kind == 0:
            size = self.count(6)
            fallback, byte_level, merges = self.number("B"), self.number("B"), self.count(12)
            vocab = self.vocabulary(size)
            texts = {number: text for text, number in vocab.items()}
            triples = np.frombuffer(self.take(12 * merges), "<u4").reshape(merges, 3)
            triples = triples[np.argsort(triples[:, 2], kind="stable")]
            try:
                lefts, rights = ([texts[number] for number in triples[:, side].tolist()] for side in (0, 1))
            except KeyError as error:
                raise self.fail("it merges tokens that it does not have") from error
            pairs = list(zip(lefts, rights, strict=True))
            return builders.bpe(vocab, pairs, byte_fallback=bool(fallback)), bool(byte_level)
        if kind == 1:
            size = self.count(6)
            named = {"unk_token": self.text(), "continuing_subword_prefix": self.text()}
            most = self.number("I")
            vocab = self.vocabulary(size)
            return {"type": "WordPiece", **named, "max_input_chars_per_word": most, "vocab": vocab}, False
        if kind == 2:
            size, unknown, fallback = self.count(14), self.number("I"), self.number("B")
            pieces = sorted(
                ((self.text(), self.number("I"), self.number("d")) for _ in range(size)), key=lambda p: p[1]
            )
            if [number for _, number, _ in pieces] != list(range(size)):
                raise self.fail("its tokens are not numbered from 0 on")
            vocab_list = [[text, score] for text, _, score in pieces]
            return {"type": "Unigram", "unk_id": unknown, "vocab": vocab_list, "byte_fallback": bool(fallback)}, False
        raise self.fail(f"it has a model of the kind {kind}, which is not known")

    def added(self) -> dict[str, Any]:
        number = self.number("I")
        special, left, right = (bool(self.number("B")) for _ in range(3))
        told = {"special": special, "lstrip": left, "rstrip": right, "single_word": False, "normalized": not special}
        return {"id": number, "content": self.text(), **told}

    def more(self) -> bool:
        return self.place < len(self.data)

    def surrounding(self, added: list[dict[str, Any]], prefix: list[int]) -> dict[str, Any] | None:
        """What stands around a text; of older files, which do not say it, the ``prefix``."""
        texts = {token["id"]: token["content"] for token in added}
        around: list[int | None] = [*prefix, None] if prefix else []
        if self.more():
            around = [None if self.number("B") == 0 else self.number("I") for _ in range(self.number("H"))]
        single: list[dict[str, Any]] = []
        special: dict[str, Any] = {}
        for number in around:
            if number is None:
                single.append({"Sequence": {"id": "A", "type_id": 0}})
                continue
            if number not in texts:
                raise self.fail(f"the token {number} around texts is none of its added ones")
            single.append({"SpecialToken": {"id": texts[number], "type_id": 0}})
            special[texts[number]] = {"id": texts[number], "ids": [number], "tokens": [texts[number]]}
        if not single:
            return None
        pair = [*single, {"Sequence": {"id": "B", "type_id": 0}}]
        return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}
