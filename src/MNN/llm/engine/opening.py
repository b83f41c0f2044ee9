"""From a model's files to a decoder that runs: read only where no program is stored."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from MNN.cache.scratch import scratch
from MNN.errors import MNNError, UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.engine.adapters import rank_of
from MNN.llm.engine.embeddings import tables_of
from MNN.llm.engine.loaded import LoadedWeights, check_bits, row_bits_of
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.engine.spilling import Spilling
from MNN.llm.engine.variants import Variants
from MNN.llm.files import open_weights, read_config
from MNN.llm.files.adapters import read_adapter
from MNN.llm.files.places import find
from MNN.llm.models.adapted.layers import STATE, AdaptedLayers
from MNN.llm.models.cache import PAGE, CacheForm, checked_bits
from MNN.llm.models.families import (
    KEYS,
    build,
    build_encoder,
    build_pairs,
    build_vectors,
    build_with,
    kept_kinds,
    usual,
)
from MNN.llm.models.heads.features import FeatureForm, FeatureLayers
from MNN.llm.models.rotary import switch
from MNN.llm.official.folder import OfficialFolder, is_official
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from MNN.runtime.storage.programs import StoredPrograms
from MNN.schema.files import identity, seen
from MNN.stateful import StatefulModel

TOKENS = 1 << 15
"""Tokens that caches have room for: addresses, which take memory as they are used."""
_GROWING = {KEYS: ("k", "v")}
"""Names of states where each row of a batch has its own keys and values."""


@dataclass(frozen=True)
class Opened:
    """A model's files. ``config``: as Hugging Face's ``config.json`` says it; ``file``: the weights, or the first."""

    path: Path
    config: Mapping[str, object]
    file: Path

    def weights(self, bits: int | None = None, row_bits: int = 0) -> LoadedWeights:
        """Weights as they are read and, where told, quantised; ``row_bits``: what low-bit weights are multiplied by may
        be rounded to so many, where these are not 0."""
        seen({os.path.abspath(file): identity(file.stat()) for file in self.files})
        return LoadedWeights(open_weights(self.path), bits, row_bits)

    @property
    def files(self) -> list[Path]:
        """All that the model is read from."""
        place = find(self.path)
        told = [] if place.gguf is not None else [place.folder / "config.json"]
        return sorted({self.file, *place.weights, *(file for file in told if file.is_file())})

    @property
    def size(self) -> int:
        """Bytes of the files that the weights are in."""
        return sum(file.stat().st_size for file in find(self.path).weights)

    def encoder(self, config: Config, bits: int | None = None, pairs: bool = False) -> Session:
        """A model that gives every token a vector, ready to run; ``pairs``: of two texts that are compared."""
        check_bits(bits)
        row_bits, build = row_bits_of(config.precision, None), build_pairs if pairs else build_encoder
        stored = StoredPrograms.of(self.file, config, ("encoder of pairs" if pairs else "encoder", f"{bits} bits"))
        return Session(lambda: build(self.config, self.weights(bits, row_bits)).graph, config, stored)

    def vectors(self, config: Config, bits: int | None = None) -> StatefulModel:
        """A decoder that gives every token a vector, ready to run."""
        check_bits(bits)
        row_bits, states = row_bits_of(config.precision, None), self._states()
        stored = StoredPrograms.of(self.file, config, ("vectors", f"{bits} bits"), (), states)
        graph = lambda: build_vectors(self.config, self.weights(bits, row_bits)).graph  # noqa: E731
        return StatefulModel(Session(graph, config, stored, states), states)

    def _states(self) -> dict[str, str]:
        layers = kept_kinds(self.config)
        names = [
            f"{name}{i}" for i, kinds in enumerate(layers) for kind in kinds for name in _GROWING.get(kind, (kind,))
        ]
        names += ["seen"] if any(set(kinds) - {KEYS} for kinds in layers) else []
        return {f"past_{name}": f"present_{name}" for name in names}

    def decoder(
        self,
        config: Config,
        max_length: int | None = None,
        bits: int | None = None,
        activation_bits: int | None = None,
        kv_bits: int | Sequence[int] = 16,
        cache_tokens: int | None = None,
        adapters: Mapping[str, str | os.PathLike[str]] | None = None,
        cache_memory: int | None = None,
        features: FeatureForm | None = None,
    ) -> PagedDecoder:
        """One ready to run. ``max_length``: tokens of a text at most, by default what the model was made for. ``bits``,
        ``activation_bits``, ``kv_bits``, ``cache_tokens``, ``adapters`` and
        ``cache_memory``: as :func:`MNN.llm.load` has them; ``features``: what texts show to heads."""
        if features is not None and adapters:
            raise MNNError("a model is loaded with adapters or with heads that draft, not with both")
        check_bits(bits)
        row_bits = row_bits_of(config.precision, activation_bits)
        told = usual(self.config)
        longest = told.longest if max_length is None else max_length
        most = int(told.number("longest_text", 0))
        if most and longest > most:
            raise UnsupportedError(
                f"models of the kind {told.family!r} read texts of {most} tokens at most here, not of {longest}"
            )
        if longest < 1:
            raise MNNError(f"max_length is the number of tokens of a text, not {max_length}")
        tokens = max(longest, TOKENS) if cache_tokens is None else cache_tokens
        if tokens < longest:
            raise MNNError(f"cache_tokens is {tokens}; a text may have {longest} tokens (max_length)")
        pages = -(-tokens // PAGE) + 1  # one more for a text that is forked at its end
        cache = CacheForm(*checked_bits(kv_bits), pages, pages)
        pools, layers = [name for name, _, _ in cache.pools(1, 1, 1)], kept_kinds(self.config)
        states = {
            f"past_{name}{i}": f"present_{name}{i}"
            for i, kinds in enumerate(layers)
            for kind in kinds
            for name in (pools if kind == KEYS else [kind])
        }
        if cache_memory is not None and any(set(kinds) - {KEYS} for kinds in layers):
            raise UnsupportedError(
                f"models of the kind {told.family!r} have states beside keys and values, which do not leave memory; "
                "leave out cache_memory"
            )
        tensors = open_weights(self.path)
        changes = {name: read_adapter(tensors, folder) for name, folder in (adapters or {}).items()}
        columns = sum(map(rank_of, changes.values()))
        modules = sorted({module for change in changes.values() for module in change})
        kind: tuple[str, ...] = ("language model", f"{bits} bits", f"rows of {row_bits} bits", repr(cache))
        kind += () if features is None else (f"showing {features.name}",)
        spilling = None if cache_memory is None else Spilling(cache_memory)

        def session(modules: Collection[str], columns: int) -> tuple[Session, dict[str, str]]:
            """The model with so many columns for adapters of these layers, and its states."""
            own = {**states, STATE: f"present_{STATE}"} if columns else states
            more = (f"{columns} columns for adapters of {' '.join(modules)}",) if columns else ()

            def graph() -> Graph:
                weights = self.weights(bits, row_bits)
                with scratch(config.cache):
                    if features is not None:
                        shown = FeatureLayers(weights, cache, features)
                        build_with(self.config, shown)
                        return shown.graph
                    if not columns:
                        return build(self.config, weights, cache=cache).graph
                    net = AdaptedLayers(weights, cache, modules, columns)
                    build_with(self.config, net)
                    return net.graph

            return Session(graph, config, StoredPrograms.of(self.file, config, (*kind, *more), (), own), own), own

        def model(modules: Collection[str], columns: int) -> StatefulModel:
            made, own = session(modules, columns)
            return StatefulModel(made, own, None, None if spilling is None else spilling.zeros)

        whole, own = session(modules, columns)
        table = tables_of(tensors, json.loads(whole.card.facts["embeddings"]))
        found = PagedDecoder(whole, own, cache, table, longest, switch(told.values), columns, spilling)
        found.told = f"{bits} bits, rows of {row_bits} bits, {cache.keys} and {cache.values} bits a key and a value"
        if found.bank is not None and config.cache:  # packed weights are then those on disk, once for all graphs
            shared = [name for names in found.window_states for name in names] + found.recurrent
            found.variants = Variants(found.model, found.bank, shared, model)
        for name, change in changes.items():
            found.add_adapter(name, change)
        return found


def open_model(path: str | os.PathLike[str]) -> Opened | OfficialFolder:
    """What lies at a path: a .gguf file, a folder of Hugging Face's or the official engine's, or the
    ``config.json`` in one.

    Raises :class:`MNNError` where there is no model, :class:`UnsupportedError` for one of another kind.
    """
    given = Path(path)
    if given.name == "config.json" and given.is_file():
        given = given.parent
    place = find(given)
    if place.gguf is None and is_official(place.folder):
        return OfficialFolder.of(place.folder)
    file = place.gguf or place.index or next(iter(place.safetensors), None)
    if file is None:
        raise MNNError(f"{given} holds no model: expected is a .gguf file, or a folder with model.safetensors")
    return Opened(given, read_config(given), file)


def open_tensors(path: str | os.PathLike[str]) -> Opened:
    """The same of models whose tensors have names. UnsupportedError for folders of the official engine, which hold
    operators."""
    found = open_model(path)
    if not isinstance(found, Opened):
        raise UnsupportedError(f"{path}: of the official engine's models only those that write text are known")
    return found


__all__ = ["Opened", "open_model", "open_tensors"]
