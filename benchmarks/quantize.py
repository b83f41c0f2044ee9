"""Quantised models of all kinds, made with ONNX Runtime's quantiser: ``python -m benchmarks.quantize --out DIR``.

Needs ``onnxruntime`` (and ``onnx_ir`` for 4-bit weights) where it runs. Static quantisers are calibrated on seeded data
of each model's own range. Files are ``DIR/<model>-<quantiser>.onnx``; those that are there are kept.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from .architectures.catalog import ARCHITECTURES
from .decoder import TOKENS, decoder
from .setup_peers import work_folder

_CALIBRATION = 2
_STATIC: dict[str, dict[str, Any]] = {
    "qdq-u8s8": {},
    "qdq-u8s8-channels": {"per_channel": True},
    "qdq-s8s8-channels": {"activation_type": QuantType.QInt8, "per_channel": True},
    "qop-u8s8": {"quant_format": QuantFormat.QOperator},
    "qop-u8u8": {"quant_format": QuantFormat.QOperator, "weight_type": QuantType.QUInt8},
    "qop-s8s8-channels": {
        "quant_format": QuantFormat.QOperator, "activation_type": QuantType.QInt8, "per_channel": True,
    },
    "qdq-u16s8": {"activation_type": QuantType.QUInt16},
    "qdq-u8s4": {"weight_type": QuantType.QInt4},
}  # fmt: skip
_DYNAMIC: dict[str, dict[str, Any]] = {
    "dynamic-s8": {"weight_type": QuantType.QInt8},
    "dynamic-u8": {"weight_type": QuantType.QUInt8},
    "dynamic-s8-channels": {"weight_type": QuantType.QInt8, "per_channel": True},
}
_BLOCKS = {"nbits4-32": (4, 32), "nbits4-128": (4, 128), "nbits8-32": (8, 32)}
QUANTISERS = (*_STATIC, *_DYNAMIC, *_BLOCKS)
_IMAGES = ("qdq-u8s8", "qdq-u8s8-channels", "qdq-s8s8-channels", "qop-u8s8")
_TEXT = ("dynamic-s8", "dynamic-s8-channels", "qdq-u8s8", "nbits4-32")
MATRIX: dict[str, tuple[str, ...]] = {
    "mobilenet_v2": (*_STATIC, "dynamic-u8"),
    "resnet18": (*_STATIC, "dynamic-u8"),
    "resnet50": _IMAGES,
    "resnext50": _IMAGES,
    "regnet_y_800mf": _IMAGES,
    "efficientnet_v2_s": _IMAGES,
    "unet": _IMAGES,
    "efficientnet_lite0": _IMAGES,
    "squeezenet1_1": _IMAGES,
    "yolov8n_like": _IMAGES,
    "vit_tiny": (*_IMAGES, *_DYNAMIC, "nbits4-32"),
    "distilbert": (*_TEXT, "dynamic-u8", "qdq-s8s8-channels", "qop-u8s8"),
    "bert_base": ("dynamic-s8",),
    "lstm_tagger": ("dynamic-s8", "dynamic-u8"),
    "gru_tagger": ("dynamic-s8", "dynamic-u8"),
    "decoder": ("nbits4-32", "nbits4-128", "nbits8-32", "dynamic-s8"),
}
"""The quantised forms that are measured of each model; what a quantiser refuses is left out."""


class _Data(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, model: str) -> None:
        self.left = [feeds(model, seed) for seed in range(1, 1 + _CALIBRATION)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def feeds(model: str, seed: int = 0, **extents: int) -> dict[str, np.ndarray]:
    """Input data of a model, by its name without the quantiser's."""
    if model == "decoder":
        shape = extents.get("batch", 1), extents.get("sequence", 128)
        return {"tokens": np.random.default_rng(seed).integers(0, TOKENS, shape)}
    return ARCHITECTURES[model].feeds(seed, **extents)


def float_model(model: str, work: Path, out: Path) -> Path:
    """The float model's file: exported by ``benchmarks.export``, the decoder made here."""
    if model != "decoder":
        return work / "models" / f"{model}.onnx"
    path = out / "decoder.onnx"
    if not path.is_file():
        onnx.save(decoder(), str(path))
    return path


def quantise(source: Path, model: str, quantiser: str, to: Path) -> None:
    """Writes the quantised model; raises what the quantiser raises."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.onnx"
        if quantiser in _BLOCKS:
            _block_wise(source, to, *_BLOCKS[quantiser])
            return
        quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        if quantiser in _DYNAMIC:
            quantize_dynamic(str(ready), str(to), **_DYNAMIC[quantiser])
            return
        options = {"quant_format": QuantFormat.QDQ, "weight_type": QuantType.QInt8, "per_channel": False}
        options |= {"activation_type": QuantType.QUInt8} | _STATIC[quantiser]
        if quantiser in ("qdq-u16s8", "qdq-u8s4"):
            newer = onnx.version_converter.convert_version(onnx.load(str(ready)), 21)
            onnx.save(newer, str(ready))
        quantize_static(str(ready), str(to), _Data(model), **options)


def _block_wise(source: Path, to: Path, bits: int, block: int) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(str(source), bits=bits, block_size=block, is_symmetric=bits == 8)
    quantizer.process()
    quantizer.model.save_model_to_file(str(to), False)


def make(models: list[str], quantisers: list[str] | None, work: Path, out: Path, say: Callable[[str], None]) -> None:
    """Makes what is not there yet; what a quantiser cannot do is said and left out."""
    out.mkdir(parents=True, exist_ok=True)
    for model in models:
        for quantiser in MATRIX[model]:
            path = out / f"{model}-{quantiser}.onnx"
            if path.is_file() or (quantisers is not None and quantiser not in quantisers):
                continue
            partial = path.with_suffix(".partial")
            try:
                quantise(float_model(model, work, out), model, quantiser, partial)
            except Exception as reason:  # noqa: BLE001 - a quantiser may raise anything, and the others go on
                say(f"{path.name}: not made: {type(reason).__name__}: {str(reason).splitlines()[0]}")
                partial.unlink(missing_ok=True)
                continue
            partial.replace(path)
            say(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the models, outside of the repository")
    parser.add_argument("--models", help=f"of {', '.join(MATRIX)}; default all")
    parser.add_argument("--quantisers", help=f"of {', '.join(QUANTISERS)}; default those of each model")
    parser.add_argument("--work", type=Path, help="folder of setup_peers")
    options = parser.parse_args()
    models = options.models.split(",") if options.models else list(MATRIX)
    quantisers = options.quantisers.split(",") if options.quantisers else None
    make(models, quantisers, work_folder(options.work), options.out, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
