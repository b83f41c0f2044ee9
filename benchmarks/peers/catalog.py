"""The engines, in the order of the tables. Imports none of them."""

from __future__ import annotations

from dataclasses import dataclass

PRECISIONS = ("high", "normal", "low")


@dataclass(frozen=True)
class Peer:
    """One engine: ``module`` in this package, ``format`` of the models it takes, ``environment`` it runs in."""

    name: str
    label: str
    module: str
    format: str  # "onnx", "mnn" (official converter), "ncnn", "tflite"
    environment: str  # "peers", or "here" for this engine
    precisions: tuple[str, ...]
    colour: str


PEERS: dict[str, Peer] = {
    p.name: p
    for p in (
        Peer("mnn-py", "this engine", "mnn_py", "onnx", "here", PRECISIONS, "#d62728"),
        Peer("onnxruntime", "ONNX Runtime", "onnxruntime_py", "onnx", "peers", ("high", "normal"), "#1f77b4"),
        Peer("openvino", "OpenVINO", "openvino_py", "onnx", "peers", PRECISIONS, "#9467bd"),
        Peer("ncnn", "ncnn", "ncnn_py", "ncnn", "peers", ("high", "normal"), "#2ca02c"),
        Peer("litert", "LiteRT", "litert_py", "tflite", "peers", ("high", "normal"), "#ff7f0e"),
        Peer("mnn-official", "MNN (official)", "mnn_official", "mnn", "peers", PRECISIONS, "#8c564b"),
    )
}

# What each environment of ``setup_peers`` holds. torch is pinned: a looser range pulls gigabytes of CUDA packages.
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "peers": (
        "numpy>=2",
        "psutil",
        "onnxruntime==1.31.1",
        "openvino==2026.4.1",
        "ncnn==1.0.20261020",
        "ai-edge-litert==2.3.0",
        "MNN==3.6.1",
    ),
    "converters": (
        "torch==2.13.0",
        "numpy>=2",
        "onnx",
        "onnxscript",
        "safetensors",
        "pnnx==20261020",
        "litert-torch==0.10.0",
    ),
}
