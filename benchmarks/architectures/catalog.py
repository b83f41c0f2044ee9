"""The list of benchmark architectures: builders, inputs and dynamic axes. Does not import torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import nn

Extent = int | str


@dataclass(frozen=True)
class Input:
    """One model input.

    ``shape`` holds ints and, for a dynamic axis, its name; ``example`` gives the extent of every named axis that the
    benchmark uses. ``kind`` says what realistic data is: ``"noise"`` (float32, mean 0, deviation 1, like a normalised
    picture), ``"sound"`` (float32 [batch, samples], tones with noise, mean 0, deviation 1, 16 kHz), ``"tokens"`` (int64
    ids below ``limit``), ``"mask"`` (int64, all ones) or ``"segment"`` (int64, 0 for the first half and 1 for the
    second).
    """

    name: str
    shape: tuple[Extent, ...]
    kind: str = "noise"
    limit: int = 0


@dataclass(frozen=True)
class Architecture:
    """A benchmark network: ``module:function`` that builds it, its inputs, and the names of its outputs.

    ``further``: not one of the networks that the engine is tuned on; they show whether its speed is general.
    """

    name: str
    builder: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    dynamic_outputs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    seed: int = 0
    further: bool = False

    def build(self) -> nn.Module:
        """The torch module in evaluation mode with its seeded random weights."""
        module, function = self.builder.split(":")
        build: Callable[[int], nn.Module] = getattr(importlib.import_module(f"{__package__}.{module}"), function)
        return build(self.seed)

    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        """Axis names of inputs and outputs, in the form that ``torch.onnx.export`` takes."""
        axes = {i.name: {k: d for k, d in enumerate(i.shape) if isinstance(d, str)} for i in self.inputs}
        for name in self.outputs:
            axes[name] = dict(self.dynamic_outputs.get(name, {0: "batch"}))
        return {name: a for name, a in axes.items() if a}

    def feeds(self, seed: int = 0, **extents: int) -> dict[str, npt.NDArray[np.generic]]:
        """Seeded, realistic input data; ``extents`` overrides the named axes (default batch 1, sequence 128)."""
        return {i.name: make_input(i, seed + n, **extents) for n, i in enumerate(self.inputs)}


DEFAULT_EXTENTS = {"batch": 1, "sequence": 128}


def make_input(spec: Input, seed: int, **extents: int) -> npt.NDArray[np.generic]:
    """Data of one input, of the kind its description names."""
    sizes = {**DEFAULT_EXTENTS, **extents}
    shape = tuple(sizes[d] if isinstance(d, str) else d for d in spec.shape)
    rng = np.random.default_rng(seed)
    if spec.kind == "noise":
        return rng.standard_normal(shape).astype(np.float32)
    if spec.kind == "sound":
        return _sound(rng, shape)
    if spec.kind == "tokens":
        return rng.integers(1, spec.limit, shape, dtype=np.int64)
    if spec.kind == "mask":
        return np.ones(shape, np.int64)
    if spec.kind == "segment":
        return np.broadcast_to((np.arange(shape[-1]) * 2 >= shape[-1]).astype(np.int64), shape).copy()
    raise ValueError(f"unknown kind of input {spec.kind!r}")


def _sound(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    """A voice-like sound: a gliding tone with ten harmonics that swells and fades, and noise 20 dB below it."""
    time = np.arange(shape[-1]) / 16000
    pitch = rng.uniform(90, 250, shape[:-1])[..., None]
    phase = 2 * np.pi * (pitch * time + 15 * np.sin(2 * np.pi * 0.7 * time))
    tone = sum(np.sin(k * phase + k) / k for k in range(1, 11)) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * time))
    wave = tone + 0.1 * tone.std() * rng.standard_normal(shape)
    return ((wave - wave.mean()) / wave.std()).astype(np.float32)


def _image(size: int) -> tuple[Input, ...]:
    return (Input("input", ("batch", 3, size, size)),)


def _clip(size: int) -> tuple[Input, ...]:
    return (Input("input", ("batch", 3, 16, size, size)),)


def _further(
    name: str, builder: str, inputs: tuple[Input, ...], output: str = "logits", axes: Mapping[int, str] | None = None
) -> Architecture:
    return Architecture(name, builder, inputs, (output,), {output: axes} if axes else {}, further=True)


_TOKENS = ("batch", "sequence")
_PER_TOKEN = {0: "batch", 1: "sequence"}

ARCHITECTURES: dict[str, Architecture] = {
    a.name: a
    for a in (
        Architecture("mobilenet_v1", "mobilenet_v1:mobilenet_v1", _image(224), ("logits",)),
        Architecture("mobilenet_v2", "mobilenet_v2:mobilenet_v2", _image(224), ("logits",)),
        Architecture("mobilenet_v3_large", "mobilenet_v3:mobilenet_v3_large", _image(224), ("logits",)),
        Architecture("squeezenet1_1", "squeezenet:squeezenet1_1", _image(224), ("logits",)),
        Architecture("shufflenet_v2", "shufflenet_v2:shufflenet_v2", _image(224), ("logits",)),
        Architecture("efficientnet_lite0", "efficientnet_lite:efficientnet_lite0", _image(224), ("logits",)),
        Architecture("resnet18", "resnet:resnet18", _image(224), ("logits",)),
        Architecture("resnet50", "resnet:resnet50", _image(224), ("logits",)),
        Architecture("inception_v3", "inception_v3:inception_v3", _image(299), ("logits",)),
        Architecture("yolov8n_like", "yolo:yolov8n_like", _image(640), ("detections",)),
        Architecture("vit_tiny", "vit:vit_tiny", _image(224), ("logits",)),
        Architecture("vit_b16", "vit:vit_b16", _image(224), ("logits",)),
        Architecture(
            "bert_base",
            "bert:bert_base",
            (
                Input("input_ids", _TOKENS, "tokens", 30522),
                Input("attention_mask", _TOKENS, "mask"),
                Input("token_type_ids", _TOKENS, "segment"),
            ),
            ("last_hidden_state", "pooler_output"),
            {"last_hidden_state": _PER_TOKEN},
        ),
        _further("densenet121", "densenet:densenet121", _image(224)),
        _further("resnext50", "resnet:resnext50", _image(224)),
        _further("regnet_y_800mf", "regnet:regnet_y_800mf", _image(224)),
        _further("convnext_tiny", "convnext:convnext_tiny", _image(224)),
        _further("ghostnet", "ghostnet:ghostnet", _image(224)),
        _further("efficientnet_v2_s", "efficientnet_v2:efficientnet_v2_s", _image(224)),
        _further(
            "distilbert",
            "distilbert:distilbert",
            (Input("input_ids", _TOKENS, "tokens", 30522), Input("attention_mask", _TOKENS, "mask")),
            "last_hidden_state",
            _PER_TOKEN,
        ),
        _further("unet", "unet:unet", _image(192), "scores"),
        _further(
            "wav2vec_encoder",
            "wav2vec:wav2vec_encoder",
            (Input("samples", ("batch", 16000), "sound"),),
            "features",
        ),
        _further(
            "lstm_tagger", "taggers:lstm_tagger", (Input("tokens", _TOKENS, "tokens", 10000),), "tags", _PER_TOKEN
        ),
        _further("gru_tagger", "taggers:gru_tagger", (Input("tokens", _TOKENS, "tokens", 10000),), "tags", _PER_TOKEN),
        _further("mobilevit_xs", "mobilevit:mobilevit_xs", _image(256)),
        _further("conv_tasnet", "conv_tasnet:conv_tasnet", (Input("samples", ("batch", 8000), "sound"),), "voices"),
        _further("resnet3d_18", "video:resnet3d_18", _clip(112)),
        _further("r2plus1d_18", "video:r2plus1d_18", _clip(112)),
        _further("x3d_m", "video:x3d_m", _clip(160)),
    )
}


MAIN = tuple(a.name for a in ARCHITECTURES.values() if not a.further)
FURTHER = tuple(a.name for a in ARCHITECTURES.values() if a.further)
GROUPS = {"main": MAIN, "further": FURTHER, "all": (*MAIN, *FURTHER)}


def select(names: str | None) -> list[Architecture]:
    """Architectures of a comma-separated list of names and groups (main, further, all), all for ``None``.

    KeyError naming the known ones otherwise.
    """
    chosen = [n for name in (names or "all").split(",") for n in GROUPS.get(name, (name,))]
    unknown = [n for n in chosen if n not in ARCHITECTURES]
    if unknown:
        raise KeyError(f"unknown architecture {', '.join(unknown)}; known: {', '.join(ARCHITECTURES)}")
    return [ARCHITECTURES[n] for n in chosen]
