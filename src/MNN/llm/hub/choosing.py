"""Which files of a repository a model needs here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from MNN.errors import MNNError, UnsupportedError
from MNN.formatting import nbytes

_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.)")
_TEXT = ("*.json", "*.jinja", "*.model", "*.tiktoken", "vocab.txt", "merges.txt", "1_Pooling/config.json")
"""What lies beside safetensors: configurations, tokenizers, chat templates."""
_OFFICIAL = ("*.mnn", "*.weight", "*.json", "*.mtok", "*.txt", "embeddings*.bin")
_WHOLE, _INDEX, _ADAPTER = "model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"
_SHOWN = 12
"""Files that a message names."""


def chosen(sizes: Mapping[str, int], patterns: Sequence[str], where: str) -> list[str]:
    """Of a repository's files, those that fit the ``patterns`` (``*Q4_K_M.gguf``); by default what its model needs
    here: weights in one form, configurations, the tokenizer. The configuration comes last, so that a folder that holds
    it is complete.

    ``sizes``: bytes by path. ``where``: what messages call the repository. Raises :class:`MNNError` where nothing fits,
    or several models do, :class:`UnsupportedError` for weights that are not read.
    """
    if patterns:
        found = {file for file in sizes if any(_fits(file, pattern) for pattern in patterns)}
        if not found:
            raise MNNError(f"{where} has no file like {', '.join(patterns)}; it has {_listed(sizes)}")
    else:
        found = _needed(sizes, where)
    for file in found:
        if not _safe(file):
            raise MNNError(f"{where} has a file {file!r:.100}, which leads out of the folder; nothing was fetched")
    return sorted(found, key=lambda file: (file == "config.json", -sizes[file], file))


def _needed(sizes: Mapping[str, int], where: str) -> set[str]:
    top = [file for file in sizes if "/" not in file]
    if any(file.endswith(".mnn") for file in top):  # a folder of the official engine
        return _like(top, _OFFICIAL)
    weights = _safetensors(top)
    if weights:
        return weights | {file for file in _like(sizes, _TEXT) if not file.endswith(".index.json")}
    models: dict[str, set[str]] = {}
    for file in sizes:
        if file.endswith(".gguf") and "mmproj" not in file:
            models.setdefault(_SHARD.sub("", file), set()).add(file)
    if len(models) == 1:
        return next(iter(models.values()))
    if models:
        listed = _listed({name: sum(sizes[file] for file in files) for name, files in models.items()})
        raise MNNError(f"{where} has {len(models)} models: {listed}. Choose one, like --file '*Q4_K_M*'")
    if any(file.endswith((".bin", ".pt", ".pth")) for file in top):
        raise UnsupportedError(
            f"{where} has pickled weights only, which can run programs when they are read; look for a copy of it in "
            "safetensors or GGUF"
        )
    raise MNNError(
        f"{where} has no language model: no .safetensors, .gguf or .mnn file. It has {_listed(sizes)}; --file fetches "
        "any of them"
    )


def _safetensors(top: Iterable[str]) -> set[str]:
    """The weights that are opened, of what may be there twice."""
    held = {file for file in top if file.endswith(".safetensors")}
    if _WHOLE in held:
        return {_WHOLE}
    if _INDEX in top:
        return {file for file in held if file.startswith("model-")} | {_INDEX}
    return {_ADAPTER} if _ADAPTER in held else held


def _like(files: Iterable[str], patterns: Sequence[str]) -> set[str]:
    return {file for file in files if any(file.count("/") == p.count("/") and fnmatchcase(file, p) for p in patterns)}


def _fits(file: str, pattern: str) -> bool:
    """Whether a pattern means a file, by its path or its name."""
    return fnmatchcase(file, pattern) or fnmatchcase(file.rpartition("/")[2], pattern)


def _safe(file: str) -> bool:
    """Whether a path stays in the folder that it is written to, on any system."""
    return not (set(file.split("/")) & {"", ".", ".."} or any(c in file for c in "\\:\0"))


def _listed(sizes: Mapping[str, int]) -> str:
    largest = sorted(sizes, key=lambda file: (-sizes[file], file))
    told = ", ".join(f"{file:.100} ({nbytes(sizes[file])})" for file in largest[:_SHOWN])
    more = len(largest) - _SHOWN
    return f"{told} and {more} more" if more > 0 else told or "no files"


__all__ = ["chosen"]
