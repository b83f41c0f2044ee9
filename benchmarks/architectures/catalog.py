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
    picture), ``"tokens"`` (int64 ids below ``limit``), ``"mask"`` (int64, all ones) or ``"segment"`` (int64, 0 for the
    first half and 1 for the second).
    """

    name: str
    shape: tuple[Extent, ...]
    kind: str = "noise"
    limit: int = 0


@dataclass(frozen=True)
class Architecture:
    """A benchmark network: ``module:function`` that builds it, its inputs, and the names of its outputs."""

    name: str
    builder: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    dynamic_outputs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    seed: int = 0

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
    if spec.kind == "tokens":
        return rng.integers(1, spec.limit, shape, dtype=np.int64)
    if spec.kind == "mask":
        return np.ones(shape, np.int64)
    if spec.kind == "segment":
        return np.broadcast_to((np.arange(shape[-1]) * 2 >= shape[-1]).astype(np.int64), shape).copy()
    raise ValueError(f"unknown kind of input {spec.kind!r}")


def _image(size: int) -> tuple[Input, ...]:
    return (Input("input", ("batch", 3, size, size)),)


_TOKENS = ("batch", "sequence")

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
            {"last_hidden_state": {0: "batch", 1: "sequence"}},
        ),
    )
}


def select(names: str | None) -> list[Architecture]:
    """Architectures of a comma-separated list, all for ``None``; KeyError naming the known ones otherwise."""
    if not names:
        return list(ARCHITECTURES.values())
    unknown = [n for n in names.split(",") if n not in ARCHITECTURES]
    if unknown:
        raise KeyError(f"unknown architecture {', '.join(unknown)}; known: {', '.join(ARCHITECTURES)}")
    return [ARCHITECTURES[n] for n in names.split(",")]
