"""Files of language models: Hugging Face folders, safetensors and GGUF, read where they are needed.

:func:`open_weights` gives tensors by name, :func:`read_config` what the network is; both in Hugging Face's names,
whatever the file is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from MNN.errors import FormatError, MNNError
from MNN.llm.files.defaults import completed
from MNN.llm.files.gguf.config import config_of
from MNN.llm.files.gguf.renaming import altered, renamed
from MNN.llm.files.halves import text_half
from MNN.llm.files.mapped import read_json
from MNN.llm.files.places import find, read_gguf_shards
from MNN.llm.files.quantised import united
from MNN.llm.files.safetensors import notes_of, read_safetensors, read_sharded
from MNN.llm.files.tensors import Weights, WeightTensor
from MNN.llm.files.turned import turned

__all__ = ["WeightTensor", "Weights", "open_weights", "read_config"]


def open_weights(path: str | os.PathLike[str]) -> Weights:
    """The tensors of a model by Hugging Face's names, memory-mapped: nothing is read until it is asked for.

    ``path``: a .gguf file (the first, where there are several), a .safetensors file or index, or a folder with one of
    these. What a quantiser has packed is one tensor again. Files are verified as they are opened:
    FormatError for what their format forbids, UnsupportedError for what cannot be read, MNNError where there is
    nothing.
    """
    place = find(path)
    if place.gguf is not None:
        file = read_gguf_shards(place.gguf)
        return Weights(renamed(file), str(place.gguf), altered(file))
    tensors = read_sharded(place.index) if place.index is not None else _of_files(place.safetensors, path)
    config = place.folder / "config.json"
    told = read_json(config) if config.is_file() else {}
    tensors = united(tensors, told, lambda: notes_of(place.index, place.safetensors), str(path))
    return Weights(turned(text_half(tensors), told.get("model_type")), str(path))


def _of_files(files: tuple[Path, ...], path: str | os.PathLike[str]) -> dict[str, WeightTensor]:
    tensors: dict[str, WeightTensor] = {}
    for file in files:
        held = read_safetensors(file)
        twice = tensors.keys() & held.keys()
        if twice:
            raise FormatError(f"{file} has the tensor {sorted(twice)[0]!r}, which another file has as well")
        tensors |= held
    if not files:
        raise MNNError(f"{path} holds no model.safetensors and no .gguf file")
    return tensors


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the network is, as Hugging Face's ``config.json`` says it, with what its family takes where that says
    nothing; from the metadata where ``path`` is a GGUF file.

    MNNError where there is no config.
    """
    place = find(path)
    if place.gguf is not None:
        return config_of(read_gguf_shards(place.gguf))
    config = place.folder / "config.json"
    if not config.exists():
        raise MNNError(f"{place.folder} holds no config.json, which says what the network is; copy the model's into it")
    return completed(read_json(config))
