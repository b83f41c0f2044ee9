"""Files of the official converter that say for each layer how its weights are quantised (``--compressionParamsFile``).

JSON: ``algo`` is a list of steps; one of the type ``QUANTIZE`` has ``quantParams`` with a list ``layer``, of which each
has an ``opName`` and a ``weight``: ``bits`` (0: left as it is), ``asymmetric`` and ``blockSize`` (0: a scale for each
output).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from MNN.errors import FormatError, MNNError
from MNN.schema.files import open_regular
from MNN.weight_quantization.quantize import Layers, QuantizedLayer, WeightQuantization

MOST = 64 << 20
"""Bytes of such a file."""
_PRODUCT = "__matmul_converted"
"""What the official converter adds to names of products that it writes as convolutions."""


def read_layers(path: Path, half_quadratic: bool = False) -> Layers:
    """How each layer is quantised. ``half_quadratic`` is said of asymmetric ones.

    Raises :class:`~MNN.errors.FormatError` for what is no such file, and :class:`MNNError` for scales of activations
    and of weights, which are not taken.
    """
    with open_regular(path) as file:
        text = file.read(MOST + 1)
    if len(text) > MOST:
        raise FormatError(f"{path} is larger than {MOST >> 20} MiB")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is no JSON file of quantised layers (files of protobuf are not read)") from error
    found: dict[str, WeightQuantization | None] = {}
    for layer in _layers(told, path):
        name = str(layer.get("opName", "")).removesuffix(_PRODUCT)
        if not name:
            raise FormatError(f"{path}: a layer has no opName")
        if layer.get("input") or layer.get("output"):
            raise MNNError(
                f"{path}: layer '{name}' has scales of activations, which are not taken; quantise the source model "
                "(QDQ of ONNX, a quantised TFLite file), whose integers are kept"
            )
        weights = layer.get("weight")
        if not isinstance(weights, list) or len(weights) != 1 or not isinstance(weights[0], dict):
            raise FormatError(f"{path}: layer '{name}' should have one weight")
        found[name] = _how(weights[0], f"{path}: layer '{name}'", half_quadratic)
    return found


def _layers(told: object, path: Path) -> Iterator[dict[str, Any]]:
    """All layers that are quantised."""
    inner = told.get("pipeline", told) if isinstance(told, dict) else None
    steps = inner.get("algo") if isinstance(inner, dict) else None
    if not isinstance(steps, list):
        raise FormatError(f"{path} has no list 'algo' of what is done to layers")
    for step in steps:
        parameters = None
        if isinstance(step, dict) and step.get("type", "QUANTIZE") in ("QUANTIZE", 0):
            parameters = step.get("quantParams", step.get("quant_params"))
        layers = parameters.get("layer", []) if isinstance(parameters, dict) else None
        if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
            raise FormatError(f"{path}: a step of 'algo' is no QUANTIZE with a list of layers, which alone is taken")
        yield from layers


def _how(weight: dict[str, Any], where: str, half_quadratic: bool) -> WeightQuantization | None:
    bits, asymmetric, block = weight.get("bits", 8), weight.get("asymmetric", True), weight.get("blockSize", 0)
    if weight.get("scales"):
        raise MNNError(f"{where} has scales of its own, which are not taken; they are found from the weights")
    if type(bits) is not int or type(block) is not int or not isinstance(asymmetric, bool):
        raise FormatError(f"{where}: expected bits, asymmetric (true or false) and blockSize, not {str(weight)[:80]}")
    if bits == 0:
        return None
    try:
        return WeightQuantization(bits, max(block, 0), asymmetric, half_quadratic and asymmetric)
    except MNNError as error:
        raise FormatError(f"{where}: {error}") from error


def write_layers(file: BinaryIO, layers: Sequence[QuantizedLayer]) -> None:
    """Writes what was done as such a file, to edit and to give again."""
    listed = [
        {
            "weight": [
                {
                    "name": layer.name,
                    "bits": layer.how.bits,
                    "asymmetric": layer.how.asymmetric,
                    "blockSize": layer.how.block,
                }
            ],
            "opName": layer.name,
            "conv": {
                "inputChannel": layer.shape[1],
                "outputChannel": layer.shape[0],
                "kernelSize": list(layer.shape[2:]) or [1, 1],
            },
        }
        for layer in layers
    ]
    told = {"algo": [{"type": "QUANTIZE", "quantParams": {"layer": listed}}]}
    file.write(json.dumps(told, indent=1).encode() + b"\n")
