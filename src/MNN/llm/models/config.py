"""A checkpoint's configuration, with the names that most families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Any

from MNN.errors import FormatError
from MNN.llm.models.layers import Heads
from MNN.llm.models.rotary import Rotary, rotary
from MNN.llm.models.weights import LARGEST, as_list, as_number, required

_LACKING = {"Infinity": inf, "-Infinity": -inf, "NaN": nan}


_SHARE = "partial_rotary_factor"


class Config:
    """A checkpoint's ``config.json`` (or what a file of another kind says), with the names that most families share."""

    def __init__(self, values: Mapping[str, object]) -> None:
        inner = values.get("text_config")
        told = {**values, **inner} if isinstance(inner, Mapping) else values
        self.values: Mapping[str, object] = {key: _decoded(value) for key, value in told.items()}
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

    def listed(self, key: str) -> list[Any] | None:
        """A list; None where it is missing. Raises :class:`FormatError` for what is none."""
        return as_list(self.values.get(key), key)

    def each(self, key: str) -> list[Any] | None:
        """A list of what the layers have, one by one; None where it is missing or empty, as Llama 4's
        ``no_rope_layers`` is published. Raises :class:`FormatError` for what is none, or too short."""
        found = as_list(self.values.get(key) if self.listed(key) else None, key, self.layers)
        return None if found is None else found[: self.layers]

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
        kinds = self.each("layer_types")
        if kinds is None:
            local = [otherwise(i) for i in range(self.layers)]
        else:
            local = [kind == "sliding_attention" for kind in kinds]
        return [self.window if near else 0 for near in local]

    def local(self, size: int) -> Rotary:
        """Positions in layers with a window, where these have a base of their own."""
        nested = self.values.get("rope_parameters")
        if isinstance(nested, Mapping) and isinstance(nested.get("sliding_attention"), Mapping):
            return rotary(self.values, size, "sliding_attention")
        return rotary({"rope_theta": self.number("rope_local_base_freq", 10000.0)}, size)

    def rotary(self, size: int, kind: str | None = None, theta: float = 10000.0, share: float = 1.0) -> Rotary:
        """Positions of heads of ``size`` numbers, of which ``share`` are turned unless the configuration says more."""
        for values in (self.values, self.values.get("rope_parameters")):
            if isinstance(values, Mapping) and isinstance(values.get(_SHARE), (int, float)):
                share = as_number(values[_SHARE], _SHARE, share)
                if not 0 <= share <= 1:
                    raise FormatError(f"the model's configuration turns {share:g} of each head; expected is 0 to 1")
                break
        trained = self.values.get("trained_length")
        values = self.values if trained is None else {**self.values, "max_position_embeddings": trained}
        return rotary(values, int(size * share), kind, theta)


def limited(values: Mapping[str, object], key: str, usual: int) -> dict[str, object]:
    """The configuration of a model whose texts are limited here: to what stands under ``key``, or is ``usual``. Of
    positions counts how long texts were that it was trained with."""
    told, longest = values.get(key), values.get("max_position_embeddings")
    most = usual if told is None else told
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise FormatError(f"the model's configuration: {key} is {most!r:.60}; expected is a number above 0")
    if not isinstance(longest, int) or isinstance(longest, bool):
        return {**values, "longest_text": most}
    limits = {"max_position_embeddings": min(most, longest), "trained_length": longest, "longest_text": most}
    return {**values, **limits}


def _decoded(value: object) -> object:
    """Numbers that JSON lacks, in the way that transformers 5 writes them: ``{"__float__": "Infinity"}``."""
    if isinstance(value, list):
        return [_decoded(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    told = value.get("__float__") if len(value) == 1 else None
    if isinstance(told, str) and told in _LACKING:
        return _LACKING[told]
    return {key: _decoded(inner) for key, inner in value.items()}


__all__ = ["Config", "limited"]
