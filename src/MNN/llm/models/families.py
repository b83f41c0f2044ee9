"""The families of models that are known, found by file, and what their configurations have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from MNN.discovery import import_modules
from MNN.errors import FormatError, UnsupportedError
from MNN.ir.graph import Graph, Value
from MNN.llm.models.cache import CacheForm
from MNN.llm.models.layers import Angles, Heads, Layers
from MNN.llm.models.rotary import Rotary, rotary
from MNN.llm.models.weights import LARGEST, Unprefixed, Weights, as_number, required

Translate = Callable[[Mapping[str, object]], Mapping[str, object]]
Build = Callable[["Config", Layers], Graph]
_FAMILIES: dict[str, Build] = {}
_ENCODERS: dict[str, Build] = {}
_TRANSLATIONS: dict[str, Translate] = {}


class Config:
    """A checkpoint's ``config.json`` (or what a file of another kind says), with the names that most families share."""

    def __init__(self, values: Mapping[str, object]) -> None:
        inner = values.get("text_config")
        self.values: Mapping[str, object] = {**values, **inner} if isinstance(inner, Mapping) else values
        self.layers = required(self.values, "num_hidden_layers")
        self.width = required(self.values, "hidden_size")

    @property
    def family(self) -> str:
        found = self.values.get("model_type")
        return found if isinstance(found, str) else ""

    @property
    def epsilon(self) -> float:
        return self.number("rms_norm_eps", 1e-6)

    @property
    def activation(self) -> str:
        found = self.values.get("hidden_act") or self.values.get("hidden_activation")
        return found if isinstance(found, str) else "silu"

    @property
    def longest(self) -> int:
        """How many tokens the model was made for."""
        return int(self.number("max_position_embeddings", 2048))

    def get(self, key: str) -> object:
        return self.values.get(key)

    def count(self, key: str) -> int:
        """A whole number above 0 that has to be there."""
        return required(self.values, key)

    def flag(self, key: str, default: bool = False) -> bool:
        found = self.values.get(key)
        return default if found is None else bool(found)

    def number(self, key: str, default: float) -> float:
        return as_number(self.values.get(key), key, default)

    def positive(self, key: str, default: float) -> float:
        """A number above 0. Raises :class:`FormatError` for others."""
        found = self.number(key, default)
        if found <= 0:
            raise FormatError(f"the model's configuration has {key} = {found:g}; expected is a number above 0")
        return found

    def heads(self, window: int = 0, scale: float = 0.0, softcap: float = 0.0) -> Heads:
        """The heads of attention, by the usual names. Raises :class:`FormatError` where they do not fit."""
        count = self.count("num_attention_heads")
        groups = int(self.number("num_key_value_heads", count))
        size = int(self.number("head_dim", 0)) or self.width // count
        if groups < 1 or count % groups or not 1 <= size <= LARGEST:
            raise FormatError(f"{count} heads of {size} cannot share {groups} heads of keys and values")
        return Heads(count, groups, size, scale, window, softcap)

    @property
    def window(self) -> int:
        """How many keys a query sees in layers with a window; 0 where all."""
        return int(self.number("sliding_window", 0))

    def windows(self, otherwise: Callable[[int], bool]) -> list[int]:
        """The window of every layer, 0 where there is none: as ``layer_types`` says, else where ``otherwise`` is true
        of the layer's number."""
        kinds = self.values.get("layer_types")
        if isinstance(kinds, Sequence) and not isinstance(kinds, str) and len(kinds) >= self.layers:
            local = [kind == "sliding_attention" for kind in kinds]
        else:
            local = [otherwise(i) for i in range(self.layers)]
        return [self.window if local[i] else 0 for i in range(self.layers)]

    def local(self, size: int) -> Rotary:
        """Positions in layers with a window, where these have a base of their own."""
        nested = self.values.get("rope_parameters")
        if isinstance(nested, Mapping) and isinstance(nested.get("sliding_attention"), Mapping):
            return rotary(self.values, size, "sliding_attention")
        return rotary({"rope_theta": self.number("rope_local_base_freq", 10000.0)}, size)

    def rotary(self, size: int, kind: str | None = None, theta: float = 10000.0, share: float = 1.0) -> Rotary:
        """Positions of heads of ``size`` numbers, of which ``share`` are turned unless the configuration says more."""
        for values in (self.values, self.values.get("rope_parameters")):
            if isinstance(values, Mapping) and isinstance(found := values.get("partial_rotary_factor"), (int, float)):
                share = float(found)
                break
        return rotary(self.values, int(size * share), kind, theta)


def attend(
    net: Layers,
    y: Value,
    at: str,
    heads: Heads,
    layer: int,
    angles: Angles | None,
    names: Sequence[str] = ("q_proj", "k_proj", "v_proj"),
    output: str = "o_proj",
    interleaved: bool = False,
    norms: tuple[float, float] | None = None,
    grown: Value | None = None,
) -> Value:
    """Self-attention whose queries, keys and values are linear in ``y``, with the output's layer behind it. ``angles``
    are those of the positions (None: there are none); ``norms`` (epsilon, and what is added to the weights): heads of
    queries and keys are normalised by ``at.q_norm`` and ``at.k_norm``; ``grown``: what queries are multiplied by."""
    qkv = net.linear(y, *(f"{at}.{name}" for name in names))
    gamma = None
    if norms is not None:
        own = [net.weight(f"{at}.{name}.weight") for name in ("q_norm", "k_norm")]
        if any(one.shape != (heads.size,) for one in own):
            raise FormatError(f"{at}: norms of queries and keys are no vectors of {heads.size} numbers, a head's size")
        tiled = [np.tile(one, (n, 1)) for one, n in zip(own, (heads.count, heads.groups), strict=True)]
        gamma = np.concatenate(tiled) + np.float32(norms[1])
    q, k, v = apart(net, qkv, heads, angles, interleaved, gamma, norms[0] if norms else 0.0)
    q = q if grown is None else net.multiply(q, grown)
    return net.linear(net.attention(q, k, v, heads, layer), f"{at}.{output}")


def apart(
    net: Layers, qkv: Value, heads: Heads, angles: Angles | None, interleaved: bool = False,
    gamma: np.ndarray | None = None, epsilon: float = 0.0,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """Queries, keys and values ``[batch, sequence, heads, size]`` of ``qkv``, in which they lie side by side; the first
    two normalised, where there is a ``gamma [count + groups, size]``, and turned."""
    each = net.reshape(qkv, 0, 0, heads.count + 2 * heads.groups, heads.size)
    qk, v = net.split(each, [heads.count + heads.groups, heads.groups], axis=2)
    if gamma is not None:
        normal = net.op("LayerNorm", qk, axis=[-1], epsilon=epsilon, useRMSNorm=True)
        qk = net.multiply(normal, net.const(gamma))
    if angles is not None:
        qk = net.rotate(qk, angles, heads.size, interleaved)
    q, k = net.split(qk, [heads.count, heads.groups], axis=2)
    return q, k, v


def head(
    config: Config, net: Layers, x: Value, table: str = "model.embed_tokens", own: str = "lm_head", scale: float = 1.0,
    softcap: float = 0.0,
) -> Graph:  # fmt: skip
    """The logits, from weights of their own or those of the table of embeddings; or what they are made of, where that
    is wanted."""
    if net.vectors:
        return net.finish(x, "vectors")
    tied = config.flag("tie_word_embeddings") or f"{own}.weight" not in net.weights
    weight = net.matrix(f"{table if tied else own}.weight")
    bias = net.weight(f"{own}.bias") if f"{own}.bias" in net.weights else None
    return net.finish(net.softcap(net.multiply(net.product(x, weight, bias), scale), softcap))


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


@functools.cache
def families() -> Mapping[str, Build]:
    """All families by the names that configurations have for them."""
    list(import_modules(__package__))
    return dict(sorted(_FAMILIES.items()))


def embeds(config: Mapping[str, object]) -> bool:
    """Whether a configuration is that of a model that embeds texts, and writes none."""
    kind = config.get("model_type")
    return kind not in families() and kind in _ENCODERS


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
    families()
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
    if not isinstance(kind, str) or kind not in known:
        raise UnsupportedError(f"models {what} of the kind {kind!r} are not known; known are {', '.join(known)}")
    net.graph.name = kind
    known[kind](usual(config), net)
    return net


def usual(config: Mapping[str, object]) -> Config:
    """A configuration with the usual names."""
    families()
    translate = _TRANSLATIONS.get(str(config.get("model_type")))
    return Config(config if translate is None else translate(config))


__all__ = [
    "Build", "Config", "apart", "attend", "build", "build_encoder", "build_pairs", "build_vectors", "build_with",
    "compares", "embeds", "encoder", "families", "family", "head", "translates", "usual",
]  # fmt: skip
