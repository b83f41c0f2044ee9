"""Folders of language models as the official engine has them: ``config.json``, ``llm_config.json``, ``llm.mnn`` with
its weights beside it, a tokenizer, and embeddings in a file of their own or among the weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.engine.decoder import Decoder
from MNN.llm.engine.loaded import row_bits_of
from MNN.llm.files.mapped import read_json
from MNN.llm.official.decoder import Masks, OfficialDecoder
from MNN.llm.official.embedding import Embedding
from MNN.llm.official.graph import prepared
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.runtime.storage.programs import StoredPrograms

EMBEDDINGS = "embeddings_bf16.bin"
LONGEST = 8192
"""Tokens that a text may have where the folder does not tell."""


@dataclass(frozen=True)
class OfficialFolder:
    """A folder of the official engine. ``settings``: both configurations in one; ``file``: the graph."""

    path: Path
    settings: Mapping[str, Any]
    file: Path

    @classmethod
    def of(cls, folder: Path) -> OfficialFolder:
        """The model in a folder. MNNError for what is missing, UnsupportedError for models of other kinds."""
        settings: dict[str, Any] = {}
        for name in ("config.json", "llm_config.json"):
            if (folder / name).is_file():
                settings |= read_json(folder / name)
        for key in ("is_visual", "is_audio", "has_talker", "is_embedding", "is_mrope"):
            if settings.get(key):
                raise UnsupportedError(f"{folder}: models with '{key}' are not known yet, only those that write text")
        return cls(folder, settings, _inside(folder, settings.get("llm_model", "llm.mnn")))

    @property
    def weights(self) -> Path:
        """The file of weights."""
        return _inside(self.path, self.settings.get("llm_weight", f"{self.file.name}.weight"))

    @property
    def size(self) -> int:
        """Bytes of the files that the weights are in, and the table of embeddings."""
        table = self.path / str(self.settings.get("embedding_file", EMBEDDINGS))
        return sum(file.stat().st_size for file in {self.file, self.weights, table} if file.is_file())

    @property
    def config(self) -> Mapping[str, object]:
        """What the model is, by the names of Hugging Face."""
        names = {"hidden_size": "hidden_size", "num_hidden_layers": "layer_nums", "model_type": "model_type"}
        found = {ours: self.settings[theirs] for ours, theirs in names.items() if theirs in self.settings}
        return {**found, "vocab_size": len(self.embedding()), "max_position_embeddings": self.longest}

    @property
    def longest(self) -> int:
        found = self.settings.get("max_position_embeddings", LONGEST)
        return found if isinstance(found, int) and found > 0 else LONGEST

    def embedding(self) -> Embedding:
        """The table of embeddings."""
        width = self.settings.get("hidden_size")
        if not isinstance(width, int) or width < 1:
            raise FormatError(f"{self.path}: hidden_size is {width!r}; expected is a whole number above 0")
        tied = self.settings.get("tie_embeddings")
        file = self.path / EMBEDDINGS
        if tied is None or "embedding_file" in self.settings:
            file = _inside(self.path, self.settings.get("embedding_file", file.name))
        return Embedding(file, self.weights, width, tied)

    def graph(self, row_bits: int) -> Graph:
        """The graph of the file; ``row_bits``: rows that low-bit weights are multiplied by may be rounded to so many,
        where these are not 0."""
        from MNN.frontends.mnn.read import load  # not where a program is stored, nor for models of other forms

        return prepared(load(os.fspath(self.file)), row_bits, str(self.file))

    def decoder(
        self,
        config: Config,
        max_length: int | None = None,
        bits: int | None = None,
        activation_bits: int | None = None,
    ) -> Decoder:
        """One ready to run, as :meth:`MNN.llm.engine.opening.Opened.decoder` makes it. The folder's weights are
        quantised already: MNNError for ``bits``."""
        if bits is not None:
            raise MNNError(f"{self.path}: its weights are quantised as they are; leave out the bits")
        longest = self.longest if max_length is None else max_length
        if longest < 1:
            raise MNNError(f"max_length is the number of tokens of a text, not {max_length}")
        row_bits = row_bits_of(config.precision, activation_bits)
        stored = StoredPrograms.of(self.file, config, ("official language model", f"rows of {row_bits} bits"))
        session = Session(lambda: self.graph(row_bits), config, stored)
        return OfficialDecoder(session, self.embedding(), Masks.of(self.settings, str(self.path)), longest)


def is_official(folder: Path) -> bool:
    """Whether a folder is one of the official engine."""
    if (folder / "llm_config.json").is_file():
        return True
    config = folder / "config.json"
    try:
        return config.is_file() and "llm_model" in read_json(config)
    except MNNError:
        return False  # who reads it says what is wrong


def _inside(folder: Path, name: object) -> Path:
    """A file of the folder. FormatError for names that lead out of it, MNNError where it is missing."""
    if not isinstance(name, str) or Path(name).name != name:
        raise FormatError(f"{folder}: {name!r:.100} is no name of a file in this folder")
    file = folder / name
    if not file.is_file():
        raise MNNError(f"{folder} lacks the file {name}")
    return file


__all__ = ["OfficialFolder", "is_official"]
