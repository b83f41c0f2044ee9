"""Writes tokenizers as the official engine reads them (:mod:`MNN.llm.text.mtok`)."""

from __future__ import annotations

import functools
import json
import struct
import unicodedata
from collections.abc import Mapping
from typing import Any

from MNN.errors import UnsupportedError
from MNN.llm.text.mtok import (
    BEHAVIORS,
    BERT,
    BERT_WITH_TABLE,
    DECODERS,
    KIND,
    MARK,
    NORMALIZERS,
    PRE_TOKENIZERS,
    SEQUENCES,
    STRING,
    TABLE,
    Fields,
)  # fmt: skip
from MNN.llm.text.tokenizer import Tokenizer

_FORMS = {"NFC": "NFC", "NFKC": "NFKC", "Precompiled": "NFKC", "NFKD": "NFKC"}
"""Normalisers that become tables, and which table."""
_SPLIT_AT_SPACES = r"\s+"


def mtok(tokenizer: Tokenizer) -> bytes:
    """A tokenizer in the official engine's form. UnsupportedError for parts that it has no form for."""
    told: dict[str, Any] = json.loads(tokenizer.core.to_str())
    added = told.get("added_tokens") or []
    special = [token["id"] for token in added if token.get("special")]
    stops, prefix = sorted(tokenizer.stop_ids), _prefix(tokenizer)
    ids = " ".join(map(str, [*special, *stops, *prefix]))
    head = f"{MARK} {KIND}\n{len(special)} {len(stops)} {len(prefix)}\n{ids}\n"
    parts = [
        head.encode(),
        _part(told.get("normalizer"), NORMALIZERS, "normalizers"),
        _part(told.get("pre_tokenizer"), PRE_TOKENIZERS, "pretokenizers"),
        _model(told["model"], _bytes_unsaid(told)),
        _part(told.get("decoder"), DECODERS, "decoders"),
        struct.pack("<I", len(added)),
        *(_added(token) for token in added),
        _text(tokenizer.chat_template or "", "I"),
        _text(tokenizer.special.texts.get("eos_token", "")),
        b"\0",
        _text(tokenizer.special.texts.get("bos_token", "")),
        _surrounding(told.get("post_processor")),
    ]
    return b"".join(parts)


def _prefix(tokenizer: Tokenizer) -> list[int]:
    """What a text begins with."""
    plain, whole = (tokenizer.encode("A", add_special_tokens=flag) for flag in (False, True))
    at = next((i for i in range(len(whole)) if whole[i : i + len(plain)] == plain), 0)
    return whole[:at]


def _text(text: str, size: str = "H") -> bytes:
    data = text.encode()
    if len(data) >= 1 << (8 * struct.calcsize(size)):
        raise UnsupportedError(f"a text of {len(data)} bytes is too long for the official engine's tokenizers")
    return struct.pack(f"<{size}", len(data)) + data


def _part(part: Any, known: Mapping[int, tuple[str, Fields]], name: str) -> bytes:
    """A normaliser, pre-tokeniser or decoder."""
    if part is None:
        return b"\0"
    kind = part.get("type")
    if kind == "Sequence":
        inner = part[name]
        return struct.pack("<BI", SEQUENCES[name], len(inner)) + b"".join(_part(p, known, name) for p in inner)
    if known is NORMALIZERS and kind in _FORMS:
        return bytes([TABLE]) + _table(_FORMS[kind])
    if known is NORMALIZERS and kind == "Lowercase":
        return bytes([5, 0, 0, 0, 1])
    if known is NORMALIZERS and kind == "BertNormalizer":
        strips = part["lowercase"] if part.get("strip_accents") is None else part["strip_accents"]
        fields = _fields({**part, "strip_accents": strips}, BERT)
        return bytes([BERT_WITH_TABLE]) + fields + _table("NFD") if strips else bytes([5]) + fields
    if known is PRE_TOKENIZERS and kind == "WhitespaceSplit":
        part = {"type": "Split", "pattern": {"Regex": _SPLIT_AT_SPACES}, "invert": False, "behavior": "Removed"}
        kind = "Split"
    if kind == "ByteLevel" and known is PRE_TOKENIZERS and part.get("add_prefix_space"):
        raise UnsupportedError("the official engine has no tokenizer of bytes that puts a space before a text")
    code = next((code for code, (known_kind, _) in known.items() if known_kind == kind), None)
    if code is None:
        raise UnsupportedError(
            f"the official engine's tokenizers have no {kind}, which this one has; the model runs from where it is"
        )
    return bytes([code]) + _fields(part, known[code][1])


def _fields(part: Mapping[str, Any], fields: Fields) -> bytes:
    found = b""
    for field, kind in fields:
        value: Any = part.get(field)
        if field == "behavior":
            codes = {name: code for code, name in BEHAVIORS.items()}
            if value not in codes:
                raise UnsupportedError(f"the official engine's tokenizers cannot split so that pieces are {value!r}")
            value = codes[value]
        elif field == "pattern":
            value = next(iter(value.values()))
        elif field == "add_prefix_space" and value is None:
            value = part.get("prepend_scheme", "always") != "never"
        found += _text(value or "") if kind == STRING else struct.pack(f"<{kind}", int(value or 0))
    return found


@functools.cache
def _table(form: str) -> bytes:
    """All characters that a normal form of Unicode changes."""
    surrogates = range(0xD800, 0xE000)
    entries = []
    for code in range(0x110000):
        if code not in surrogates:
            normal = unicodedata.normalize(form, chr(code))  # type: ignore[arg-type]
            if normal != chr(code):
                entries.append(struct.pack("<I", code) + _text(normal))
    return struct.pack("<I", len(entries)) + b"".join(entries)


def _bytes_unsaid(told: Mapping[str, Any]) -> bool:
    """Whether tokens are of bytes though no pre-tokeniser in a sequence says so."""
    before, after = told.get("pre_tokenizer"), told.get("decoder")
    return not any(p["type"] == "ByteLevel" for p in _flat(before)) and any(
        p["type"] == "ByteLevel" for p in _flat(after)
    )


def _flat(part: Any) -> list[dict[str, Any]]:
    if part is None:
        return []
    inner = next((part[name] for name in SEQUENCES if name in part), None)
    return [part] if inner is None else [p for each in inner for p in _flat(each)]


def _model(model: Mapping[str, Any], byte_level: bool) -> bytes:
    kind, vocab = model.get("type"), model.get("vocab")
    if kind == "BPE":
        assert isinstance(vocab, Mapping)
        pairs = [pair.split(" ", 1) if isinstance(pair, str) else pair for pair in model.get("merges", ())]
        merges = sorted((vocab[left], vocab[right], rank) for rank, (left, right) in enumerate(pairs))
        head = struct.pack("<BIBBI", 0, len(vocab), bool(model.get("byte_fallback")), byte_level, len(merges))
        return head + _words(vocab) + b"".join(struct.pack("<III", *merge) for merge in merges)
    if kind == "WordPiece":
        assert isinstance(vocab, Mapping)
        head = struct.pack("<BI", 1, len(vocab)) + _text(model["unk_token"])
        most = struct.pack("<I", model.get("max_input_chars_per_word", 100))
        return head + _text(model["continuing_subword_prefix"]) + most + _words(vocab)
    if kind == "Unigram":
        pieces = sorted((text, number, score) for number, (text, score) in enumerate(vocab or ()))
        head = struct.pack("<BIIB", 2, len(pieces), model.get("unk_id") or 0, bool(model.get("byte_fallback")))
        return head + b"".join(_text(text) + struct.pack("<Id", number, score) for text, number, score in pieces)
    raise UnsupportedError(f"the official engine's tokenizers have no model of the kind {kind}")


def _words(vocab: Mapping[str, int]) -> bytes:
    return b"".join(_text(text) + struct.pack("<I", number) for text, number in sorted(vocab.items()))


def _added(token: Mapping[str, Any]) -> bytes:
    flags = (bool(token.get(name)) for name in ("special", "lstrip", "rstrip"))
    return struct.pack("<IBBB", token["id"], *flags) + _text(token["content"])


def _surrounding(processor: Any) -> bytes:
    """What stands around a text; other processors leave it as it is."""
    found = []
    for one in (processor or {}).get("processors", [processor] if processor else []):
        if one.get("type") != "TemplateProcessing":
            continue
        for item in one["single"]:
            if "Sequence" in item:
                found.append(b"\0")
            else:
                ids = one["special_tokens"][item["SpecialToken"]["id"]]["ids"]
                found += [struct.pack("<BI", 1, number) for number in ids]
    return struct.pack("<H", len(found)) + b"".join(found)


__all__ = ["mtok"]
