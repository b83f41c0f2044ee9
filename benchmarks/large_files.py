"""Time and memory that a large file of each format takes: ``python -m benchmarks.large_files --out DIR``.

One network of 349 MB, a chain of convolutions and products with drawn weights as VGG has them, as ``.onnx`` with its
weights in the file and beside it, ``.caffemodel``, and ncnn's ``.param`` and ``.bin``; and with ``--tensorflow PYTHON``
(an interpreter with TensorFlow and Keras) as ``.tflite``, SavedModel, ``.keras`` and ``.h5``. Each is converted to
``.mnn``, and run without converting (``MNN.load(...).run``), in a process of its own with one thread and an empty
cache of programs. Times are of the clock and of the processor, from the start of Python; memory is the most resident
at any time, over the file's size. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

CONVOLUTIONS, CHANNELS, SIDE = 12, 512, 14
WIDTHS = (512, 4096, 4096, 4096, 4096, 1600)
_CHILD = """
import sys, resource
import numpy as np
what, source, target = sys.argv[1:]
if what == "convert":
    from MNN.converter import convert
    convert(source, target)
else:
    import MNN
    model = MNN.load(source, threads=1)
    (name, info), = model.inputs.items()
    model.run({name: np.ones([d if isinstance(d, int) else 1 for d in info.shape], np.float32)})
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM"))
print(used.ru_utime + used.ru_stime, peak * 1024 / 1e6)
"""
_KERAS = """
import sys
import keras, tensorflow as tf
folder, convolutions, channels, side, *widths = sys.argv[1], *map(int, sys.argv[2:])
keras.utils.set_random_seed(0)
layers = keras.layers
first = keras.Input((side, side, channels), batch_size=1)
x = first
for _ in range(convolutions):
    x = layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
for width in widths[1:]:
    x = layers.Dense(width, activation="relu")(x)
model = keras.Model(first, x)
model.save(folder + "/network.keras")
model.save(folder + "/network.h5")
model.export(folder + "/savedmodel", verbose=False)
open(folder + "/network.tflite", "wb").write(tf.lite.TFLiteConverter.from_keras_model(model).convert())
"""


def weights() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases, layer by layer: outputs first."""
    rng = np.random.default_rng(0)
    shapes = [(CHANNELS, CHANNELS, 3, 3)] * CONVOLUTIONS
    products = [(b, a) for a, b in itertools.pairwise(WIDTHS)]
    for shape in [*shapes, *products]:
        inner = int(np.prod(shape[1:]))
        drawn = rng.standard_normal(shape, np.float32) * np.float32((2 / inner) ** 0.5)
        yield drawn, np.zeros(shape[0], np.float32)


def onnx_files(folder: Path) -> dict[str, Path]:
    """The network with its weights in the file, and beside it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants, x = [], [], "x"
    for i, (weight, bias) in enumerate(weights()):
        if i == CONVOLUTIONS:
            nodes += [
                helper.make_node("GlobalAveragePool", [x], ["mean"]),
                helper.make_node("Flatten", ["mean"], ["f"]),
            ]
            x = "f"
        constants += [numpy_helper.from_array(a, f"{kind}{i}") for kind, a in (("w", weight), ("b", bias))]
        settings = {"pads": [1] * 4} if i < CONVOLUTIONS else {"transB": 1}
        kind = "Conv" if i < CONVOLUTIONS else "Gemm"
        nodes.append(helper.make_node(kind, [x, f"w{i}", f"b{i}"], [f"p{i}"], **settings))
        nodes.append(helper.make_node("Relu", [f"p{i}"], [f"y{i}"]))
        x = f"y{i}"
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, SIDE, SIDE])
    made = helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, WIDTHS[-1]])
    model = helper.make_model(
        helper.make_graph(nodes, "network", [given], [made], constants),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    whole, beside = folder / "network.onnx", folder / "external" / "network.onnx"
    beside.parent.mkdir(exist_ok=True)
    onnx.save(model, whole)
    (beside.parent / "network.data").unlink(missing_ok=True)
    onnx.save(model, beside, save_as_external_data=True, location="network.data")
    return {"ONNX": whole, "ONNX, external data": beside}


def caffe_files(folder: Path) -> dict[str, Path]:
    from tests.frontends.caffe.build import Word, caffemodel, inputs, layer, prototxt

    layers, x = inputs(data=(1, CHANNELS, SIDE, SIDE)), "data"
    for i, blobs in enumerate(weights()):
        if i == CONVOLUTIONS:
            pool = {"pool": Word("AVE"), "global_pooling": True}
            layers.append(layer("Pooling", [x], ["mean"], pooling_param=pool))
            x = "mean"
        count = len(blobs[1])
        if i < CONVOLUTIONS:
            settings = {"convolution_param": {"num_output": count, "kernel_size": [3], "pad": [1]}}
            layers.append(layer("Convolution", [x], [f"y{i}"], blobs, **settings))
        else:
            layers.append(layer("InnerProduct", [x], [f"y{i}"], blobs, inner_product_param={"num_output": count}))
        x = f"y{i}"
        layers.append(layer("ReLU", [x], [x], name=f"relu{i}"))
    net = {"name": "network", "layer": layers}
    (folder / "network.prototxt").write_text(prototxt(net))
    (folder / "network.caffemodel").write_bytes(caffemodel(net))
    return {"Caffe": folder / "network.caffemodel"}


def ncnn_files(folder: Path) -> dict[str, Path]:
    from tests.frontends.ncnn.build import Model, Weight

    model = Model()
    x = model.input(np.zeros((CHANNELS, SIDE, SIDE), np.float32))
    for i, (weight, bias) in enumerate(weights()):
        if i == CONVOLUTIONS:
            x = model.one("Pooling", [x], {0: 1, 4: 1})
        stored = [Weight(weight), Weight(bias, "plain")]
        count = len(bias)
        if i < CONVOLUTIONS:
            x = model.one("Convolution", [x], {0: count, 1: 3, 4: 1, 5: 1, 6: weight.size, 9: 1}, stored)
        else:
            x = model.one("InnerProduct", [x], {0: count, 1: 1, 2: weight.size, 9: 1}, stored)
    (folder / "network.param").write_bytes(model.text())
    (folder / "network.bin").write_bytes(model.weights())
    return {"ncnn": folder / "network.param"}


def keras_files(folder: Path, python: str) -> dict[str, Path]:
    sizes = map(str, (CONVOLUTIONS, CHANNELS, SIDE, *WIDTHS))
    subprocess.run([python, "-c", _KERAS, str(folder), *sizes], check=True, stdout=subprocess.DEVNULL)
    names = {".keras": "network.keras", ".h5": "network.h5", "TFLite": "network.tflite", "SavedModel": "savedmodel"}
    return {name: folder / file for name, file in names.items()}


def size(path: Path) -> float:
    """MB of the model: of a folder, and of what lies beside a file and belongs to it."""
    beside = {".param": [path.with_suffix(".bin")]}.get(path.suffix, [])
    if path.is_dir() or path.parent.name == "external":
        beside = [p for p in (path if path.is_dir() else path.parent).rglob("*") if p.is_file() and p != path]
    return sum(p.stat().st_size for p in [path, *beside] if p.is_file()) / 1e6


def measure(what: str, path: Path) -> tuple[float, float, float]:
    """Seconds of the clock and of the processor, and MB at most, of one process."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        environment = os.environ | {"MNN_CACHE_DIR": f"{folder}/cache"}
        start = time.perf_counter()
        command = [sys.executable, "-c", _CHILD, what, str(path), f"{folder}/out.mnn"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        clock = time.perf_counter() - start
    processor, peak = map(float, done.stdout.split()[-2:])
    return clock, processor, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("large-files"))
    parser.add_argument("--tensorflow", help="interpreter that has TensorFlow and Keras")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    writers: list[Callable[[], dict[str, Path]]] = [
        lambda write=write: write(given.out) for write in (onnx_files, caffe_files, ncnn_files)
    ]  # type: ignore[misc]
    if given.tensorflow:
        writers.append(lambda: keras_files(given.out, given.tensorflow))
    print("| format | MB | converted, s | of CPU | memory / file | run, s | of CPU | memory / file |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for write in writers:
        for name, path in write().items():
            mb = size(path)
            cells = []
            for what in ("convert", "run"):
                clock, processor, peak = measure(what, path)
                cells.append(f"{clock:.1f} | {processor:.1f} | {peak / mb:.2f}")
            print(f"| {name} | {mb:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
