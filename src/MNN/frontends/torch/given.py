"""What is known of a program's inputs beforehand, as texts and as examples have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.frontends.torch.script.load import Given
from MNN.ir.dtype import DType

_TYPES = {d.value: d for d in DType}


def from_texts(inputs: Mapping[str, str]) -> dict[str, Any]:
    """``1x3x224x224`` is a tensor's shape (sizes may be names: ``batchx3``, written ``batch,3``), ``i64:1x7`` one of
    another type than f32 or the one that the module was traced with, a plain number or ``true`` a value. Raises
    :class:`MNNError` for other texts."""
    return {name: _text(name, text) for name, text in inputs.items()}


def _text(name: str, text: str) -> Any:
    kind, _, sizes = text.rpartition(":")
    if kind and kind not in _TYPES:
        raise MNNError(f"--input-shape {name}={text}: '{kind}' is no element type; they are f32, f16, i64, bool ...")
    if not kind and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not kind and "x" not in text and "," not in text:
        for convert in (int, float):
            try:
                return convert(text)
            except ValueError:
                continue
    parts = [p.strip() for p in (sizes.split(",") if "," in sizes else sizes.split("x")) if p.strip()]
    if any(p.startswith("-") or not p.replace("_", "").isalnum() for p in parts):
        raise MNNError(
            f"--input-shape {name}={text}: a shape is 1x3x224x224, or batch,3,224,224 with names of open sizes"
        )
    return Given(tuple(int(p) if p.isdecimal() else p for p in parts), _TYPES[kind] if kind else None)


def from_examples(inputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Arrays (numpy's, or torch's tensors), shapes as tuples, and plain values; by name, or in order."""
    listed = inputs.items() if isinstance(inputs, Mapping) else ((str(i), v) for i, v in enumerate(inputs))
    return {name: _example(name, value) for name, value in listed}


def _example(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, Given)):
        return value
    if isinstance(value, tuple) and all(isinstance(n, (int, str)) for n in value):
        return Given(value)
    if isinstance(value, (list, tuple)):
        return tuple(_example(f"{name}.{i}", v) for i, v in enumerate(value))
    array = np.asarray(value)
    try:
        return Given(tuple(array.shape), DType.of(array))
    except KeyError as error:
        raise MNNError(f"the example of '{name}' is of the type {array.dtype}, which is not supported") from error
