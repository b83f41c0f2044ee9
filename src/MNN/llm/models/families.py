"""The families of models that are known, found by file."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Mapping, Sequence

from MNN.discovery import import_modules
from MNN.errors import UnsupportedError
from MNN.ir.graph import Graph
from MNN.llm.models.cache import CacheForm
from MNN.llm.models.config import Config
from MNN.llm.models.encoders.both_sides import EncodingLayers
from MNN.llm.models.layers import Layers
from MNN.llm.models.weights import Unprefixed, Weights

Translate = Callable[[Mapping[str, object]], Mapping[str, object]]
Build = Callable[[Config, Layers], Graph]
Keeps = Callable[[Config], Sequence[Sequence[str]]]
_FAMILIES: dict[str, Build] = {}
_ENCODERS: dict[str, Build] = {}
_TRANSLATIONS: dict[str, Translate] = {}
_KEEPS: dict[str, Keeps] = {}
_NEAR = 4
"""Names that are told where one is not known."""
KEYS = "keys"
"""What layers of attention keep, beside kinds of :mod:`MNN.llm.models.recurrent`."""


def family(*names: str) -> Callable[[Build], Build]:
    """Enters what builds models whose configuration has one of these as its ``model_type``."""

    def add(build: Build) -> Build:
        _FAMILIES.update(dict.fromkeys(names, build))
        return build

    return add


def encoder(*names: str) -> Callable[[Build], Build]:
    """Enters what builds models that give every token a vector."""

    def add(build: Build) -> Build:
        _ENCODERS.update(dict.fromkeys(names, build))
        return build

    return add


def translates(name: str) -> Callable[[Translate], Translate]:
    """Enters what gives configurations of a family the names that most have."""

    def add(translate: Translate) -> Translate:
        _TRANSLATIONS[name] = translate
        return translate

    return add


def keeps(*names: str) -> Callable[[Keeps], Keeps]:
    """Enters what says which kinds of states each layer of these families has, where not all have keys and values."""

    def add(kinds: Keeps) -> Keeps:
        _KEEPS.update(dict.fromkeys(names, kinds))
        return kinds

    return add


def kept_kinds(config: Mapping[str, object]) -> list[tuple[str, ...]]:
    """The kinds of states of every layer of a model."""
    told = usual(config)
    found = _KEEPS.get(told.family)
    return [(KEYS,)] * told.layers if found is None else [tuple(kinds) for kinds in found(told)]


@functools.cache
def families() -> Mapping[str, Build]:
    """All families by the names that configurations have for them."""
    list(import_modules(__package__))
    return dict(sorted(_FAMILIES.items()))


def embeds(config: Mapping[str, object]) -> bool:
    """Whether a configuration is that of a model that embeds texts, and writes none."""
    kind = config.get("model_type")
    return kind in _ENCODERS if kind not in families() else _sees_both_sides(config)


def compares(config: Mapping[str, object]) -> bool:
    """Whether a configuration is that of a model that scores pairs of texts."""
    made = config.get("architectures")
    names = made if isinstance(made, Sequence) and not isinstance(made, str) else ()
    return embeds(config) and any(str(name).endswith("ForSequenceClassification") for name in names)


def build(
    config: Mapping[str, object], weights: Weights, padded: bool = False, cache: CacheForm | None = None
) -> Layers:
    """The graph of a model, with the names of its states. ``cache``: how keys and values are kept, unless ``padded``.

    Raises :class:`UnsupportedError` for families that are not known and :class:`FormatError` for configurations and
    weights that do not fit.
    """
    net = Layers(weights, padded=padded, cache=cache or CacheForm())
    return _built(config, net, families(), "that write text")


def build_encoder(config: Mapping[str, object], weights: Weights) -> Layers:
    """The graph of a model that gives every token a vector, in batches that are padded on the left.

    Errors are those of :func:`build`.
    """
    if config.get("model_type") in families() and _sees_both_sides(config):
        bare = "embed_tokens.weight" in weights and "model.embed_tokens.weight" not in weights
        net = EncodingLayers(Unprefixed(weights) if bare else weights)
        return _called(config, net, families())
    return _built(config, Layers(weights, padded=True), _ENCODERS, "that embed texts")


def build_pairs(config: Mapping[str, object], weights: Weights) -> Layers:
    """The same of a model that compares two texts, which also takes the ``types`` of tokens."""
    families()
    net = Layers(weights, padded=True)
    net.take_types()
    return _built(config, net, _ENCODERS, "that compare texts")


def build_vectors(config: Mapping[str, object], weights: Weights) -> Layers:
    """A model that writes text, for what its last layer would make logits of: ``vectors`` of the ``rows`` that are
    asked for, in batches padded on the left. Errors are those of :func:`build`."""
    bare = "embed_tokens.weight" in weights and "model.embed_tokens.weight" not in weights
    net = Layers(Unprefixed(weights) if bare else weights, padded=True, vectors=True)
    net = _built(config, net, families(), "that write text")
    if net.graph.outputs[0].name != "vectors":
        raise UnsupportedError(f"models of the kind {config.get('model_type')!r} give no vectors")
    return net


def build_with(config: Mapping[str, object], net: Layers) -> None:
    """Builds a model that writes text from ``net``'s layers. Errors are those of :func:`build`."""
    _built(config, net, families(), "that write text")


def _built(config: Mapping[str, object], net: Layers, known: Mapping[str, Build], what: str) -> Layers:
    kind = config.get("model_type")
    if known is not _ENCODERS and kind in _ENCODERS and kind not in known:
        raise UnsupportedError(
            f"this model of the kind {kind!r} gives texts vectors and writes none; MNN.llm.load_embedder opens it"
        )
    if not isinstance(kind, str) or kind not in known:
        near = difflib.get_close_matches(str(kind), known, _NEAR, 0.5)
        told = f"the nearest known kinds are {', '.join(near)}" if near else f"known are {', '.join(known)}"
        raise UnsupportedError(f"models {what} of the kind {kind!r:.60} are not known; {told}")
    if known is not _ENCODERS and _sees_both_sides(config):
        raise UnsupportedError(
            f"this model of the kind {kind!r} gives texts vectors, by attention to what is before and behind a token, "
            "and writes none; MNN.llm.load_embedder opens it"
        )
    return _called(config, net, known)


def _called(config: Mapping[str, object], net: Layers, known: Mapping[str, Build]) -> Layers:
    net.graph.name = kind = str(config.get("model_type"))
    known[kind](usual(config), net)
    return net


def _sees_both_sides(config: Mapping[str, object]) -> bool:
    """Whether a configuration says that attention is not to what is earlier alone."""
    return config.get("use_bidirectional_attention") in (True, "all") or config.get("is_causal") is False


def usual(config: Mapping[str, object]) -> Config:
    """A configuration with the usual names."""
    families()
    translate = _TRANSLATIONS.get(str(config.get("model_type")))
    return Config(config if translate is None else translate(config))


__all__ = [
    "KEYS", "Build", "build", "build_encoder", "build_pairs", "build_vectors", "build_with", "compares", "embeds",
    "encoder", "families", "family", "keeps", "kept_kinds", "translates", "usual",
]  # fmt: skip
