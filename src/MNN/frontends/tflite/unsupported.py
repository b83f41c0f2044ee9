"""Builtin operators that are not supported, and what to do about each."""

from __future__ import annotations

_NO_KERNEL = "no version of TensorFlow Lite runs it: convert the model from its source again"
_DELEGATE = "the file was written for one accelerator: take the model that it was made from"

ADVICE: dict[str, str] = {
    "CONCAT_EMBEDDINGS": _NO_KERNEL,
    "DELEGATE": _DELEGATE,
    "PLACEHOLDER_FOR_GREATER_OP_CODES": _NO_KERNEL,
    "STABLEHLO_CUSTOM_CALL": _NO_KERNEL,
    "STABLEHLO_RNG_BIT_GENERATOR": "draw random numbers outside of the model, and give it them",
    "SKIP_GRAM": "split texts before the model, and give it numbers",
    "LSH_PROJECTION": "hash before the model, and give it numbers",
}
