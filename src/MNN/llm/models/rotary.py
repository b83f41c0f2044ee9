"""Rotary position embeddings: how fast each pair of a head's numbers turns, with the ways to reach beyond the trained
length. Follows what configurations say (``rope_theta``, ``rope_scaling`` or ``rope_parameters``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.models.weights import as_number


@dataclass(frozen=True)
class Rotary:
    """``turns`` f32 ``[width / 2]``: angles of one position; cosines and sines are multiplied by ``scale``.

    ``long``: the turns where the whole text is longer than the ``trained`` length (None: always the same). ``stretch``:
    above 0, the base of the turns grows with what the text is longer than that.
    """

    turns: np.ndarray
    scale: float = 1.0
    long: np.ndarray | None = None
    trained: int = 0
    stretch: float = 0.0

    @property
    def width(self) -> int:
        """How many numbers of each head are turned."""
        return 2 * len(self.turns)


def rotary(config: Mapping[str, object], width: int, kind: str | None = None, theta: float = 10000.0) -> Rotary:
    """What a configuration says of heads of which ``width`` numbers are turned.

    ``kind``: that of layers whose parameters differ (``sliding_attention``...). ``theta``: where none is told. Raises
    :class:`FormatError` for parameters that are missing, :class:`UnsupportedError` for an unknown way of scaling.
    """
    given = _parameters(config, kind)
    base = _number(given, "rope_theta", _number(config, "rope_theta", theta))
    name = given.get("rope_type", given.get("type", "default"))
    if not isinstance(name, str) or name not in _KINDS:
        raise UnsupportedError(f"rotary positions are scaled by {name!r}; known are {', '.join(_KINDS)}")
    told = given.get("original_max_position_embeddings", config.get("original_max_position_embeddings"))
    longest = _number(config, "max_position_embeddings", 2048.0)
    trained = as_number(told, "original_max_position_embeddings", longest)
    for key, found, low in (("rope_theta", base, 1), ("max_position_embeddings", min(longest, trained), 0)):
        if found <= low:
            raise FormatError(f"the rotary positions of the model have {key} = {found:g}; expected is more than {low}")
    plain = base ** (-np.arange(0, width, 2, dtype=np.float32) / np.float32(width))
    return _KINDS[name](given, plain.astype(np.float32), base, longest, trained)


def switch(config: Mapping[str, object]) -> int:
    """The length of a text beyond which all its positions turn in another way; 0 where there is none."""
    given = _parameters(config, None)
    if given.get("long_factor") is None:
        return 0
    trained = given.get("original_max_position_embeddings", config.get("original_max_position_embeddings"))
    usual = _number(config, "max_position_embeddings", 2048.0)
    return int(as_number(trained, "original_max_position_embeddings", usual))


def _parameters(config: Mapping[str, object], kind: str | None) -> Mapping[str, object]:
    for key in ("rope_parameters", "rope_scaling"):
        found = config.get(key)
        if isinstance(found, Mapping):
            nested = found.get(kind) if kind is not None else None
            return nested if isinstance(nested, Mapping) else found
    return {}


def _default(given: Mapping[str, object], turns: np.ndarray, base: float, longest: float, trained: float) -> Rotary:
    return Rotary(turns)


def _linear(given: Mapping[str, object], turns: np.ndarray, base: float, longest: float, trained: float) -> Rotary:
    """Positions divided by a factor (Chen et al. 2023, arXiv:2306.15595)."""
    return Rotary((turns / np.float32(_needed(given, "factor"))).astype(np.float32))


def _dynamic(given: Mapping[str, object], turns: np.ndarray, base: float, longest: float, trained: float) -> Rotary:
    """The base grows with the length, so that the slowest turns are those that positions divided would have."""
    return Rotary(turns, trained=int(longest), stretch=_needed(given, "factor"))


def _proportional(
    given: Mapping[str, object], turns: np.ndarray, base: float, longest: float, trained: float
) -> Rotary:
    """Some pairs of each head turn, those that turn fastest, and others not at all (Gemma 4)."""
    share = min(max(_number(given, "partial_rotary_factor", 1.0), 0.0), 1.0)
    turned = np.arange(len(turns)) < int(share * 2 * len(turns) // 2)
    return Rotary((turns * turned / _number(given, "factor", 1.0)).astype(np.float32))


def _ntk(given: Mapping[str, object], turns: np.ndarray, base: float, longest: float, trained: float) -> Rotary:
    """A base that is larger by a factor, and all turns slower: those of GTE 1.5 (arXiv:2407.19669, "NTK-aware")."""
    factor, width = _needed(given, "factor"), 2 * len(turns)
    grown = turns * factor ** (-np.arange(0, width, 2, dtype=np.float64) / width) / factor ** (2 / width)
    return Rotary(grown.astype(np.float32))


def _llama3(given: Mapping[str, object], turns: np.ndarray, base: float, longest: float, trained: float) -> Rotary:
    """Slow turns are divided, fast ones kept, those between mixed (Llama 3.1); Llama 4 Scout has none between."""
    factor, low, high = (_needed(given, key) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    waves = 2 * math.pi / turns
    smooth = (trained / waves - low) / ((high - low) or 1.0)
    mixed = (1 - smooth) * turns / factor + smooth * turns
    found = np.where(waves > trained / low, turns / factor, np.where(waves < trained / high, turns, mixed))
    return Rotary(found.astype(np.float32))


def _yarn(given: Mapping[str, object], turns: np.ndarray, base: float, longest: float, trained: float) -> Rotary:
    """YaRN (Peng et al. 2023, arXiv:2309.00071)."""
    width = 2 * len(turns)
    factor = _number(given, "factor", longest / trained)
    fast, slow = _number(given, "beta_fast", 32.0), _number(given, "beta_slow", 1.0)

    def place(rotations: float) -> float:
        """The pair that turns so often within the trained length."""
        return width * math.log(trained / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = place(fast), place(slow)
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    ramp = np.clip((np.arange(len(turns)) - low) / ((high - low) or 0.001), 0, 1)
    found = turns / factor * ramp + turns * (1 - ramp)
    return Rotary(found.astype(np.float32), _yarn_scale(given, factor))


def _yarn_scale(given: Mapping[str, object], factor: float) -> float:
    if given.get("attention_factor") is not None:
        return _needed(given, "attention_factor")
    every = _number(given, "mscale_all_dim", 0.0)
    if given.get("mscale") and every:
        return yarn_mscale(factor, _needed(given, "mscale")) / yarn_mscale(factor, every)
    return yarn_mscale(factor, 1.0)


def yarn_mscale(factor: float, by: float) -> float:
    """How much scores grow with the factor of lengths."""
    return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0


def _longrope(given: Mapping[str, object], turns: np.ndarray, base: float, longest: float, trained: float) -> Rotary:
    """A factor for every pair, others beyond the trained length (Ding et al. 2024, arXiv:2402.13753)."""
    both = []
    for key in ("short_factor", "long_factor"):
        factors = np.asarray(given.get(key, ()), np.float32)
        if factors.shape != turns.shape:
            raise FormatError(f"{key} of the rotary positions has {factors.size} numbers; expected are {turns.size}")
        both.append((turns / factors).astype(np.float32))
    factor = _number(given, "factor", longest / trained)
    scale = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    return Rotary(both[0], _number(given, "attention_factor", scale), both[1], int(trained))


_KINDS = {
    "default": _default, "linear": _linear, "dynamic": _dynamic, "llama3": _llama3, "yarn": _yarn,
    "deepseek_yarn": _yarn, "longrope": _longrope, "su": _longrope, "ntk": _ntk, "proportional": _proportional,
}  # fmt: skip


def _needed(given: Mapping[str, object], key: str) -> float:
    """A number above 0, as all that scale are."""
    found = as_number(given.get(key), key, 0.0)
    if found <= 0:
        raise FormatError(f"the rotary positions of the model lack a number '{key}' above 0 (found {given.get(key)!r})")
    return found


def _number(given: Mapping[str, object], key: str, default: float) -> float:
    return as_number(given.get(key), key, default)


__all__ = ["Rotary", "rotary", "switch", "yarn_mscale"]
