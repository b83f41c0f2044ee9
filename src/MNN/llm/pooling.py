"""From the vectors of a text's tokens to one of the text, as folders of sentence-transformers say it (Reimers and
Gurevych 2019, arXiv:1908.10084): kinds of pooling, layers behind them, and the length 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.llm.files.mapped import parse_object, read_json, read_text
from MNN.llm.files.safetensors import read_safetensors

Array = np.ndarray
_MODE = re.compile(r"pooling_mode_(\w+?)(?:_tokens?)?")
_NAMES = {
    "cls": "first", "max": "max", "mean": "mean", "mean_sqrt_len": "mean_sqrt_len",
    "mean_sqrt_len_tokens": "mean_sqrt_len", "weightedmean": "weighted", "lasttoken": "last",
}  # fmt: skip
"""What their folders call it, and ours; in the order in which several lie side by side."""
_KINDS = (".Transformer", ".Pooling", ".Normalize", ".Dense")
"""Ends of the names of their modules."""
_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "Identity": lambda x: x,
    "Tanh": np.tanh,
    "ReLU": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


@dataclass(frozen=True)
class Dense:
    """A layer behind pooling: ``activation(x weight^T + bias)``."""

    weight: Array
    bias: Array
    activation: str

    def __call__(self, x: Array) -> Array:
        found: Array = _ACTIVATIONS[self.activation](x @ self.weight.T + self.bias)
        return found


@dataclass(frozen=True)
class Pooling:
    """``kinds``: the ``mean`` of the tokens' vectors, the ``first``, the ``last``, the ``max`` of each number,
    ``weighted`` (the mean, later ones with more weight) or ``mean_sqrt_len``; several lie side by side. ``normal``:
    vectors have the length 1. ``whole``: what texts begin with for a purpose counts, too."""

    kinds: tuple[str, ...] = ("mean",)
    normal: bool = True
    layers: tuple[Dense, ...] = ()
    whole: bool = True

    def __call__(self, texts: Sequence[Array], before: int = 0) -> Array:
        """One vector of each text, f32 ``[texts, width]``. ``texts``: the vectors of their tokens; ``before``: how many
        of each belong to what all begin with."""
        skipped = 0 if self.whole else before
        found = np.stack([np.concatenate([_pool(kind, one, skipped) for kind in self.kinds]) for one in texts])
        for layer in self.layers:
            found = layer(found)
        if self.normal:
            found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return np.asarray(found, np.float32)

    @classmethod
    def of(cls, folder: Path, default: str) -> Pooling:
        """What a folder says. Raises :class:`UnsupportedError` for what is computed in another way, which would give
        other vectors."""
        modules = _modules(folder / "modules.json")
        kinds = [kind for kind, _ in modules]
        other = [kind for kind in kinds if kind not in _KINDS]
        if other:
            raise UnsupportedError(
                f"{folder} ends in a module {other[0][1:81]}; known are {', '.join(kind[1:] for kind in _KINDS)}"
            )
        if ".Normalize" in kinds and ".Dense" in kinds[kinds.index(".Normalize") :]:
            raise UnsupportedError(f"{folder} has a module Dense behind Normalize, which is not known")
        places = [folder / place for kind, place in modules if kind == ".Pooling" and place]
        told = _optional((places[0] if places else folder / "1_Pooling") / "config.json")
        layers = tuple(_dense(folder / place) for kind, place in modules if kind == ".Dense")
        modes = _modes(told, folder)
        return cls(
            modes or (default,), not kinds or ".Normalize" in kinds, layers, told.get("include_prompt") is not False
        )


def _modes(told: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    given = told.get("pooling_mode")
    if given is None:
        names = [match[1] for name, on in told.items() if on is True and (match := _MODE.fullmatch(name))]
        names.sort(key=lambda name: list(_NAMES).index(name) if name in _NAMES else 0)
    else:
        names = [given] if isinstance(given, str) else list(given) if isinstance(given, list) else [str(given)]
    wrong = [name for name in names if name not in _NAMES]
    if wrong:
        raise UnsupportedError(f"{folder} pools by {wrong[0]!r:.60}; known are {', '.join(_NAMES)}")
    return tuple(_NAMES[name] for name in names)


def _dense(place: Path) -> Dense:
    told, file = _optional(place / "config.json"), place / "model.safetensors"
    if not file.is_file():
        raise UnsupportedError(f"{place} has no model.safetensors; save the model again to have one")
    held = read_safetensors(file)
    name = str(told.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in _ACTIVATIONS or told.get("use_residual"):
        what = "with a residual" if name in _ACTIVATIONS else f"with the activation {name!r:.60}"
        raise UnsupportedError(f"{place}: layers {what} are not known; known are {', '.join(_ACTIVATIONS)}")
    for key in ("module_input_name", "module_output_name"):
        if told.get(key) not in (None, "sentence_embedding"):
            raise UnsupportedError(f"{place}: layers of {told[key]!r:.60} are not known, only of sentence_embedding")
    if "linear.weight" not in held or len(held["linear.weight"].shape) != 2:
        raise FormatError(f"{file} has no matrix 'linear.weight'")
    weight = held["linear.weight"].float32()
    bias = held["linear.bias"].float32() if "linear.bias" in held else np.zeros(len(weight), np.float32)
    if bias.shape != (len(weight),):
        raise FormatError(f"{file}: 'linear.bias' has the shape {list(bias.shape)}; expected is [{len(weight)}]")
    return Dense(weight, bias, name)


def _modules(file: Path) -> list[tuple[str, str]]:
    """The kinds of modules that sentence-transformers' folders list, and where their files are. (That folders of some
    are empty tells nothing: those that were cloned or fetched have no empty ones.)"""
    if not file.is_file():
        return []
    found = parse_object(f'{{"modules": {read_text(file)}}}', str(file))["modules"]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise FormatError(f"{file} is no list of modules")
    modules = [("." + str(one.get("type", "")).rpartition(".")[2], str(one.get("path") or "")) for one in found]
    for _, place in modules:
        if ".." in Path(place).parts or Path(place).is_absolute():
            raise FormatError(f"{file} names the folder {place!r:.60}; folders beside it are expected")
    return modules


def _optional(file: Path) -> Mapping[str, Any]:
    return read_json(file) if file.is_file() else {}


def _pool(kind: str, vectors: Array, skipped: int) -> Array:
    own = vectors[skipped:] if skipped < len(vectors) else vectors[-1:]
    if kind in ("first", "last"):
        found: Array = own[0 if kind == "first" else -1]
        return found
    if kind == "max":
        return np.asarray(own.max(0))
    if kind == "weighted":
        weights = np.arange(len(vectors) - len(own) + 1, len(vectors) + 1, dtype=np.float32)
        return np.asarray(weights @ own / weights.sum())
    return np.asarray(own.sum(0) / (len(own) if kind == "mean" else np.sqrt(np.float32(len(own)))))


__all__ = ["Dense", "Pooling"]
