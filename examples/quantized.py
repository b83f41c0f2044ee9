"""Quantise a classifier to 8 bits with ONNX Runtime's tools and run it here beside its float form.

    python examples/quantized.py model.onnx photo.jpg [more.jpg ...] [--out quantised.onnx]

Needs onnxruntime (python -m pip install onnxruntime) for quantising only. The images calibrate the quantiser: they
tell it the ranges of activations. Use a few hundred in earnest. Prints both models' best class for each image, the
largest difference of their scores, and what they take on disk and in time on this machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from classify import prepare
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import MNN


class Images(CalibrationDataReader):  # type: ignore[misc] # ONNX Runtime has no types
    """Hands out the prepared images one by one."""

    def __init__(self, name: str, arrays: list[np.ndarray]) -> None:
        self.left = [{name: array} for array in arrays]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def quantise(source: Path, target: Path, data: Images) -> None:
    """Writes the model with QuantizeLinear and DequantizeLinear around every operator that can work on bytes."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.onnx"
        quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(str(ready), str(target), data, quant_format=QuantFormat.QDQ, per_channel=True, **kinds)


def milliseconds(model: MNN.Model, array: np.ndarray, runs: int = 20) -> float:
    """The minimum time of a run."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        model(array)
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("quantised.onnx"))
    options = parser.parse_args()
    original = MNN.load(options.model)
    arrays = [prepare(path, 224, 127, 1 / 128) for path in options.images]
    quantise(options.model, options.out, Images(original.get_inputs()[0].name, arrays))
    small = MNN.load(options.out)
    for path, array in zip(options.images, arrays, strict=True):
        wanted, found = original(array), small(array)
        error = np.abs(found - wanted).max() / np.abs(wanted).max()
        print(
            f"{path.name}: class {wanted.argmax()} in floats, {found.argmax()} in bytes; scores differ by {error:.1%}"
        )
    for name, path, model in (("floats", options.model, original), ("bytes", options.out, small)):
        print(f"{name}: {path.stat().st_size / 1e6:.1f} MB, {milliseconds(model, arrays[0]):.1f} ms")


if __name__ == "__main__":
    main()
