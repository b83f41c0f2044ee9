"""The engines, in the order of the tables. Imports none of them."""

from __future__ import annotations

from dataclasses import dataclass

PRECISIONS = ("high", "normal", "low")


@dataclass(frozen=True)
class Peer:
    """One engine in one mode.

    ``module`` in this package, ``format`` of the models it takes, ``environment`` it runs in.
    ``family`` names the engine in all its modes; ``variables`` are environment variables of its process.
    """

    name: str
    family: str
    label: str
    module: str
    format: str  # "onnx", "mnn" (official converter), "ncnn", "tflite", "torch" (built from the architecture)
    environment: str  # "peers", "converters", or "here" for this engine
    precision: str
    colour: str
    variables: tuple[tuple[str, str], ...] = ()


PEERS: dict[str, Peer] = {
    p.name: p
    for p in (
        Peer("mnn-high", "mnn-py", "this engine, high", "mnn_py", "onnx", "here", "high", "#d62728"),
        Peer("mnn-normal", "mnn-py", "this engine, normal", "mnn_py", "onnx", "here", "normal", "#ff5a5a"),
        Peer("mnn-low", "mnn-py", "this engine, low", "mnn_py", "onnx", "here", "low", "#8b0000"),
        Peer(
            "mnn-avx2", "mnn-py", "this engine, AVX2", "mnn_py", "onnx", "here", "high", "#e377c2",
            (("MNN_TARGET", "avx2"),),
        ),
        Peer(
            "mnn-avx512", "mnn-py", "this engine, no tiles", "mnn_py", "onnx", "here", "high", "#bcbd22",
            (("MNN_TARGET", "avx512,-amx-tile"),),
        ),
        Peer("onnxruntime", "onnxruntime", "ONNX Runtime", "onnxruntime_py", "onnx", "peers", "high", "#1f77b4"),
        Peer("openvino", "openvino", "OpenVINO f32", "openvino_py", "onnx", "peers", "high", "#9467bd"),
        Peer("ncnn", "ncnn", "ncnn", "ncnn_py", "ncnn", "peers", "high", "#2ca02c"),
        Peer("litert", "litert", "LiteRT", "litert_py", "tflite", "peers", "high", "#ff7f0e"),
        Peer("mnn-official", "mnn-official", "MNN (official)", "mnn_official", "mnn", "peers", "high", "#8c564b"),
        Peer("openvino-default", "openvino", "OpenVINO default", "openvino_py", "onnx", "peers", "low", "#c5b0d5"),
        Peer("torch-bf16", "torch", "PyTorch bf16", "torch_bf16", "torch", "converters", "low", "#7f7f7f"),
    )
}  # fmt: skip

# Not measured: node by node as the graph is written, for errors where no float64 run is possible.
PLAIN = Peer("plain", "onnxruntime", "ONNX Runtime plain", "onnxruntime_py", "onnx", "peers", "plain", "#000000")

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
    "pictures": ("numpy>=2", "opencv-python-headless==5.0.0", "MNN==3.6.1"),
}
