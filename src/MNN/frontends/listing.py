"""The operators that each kind of file may hold."""

from __future__ import annotations

from importlib import import_module

from MNN.errors import MNNError

_TABLES = {
    "tensorflow": "tensorflow.registry:table", "tflite": "tflite.registry:TABLE", "caffe": "caffe.registry:table",
    "torch": "torch.registry:ATEN", "keras": "keras.registry:table", "ncnn": "ncnn.registry:TABLE",
}  # fmt: skip


def operators_of(kind: str) -> list[str]:
    """Names of the operators that files of a kind (:func:`MNN.frontends.kinds`) are converted with, sorted."""
    if kind == "onnx":
        from MNN.frontends.onnx.registry import known_operators

        return sorted(f"{domain}.{name}" if domain else name for domain, name in known_operators())
    if kind in ("mnn", "json"):
        from MNN.ops.core.base import operators

        return sorted(operators())
    if kind not in _TABLES:
        raise MNNError(f"'{kind}' is no kind of model file; known: onnx, mnn, json, {', '.join(_TABLES)}")
    module, _, name = _TABLES[kind].partition(":")
    known: list[str] = getattr(import_module(f"MNN.frontends.{module}"), name).known()
    return known
