"""Weights of convolutions and matrix products as 2- to 8-bit integers with scales: smaller files, the same network."""

from MNN.weight_quantization.layers_file import read_layers, write_layers
from MNN.weight_quantization.quantize import (
    Layers,
    QuantizedLayer,
    WeightQuantization,
    layer_names,
    quantize_weights,
)

__all__ = [
    "Layers",
    "QuantizedLayer",
    "WeightQuantization",
    "layer_names",
    "quantize_weights",
    "read_layers",
    "write_layers",
]
