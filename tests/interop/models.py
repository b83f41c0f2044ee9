"""The models that are compared: files, inputs, and what onnxruntime says about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.architectures import catalog
from MNN.frontends import load_graph
from MNN.ir.graph import Graph
from tests import kept
from tests.onnx.test_matmul_nbits import Case, product

Feeds = Mapping[str, np.ndarray]


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _noise(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (_rng().standard_normal(shape) * scale).astype(np.float32)


def _tokens() -> Feeds:
    ids = _rng().integers(1000, 20000, (1, 24), dtype=np.int64)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def _speech(length: int = 576) -> np.ndarray:
    t = np.arange(length) / 16000
    tone = 0.3 * np.sin(2 * np.pi * 220 * t) + 0.1 * np.sin(2 * np.pi * 660 * t)
    return (tone + 0.02 * _rng().standard_normal(length)).astype(np.float32)[None]


def _silero(**more: np.ndarray) -> Feeds:
    return {"input": _speech(), "state": np.zeros((2, 1, 128), np.float32), **more}


SR = np.array(16000, np.int64)
TRAINED: dict[str, Callable[[], Feeds]] = {
    "basic_pitch": lambda: {"serving_default_input_2:0": _noise(1, 43844, 1, scale=0.1)},
    "efficientnet_lite0": lambda: {"input": _noise(1, 3, 224, 224)},
    "magika": lambda: {"bytes": _rng().integers(0, 256, (1, 2048), dtype=np.int32)},
    "minilm": _tokens,
    "ppocr_cls": lambda: {"x": _noise(1, 3, 48, 192)},
    "ppocr_det": lambda: {"x": _noise(1, 3, 160, 224)},
    "ppocr_rec": lambda: {"x": _noise(1, 3, 48, 320)},
    "silero_vad": lambda: _silero(sr=SR),
    "silero_vad_16k_op15": lambda: _silero(sr=SR),
    "silero_vad_16k_sequence": lambda: {
        "input": _speech(),
        "h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32),
    },
    "silero_vad_half": lambda: _silero(),
    "silero_vad_op18_ifless": lambda: _silero(sr=SR),
    "silero_vad_openvino_16k": lambda: _silero(),
    "swift_f0": lambda: {
        "audio": _speech(8000), "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32),
    },
}  # fmt: skip

#: What the tests' list of trained models calls those whose files have other names.
KEYS = {
    "silero_vad_16k_op15": "silero_vad_16k",
    "silero_vad_16k_sequence": "silero_vad_sequence",
    "silero_vad_op18_ifless": "silero_vad_ifless",
    "silero_vad_openvino_16k": "silero_vad_openvino",
}


#: Products with compressed weights, whose sizes in front are known or not.
NBITS: dict[str, Callable[[], Case]] = {
    "nbits4": lambda: product(128, 40, (3,), zeros="packed", bias=True),
    "nbits4_named": lambda: product(96, 50, (2, 3), zeros="packed", axes=("batch", "time")),
    "nbits4_cut": lambda: product(100, 24, (1, 2), block=16, axes=("batch", "time")),
    "nbits8_named": lambda: product(256, 33, (2, 3), bits=8, block=64, axes=("batch", "time")),
}


@dataclass(frozen=True)
class Model:
    """A file with inputs of batch 1: of ONNX, unless a class of its own says otherwise."""

    name: str
    path: Path
    feeds: Callable[[], Feeds]

    def graph(self) -> Graph:
        """What is written."""
        return load_graph(self.path)

    def tolerance(self) -> float:
        """How far answers of this engine may be off, relative to the largest number."""
        return 1e-4

    def expected(self) -> dict[str, np.ndarray]:
        """Outputs by name, from onnxruntime; they are kept (:mod:`tests.kept`)."""
        import onnxruntime as ort

        def make() -> kept.Run:
            options = ort.SessionOptions()
            options.log_severity_level = 3
            options.intra_op_num_threads = 2
            session = ort.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
            wanted, names = {i.name for i in session.get_inputs()}, [o.name for o in session.get_outputs()]
            return lambda feeds: dict(
                zip(names, session.run(None, {k: v for k, v in feeds.items() if k in wanted}), strict=True)
            )

        return dict(kept.kept_run(self.path, f"onnxruntime {ort.__version__}, two threads", make)(self.feeds()))


def models(architectures: Path | None = None, trained: Path | None = None) -> list[Model]:
    """All models. Files come from ``MNN_INTEROP_MODELS`` (folders ``arch`` and ``real``) or the tests' own lists."""
    root = os.environ.get("MNN_INTEROP_MODELS")
    if root:
        architectures, trained = Path(root) / "arch", Path(root) / "real"
    found = []
    for name, architecture in catalog.ARCHITECTURES.items():
        path = architectures / f"{name}.onnx" if architectures else _exported(name)
        found.append(Model(f"arch/{name}", path, architecture.feeds))
    for name, feeds in TRAINED.items():
        path = trained / f"{name}.onnx" if trained else _fetched(name)
        found.append(Model(f"real/{name}", path, feeds))
    from tests import zoo

    for name, case in NBITS.items():
        made = case()
        path = zoo.cache_folder() / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.model.SerializeToString())
        found.append(Model(f"nbits/{name}", path, lambda x=made.x: {"x": x}))  # type: ignore[misc]
    from tests.interop.caffe_models import caffe_models
    from tests.interop.framework_models import framework_models
    from tests.interop.keras_models import keras_models

    cache = zoo.cache_folder()
    return [*found, *caffe_models(cache / "caffe"), *framework_models(), *keras_models(cache / "keras")]


def _exported(name: str) -> Path:
    from tests import export_env, zoo

    return export_env.architecture(name, zoo.cache_folder())


def _fetched(name: str) -> Path:
    from tests import zoo

    return zoo.path(KEYS.get(name, name))
