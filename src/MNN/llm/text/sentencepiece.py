"""SentencePiece's ``tokenizer.model``: a protocol buffer of pieces with scores, and how texts are normalised.

The fields are those of ``sentencepiece_model.proto``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.mapped import JSON_LIMIT, map_file
from MNN.llm.text import builders

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2


@dataclass(frozen=True)
class Piece:
    """One token: its text (spaces as U+2581), score and kind."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class PieceModel:
    """A model, verified. Ids are places in ``pieces``; special ids are -1 where there is none."""

    pieces: tuple[Piece, ...]
    kind: int
    byte_fallback: bool
    unknown: int
    begin: int
    end: int
    pad: int
    charsmap: bytes
    prefix: bool
    collapse: bool
    escape: bool

    def core(self, renamed: Mapping[int, str] | None = None, added_prefix: bool | None = None) -> Any:
        """A ``tokenizers.Tokenizer`` that cuts texts as SentencePiece does.

        ``renamed``: other texts for some pieces, as special tokens have them. ``added_prefix``: whether texts get a
        space before them, where the folder says otherwise than the model.
        """
        texts = [(renamed or {}).get(i, piece.text) for i, piece in enumerate(self.pieces)]
        ids = {text: i for i, text in enumerate(texts)}
        if len(ids) != len(texts):
            raise FormatError("the tokenizer has two pieces of the same text")
        whole = [t for t, piece in zip(texts, self.pieces, strict=True) if piece.kind == USER_DEFINED]
        if self.kind == BPE:
            normal = {t: piece.score for t, piece in zip(texts, self.pieces, strict=True) if piece.kind == NORMAL}
            merges = builders.scored_merges(normal, ids)
            core = builders.piece_bpe(ids, merges, texts[self.unknown], self.byte_fallback, whole)
        else:
            pairs = [(t, piece.score) for t, piece in zip(texts, self.pieces, strict=True)]
            core = builders.unigram(pairs, self.unknown, self.byte_fallback, whole)
        prefix = self.prefix if added_prefix is None else added_prefix
        builders.spaces(core, prefix, self.collapse, self.charsmap, self.escape)
        return core

    @property
    def controls(self) -> list[tuple[str, bool]]:
        """The pieces that are no text."""
        return [(piece.text, True) for piece in self.pieces if piece.kind in (CONTROL, UNKNOWN)]


def read_pieces(path: Path) -> PieceModel:
    """Reads a ``tokenizer.model``. FormatError for what is none, UnsupportedError for models of words or characters."""
    data = map_file(path)
    if data.size > JSON_LIMIT:
        raise FormatError(f"{path} has more than {JSON_LIMIT >> 20} MiB; a tokenizer has less")
    try:
        return _model(data.tobytes(), path)
    except (ValueError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is no SentencePiece model: {error}") from error


def _model(data: bytes, path: Path) -> PieceModel:
    pieces: list[Piece] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == 1:
            found = dict(_fields(_bytes(value)))
            score = struct.unpack("<f", _bytes(found.get(2, bytes(4))))[0]
            if not math.isfinite(score):
                raise ValueError("a score is no number")
            pieces.append(Piece(_bytes(found.get(1, b"")).decode(), score, _number(found.get(3, NORMAL))))
        elif number == 2:
            trainer = dict(_fields(_bytes(value)))
        elif number == 3:
            normalizer = dict(_fields(_bytes(value)))
    if not pieces:
        raise ValueError("it has no pieces")
    kind = _number(trainer.get(3, UNIGRAM))
    if kind not in (UNIGRAM, BPE) or _number(trainer.get(24, 0)):
        raise UnsupportedError(
            f"{path}: SentencePiece models of words or characters, or with spaces behind, are not read"
        )
    special = [_signed(trainer.get(40 + i, default)) for i, default in enumerate((0, 1, 2, -1))]
    if not 0 <= special[0] < len(pieces):
        raise ValueError("it has no unknown token")
    return PieceModel(
        pieces=tuple(pieces),
        kind=kind,
        byte_fallback=bool(trainer.get(35, 0)),
        unknown=special[0],
        begin=special[1],
        end=special[2],
        pad=special[3],
        charsmap=_bytes(normalizer.get(2, b"")),
        prefix=bool(normalizer.get(3, 1)),
        collapse=bool(normalizer.get(4, 1)),
        escape=bool(normalizer.get(5, 1)),
    )


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers, or the bytes of what is longer."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, form = key >> 3, key & 7
        if form == 0:
            value, place = _varint(data, place)
            yield number, value
            continue
        if form == 2:
            size, place = _varint(data, place)
        elif form in (1, 5):
            size = 8 if form == 1 else 4
        else:
            raise ValueError(f"a field of form {form} before byte {place}")
        if size > len(data) - place:
            raise ValueError(f"it ends within a field, before byte {len(data)}")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it ends within a number")
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError(f"a number of more than ten bytes before byte {place}")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where bytes are expected")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("bytes where a number is expected")
    return value


def _signed(value: Any) -> int:
    number = _number(value)
    return number - (1 << 64) if number >= 1 << 63 else number
