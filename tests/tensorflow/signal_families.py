"""Seeded random uses of Fourier transforms and complex arithmetic, colours, resampling, segments and losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.tensorflow.families import Case, call, family, floats, held, ints, shape

SIZED = {"CombinedNonMaxSuppression", "ExtractImagePatches", "ExtractVolumePatches", "ResizeArea", "ScaleAndTranslate"}
"""Read where the sizes of pictures, and the number of classes, are known."""

# -- complex numbers --------------------------------------------------------------------------------------------------


def _pair(rng: np.random.Generator, rank: int) -> list[np.ndarray]:
    sizes = shape(rng, rank, 7)
    return [floats(rng, sizes), floats(rng, sizes)]


def _told(z: Any) -> list[Any]:
    return [tf.math.real(z), tf.math.imag(z)]


@family("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D")
def transform(rng: np.random.Generator, op: str) -> Case:
    rank = int(op[-2]) if op.endswith("D") else 1
    return lambda a, b: _told(call(op, input=tf.complex(a, b))), _pair(rng, rank + int(rng.integers(0, 3)))


@family("RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D")
def real_transform(rng: np.random.Generator, op: str) -> Case:
    rank = int(op[-2]) if op.endswith("D") else 1
    length = held(rng.integers(1, 9, rank), np.int32)
    sizes = [*shape(rng, int(rng.integers(0, 3))), *(int(n) for n in rng.integers(8, 11, rank))]
    a, b = floats(rng, sizes), floats(rng, sizes)  # what would be filled up with zeros, TensorFlow refuses
    if op.startswith("R"):
        return lambda x: _told(call(op, input=x, fft_length=length)), [a]
    return lambda x, y: call(op, input=tf.complex(x, y), fft_length=length), [a, b]


@family("Complex", "Real", "Imag", "ComplexAbs", "Angle", "Conj")
def parts(rng: np.random.Generator, op: str) -> Case:
    """Arithmetic and arrangement between a complex tensor and what is told of it."""
    a, b = _pair(rng, 3)
    factor = complex(*rng.uniform(-2, 2, 2))
    kind = int(rng.integers(0, 5))

    def run(x: Any, y: Any) -> Any:
        z = tf.complex(x, y)
        w = z * tf.constant(factor, tf.complex64)
        if kind == 0:
            w = tf.transpose(w, [2, 0, 1], conjugate=True) + tf.constant([[factor]], tf.complex64)
        elif kind == 1:
            w = tf.reshape(tf.concat([w, z], 1), [-1]) / (tf.cast(3.5, tf.complex64) + tf.complex(0.0, 1.0))
        elif kind == 2:
            w = tf.reduce_sum(tf.exp(w * 0.2), [0, 2]) - tf.reduce_sum(z)
        elif kind == 3:
            w = tf.matmul(w, z, adjoint_b=True)[:, ::-1]
        else:
            w = tf.square(tf.pad(w, [[0, 0], [1, 2], [0, 1]])) + tf.cast(tf.reduce_sum(x), tf.complex64)
        if op == "Complex":
            return [*_told(w), tf.cast(w, tf.float32)]
        if op == "Conj":
            return _told(call(op, input=w))
        return call(op, **{"x" if op == "ComplexAbs" else "input": w})

    return run, [a, b]


# -- pictures ---------------------------------------------------------------------------------------------------------


@family("RGBToHSV", "HSVToRGB", "AdjustHue", "AdjustSaturation")
def colours(rng: np.random.Generator, op: str) -> Case:
    x = floats(rng, [*shape(rng, 2 + int(rng.integers(0, 2)), 6), 3], 0, 1)
    grey = rng.integers(0, 4, x.shape[:-1]) == 0
    x[grey] = x[grey][:, :1] if op != "HSVToRGB" else x[grey]
    x[rng.integers(0, 6, x.shape[:-1]) == 0] = 0
    if op.startswith("Adjust"):
        key, by = ("delta", rng.uniform(-1, 1)) if op == "AdjustHue" else ("scale", rng.uniform(0, 3))
        return lambda v: call(op, images=v, **{key: np.float32(by)}), [x]
    return lambda v: call(op, images=v), [x]


@family("ResizeArea", "ScaleAndTranslate")
def resampled(rng: np.random.Generator, op: str) -> Case:
    x = floats(rng, [2, *(int(n) for n in rng.integers(1, 15, 2)), 3])
    size = held(rng.integers(1, 15, 2), np.int32)
    if op == "ResizeArea":
        align = bool(rng.integers(2) and min(size) > 1)
        return lambda v: call(op, images=v, size=size, align_corners=align), [x]
    kernels = "lanczos1 lanczos3 lanczos5 gaussian box triangle keyscubic mitchellcubic".split()
    attrs = {"kernel_type": str(rng.choice(kernels)), "antialias": bool(rng.integers(2))}
    scale = (size / np.asarray(x.shape[1:3]) * rng.uniform(0.7, 1.3, 2)).astype(np.float32)
    shift = rng.uniform(-2, 2, 2).astype(np.float32)
    return lambda v: call(op, images=v, size=size, scale=scale, translation=shift, **attrs), [x]


@family("ExtractImagePatches", "ExtractVolumePatches")
def patches(rng: np.random.Generator, op: str) -> Case:
    count = 2 if "Image" in op else 3
    sizes, steps, rates = ([1, *(int(n) for n in rng.integers(1, 4, count)), 1] for _ in range(3))
    attrs = {"ksizes": sizes, "strides": steps, "padding": str(rng.choice(["SAME", "VALID"]))}
    if count == 2:
        attrs["rates"] = rates
    key = "images" if count == 2 else "input"
    return lambda v: call(op, **{key: v}, **attrs), [floats(rng, [2, *(int(n) for n in rng.integers(7, 10, count)), 3])]


@family("CombinedNonMaxSuppression")
def suppression(rng: np.random.Generator, op: str) -> Case:
    count, classes = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    own = classes if rng.integers(2) else 1
    corners = np.sort(rng.uniform(-0.1, 1.1, (2, count, own, 2, 2)), axis=3).reshape(2, count, own, 4)
    limits = [np.int32(rng.integers(1, 9)), np.int32(rng.integers(1, 20)), np.float32(0.4), np.float32(0.2)]
    keys = ("max_output_size_per_class", "max_total_size", "iou_threshold", "score_threshold")
    attrs: dict[str, Any] = dict(zip(keys, limits, strict=True))
    attrs |= {"pad_per_class": bool(rng.integers(2)), "clip_boxes": bool(rng.integers(2))}
    return lambda b, s: list(call(op, boxes=b, scores=s, **attrs)), [
        corners.astype(np.float32), floats(rng, [2, count, classes], 0, 1)
    ]  # fmt: skip


# -- segments, places, losses -----------------------------------------------------------------------------------------


@family("UnsortedSegmentMax", "UnsortedSegmentMin")
def segments(rng: np.random.Generator, op: str) -> Case:
    """Numbers of one axis or two, some negative; integers and floats."""
    count = int(rng.integers(1, 6))
    ids = ints(rng, shape(rng, int(rng.integers(1, 3)), 6), -1, count)
    x = floats(rng, [*ids.shape, 3]) if rng.integers(2) else ints(rng, [*ids.shape, 2])
    if rng.integers(2):
        return lambda v, i: call(op, data=v, segment_ids=i, num_segments=count), [x, ids]
    return lambda v: call(op, data=v, segment_ids=ids, num_segments=count), [x]


@family("DynamicPartition")
def partition(rng: np.random.Generator, op: str) -> Case:
    numbers = ints(rng, shape(rng, int(rng.integers(1, 3)), 6), 0, 3)
    return lambda v, i: list(call(op, data=v, partitions=i, num_partitions=3)), [
        floats(rng, [*numbers.shape, 2]), numbers
    ]  # fmt: skip


@family("SparseToDense")
def dense(rng: np.random.Generator, op: str) -> Case:
    places = np.argwhere(rng.integers(0, 3, (4, 5)) == 0)
    values = floats(rng, [len(places)])
    return lambda v: call(
        op, sparse_indices=places, output_shape=[4, 5], sparse_values=v, default_value=np.float32(-1)
    ), [values]  # fmt: skip


@family("Bucketize", "NthElement", "InTopK", "InTopKV2")
def places(rng: np.random.Generator, op: str) -> Case:
    x = floats(rng, [int(rng.integers(2, 7)), int(rng.integers(3, 9))])
    if op == "Bucketize":
        bounds = sorted(float(v) for v in rng.uniform(-3, 3, int(rng.integers(1, 6))))
        return lambda v: call(op, input=v, boundaries=bounds), [x if rng.integers(2) else ints(rng, [7])]
    k = int(rng.integers(1, 3))
    if op == "NthElement":
        reverse = bool(rng.integers(2))
        return lambda v: call(op, input=v, n=k, reverse=reverse), [x]
    return lambda v, t: call(op, predictions=v, targets=t, k=k), [x, ints(rng, [len(x)], 0, x.shape[1])]


@family("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
def losses(rng: np.random.Generator, op: str) -> Case:
    x = floats(rng, shape(rng, 2, 6))
    labels = ints(rng, [len(x)], 0, x.shape[1]) if op.startswith("Sparse") else floats(rng, list(x.shape), 0, 1)
    return lambda v, y: list(call(op, features=v, labels=y)), [x, labels]
