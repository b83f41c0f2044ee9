"""A text's keys and values in a file, so that another process goes on where this one was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.llm.engine.features import Features
from MNN.llm.engine.paged import PagedDecoder, PagedText
from MNN.llm.models.cache import PAGE
from MNN.schema.arrays import read_noted, typed, write_arrays

_WHAT = "saved cache of a language model"
_PIECES, _PIECE = 256, 4096


def fingerprint(files: Iterable[str | os.PathLike[str]], told: str = "") -> str:
    """What tells a model's files from others: their sizes and :data:`_PIECES` pieces of each, at even distances; with
    what else is ``told`` of how the model is run."""
    found = hashlib.sha256(told.encode())
    for file in sorted(map(Path, files)):
        size = file.stat().st_size
        found.update(f"{size}\n".encode())
        with file.open("rb") as source:
            for i in range(_PIECES):
                source.seek(i * max(size - _PIECE, 0) // (_PIECES - 1))
                found.update(source.read(_PIECE))
    return found.hexdigest()


def save_text(decoder: PagedDecoder, text: PagedText, path: str | os.PathLike[str], model: str) -> None:
    """Writes what the caches hold of a text; ``model``: its :func:`fingerprint`. Raises :class:`MNNError` where there
    is nothing, for a text of an adapter, and where the file cannot be written; what was there is there still."""
    if not text.tokens:
        raise MNNError("the caches hold nothing of this text; read something first")
    if text.adapter:
        raise MNNError(
            f"the text was read with the adapter {text.adapter!r:.60}; only those of the model by itself are kept"
        )
    arrays = {"tokens": np.array(text.tokens, np.int64)}
    for number, names in enumerate(decoder.window_states):
        one = text.lists[number]
        arrays[f"gone{number}"] = np.array(one.gone, np.int64)
        for name in names:
            arrays[name] = decoder.model.state.view(name)[one.held]
    if text.marks is not None:
        for name in decoder.recurrent:
            arrays[name] = decoder.model.state.view(name)[[text.marks.kept[-1].slot]]
    write_arrays(path, arrays, model)


def load_text(decoder: PagedDecoder, path: str | os.PathLike[str], model: str) -> PagedText:
    """The text that :func:`save_text` wrote, in pages of this decoder. Raises :class:`MNNError` for what is no such
    file, one of another model or form of cache, and where too few pages are free."""
    arrays, note = read_noted(path, _WHAT)
    if note != model:
        raise MNNError(
            f"{os.fspath(path)} was written by another model, by this one with other bits, or is no {_WHAT}; read the "
            "text anew"
        )
    try:
        tokens = arrays["tokens"]
        text = decoder.text()
        _check(decoder, tokens, path)
        for number, names in enumerate(decoder.window_states):
            one, gone = text.lists[number], int(arrays[f"gone{number}"])
            count = -(-len(tokens) // PAGE)
            if not 0 <= gone < max(count, 1):
                raise _damaged(path)
            one.skip(gone)
            one.grow(len(tokens))
            for name in names:
                _put(decoder, name, one.pages[gone:], arrays[name], path)
        if text.marks is not None:
            slot = text.marks.begin(len(tokens))
            for name in decoder.recurrent:
                _put(decoder, name, [slot], arrays[name], path)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error
    text.tokens = [int(token) for token in tokens]
    if text.features is not None:  # which are not kept: heads begin to draft behind this
        text.features = Features(len(text.tokens))
    return text


def _check(decoder: PagedDecoder, tokens: np.ndarray, path: str | os.PathLike[str]) -> None:
    words = decoder.embeddings.shape[0]
    if tokens.ndim != 1 or tokens.dtype != np.int64 or not len(tokens) or tokens.min() < 0 or tokens.max() >= words:
        raise _damaged(path)
    if decoder.max_length is not None and len(tokens) > decoder.max_length:
        raise MNNError(
            f"{os.fspath(path)} holds {len(tokens)} tokens; the model was loaded for {decoder.max_length} (max_length)"
        )


def _put(
    decoder: PagedDecoder, name: str, pages: list[int], data: np.ndarray, path: str | os.PathLike[str]
) -> None:  # fmt: skip
    pool = decoder.pool(name)
    data = typed(data, pool.dtype)
    if data.dtype != pool.dtype or data.shape != (len(pages), *pool.shape[1:]):
        raise _damaged(path)
    pool[pages] = data


def _damaged(path: Any) -> MNNError:
    return MNNError(f"{os.fspath(path)} is damaged: what it holds does not fit together; read the text anew")


__all__ = ["fingerprint", "load_text", "save_text"]
