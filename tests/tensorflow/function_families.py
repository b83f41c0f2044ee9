"""Seeded random uses of functions beyond exponentials, of cells that run over all steps, of speech models' front end
and of what older graphs fuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.tensorflow.families import Case, call, family, floats, held, shape

SIZED = {"BlockLSTM", "BlockLSTMV2", "Mfcc", "FusedPadConv2D", "FusedResizeAndPadConv2D", "HistogramFixedWidth"}
"""Read where the sizes of weights, spectra and pictures are known."""
_AT_ZERO = {"BesselY0", "BesselY1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e"}
"""Not defined below 0."""


@family(
    "Lgamma", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BesselY0", "BesselY1",
    "BesselK0", "BesselK0e", "BesselK1", "BesselK1e",
)  # fmt: skip
def of_one(rng: np.random.Generator, op: str) -> Case:
    """Small and large arguments, whole ones and 0 among them where the function is finite there."""
    wide = float(rng.choice([1.0, 6.0, 40.0]))
    x = floats(rng, shape(rng), 0.02 if op in _AT_ZERO else -wide, wide)
    if op != "Lgamma" and op not in _AT_ZERO:
        x[...] = np.where(rng.integers(0, 9, x.shape) == 0, 0, x)
    return lambda v: call(op, x=v), [x]


@family("Digamma", "Ndtri", "Zeta", "Polygamma")
def of_orders(rng: np.random.Generator, op: str) -> Case:
    """Arguments from 1/4 on, away from poles; several orders, which are a tensor."""
    sizes = shape(rng)
    if op in ("Digamma", "Ndtri"):
        x = floats(rng, sizes, 0.25, 12) if op == "Digamma" else floats(rng, sizes, 0.001, 0.999)
        return lambda v: call(op, x=v), [x]
    if op == "Zeta":
        return lambda s, q: call(op, x=s, q=q), [floats(rng, sizes, 1.2, 9), floats(rng, sizes, 0.25, 12)]
    orders = np.asarray(rng.integers(0, 5, sizes), np.float32)
    return lambda n, x: call(op, a=n, x=x), [orders, floats(rng, sizes, 0.5, 12)]


@family("BlockLSTM", "BlockLSTMV2")
def all_steps(rng: np.random.Generator, op: str) -> Case:
    steps, batch, inputs, hidden = (int(n) for n in rng.integers(1, 7, 4))
    steps = 40 if rng.integers(3) == 0 else steps
    attrs: dict[str, Any] = {"cell_clip": float(rng.choice([-1.0, 0.7])), "use_peephole": bool(rng.integers(2))}
    if op == "BlockLSTM":
        attrs["forget_bias"] = float(rng.uniform(0, 1.5))
    most = held(int(rng.integers(0, steps + 1)) if rng.integers(2) else steps, np.int64)
    weights = [floats(rng, [inputs + hidden, 4 * hidden], -1, 1), *(floats(rng, [hidden], -1, 1) for _ in range(3))]
    bias = floats(rng, [4 * hidden], -1, 1)
    keys = ("w", "wci", "wcf", "wco", "b")
    attrs |= dict(zip(keys, (held(a) for a in (*weights, bias)), strict=True))

    def run(x: Any, c: Any, h: Any) -> Any:
        found = call(op, seq_len_max=most, x=x, cs_prev=c, h_prev=h, **attrs)
        return list(found) if most == steps else [found.cs, found.h]  # the others are not written beyond ``most``

    return run, [floats(rng, [steps, batch, inputs]), *(floats(rng, [batch, hidden], -1, 1) for _ in range(2))]


@family("AudioSpectrogram", "Mfcc")
def sound(rng: np.random.Generator, op: str) -> Case:
    length, squared = int(rng.integers(2, 90)), op == "Mfcc" or bool(rng.integers(2))
    attrs = {"window_size": length, "stride": int(rng.integers(1, 50)), "magnitude_squared": squared}
    x = floats(rng, [length + int(rng.integers(0, 200)), int(rng.integers(1, 3))], -1, 1)
    if op == "AudioSpectrogram":
        return lambda v: call(op, input=v, **attrs), [x]
    rate, filters = int(rng.choice([8000, 16000])), int(rng.integers(1, 41))
    low = float(rng.uniform(0, 300))
    cepstrum = {
        "lower_frequency_limit": low, "upper_frequency_limit": low + float(rng.uniform(500, 3500)),
        "filterbank_channel_count": filters, "dct_coefficient_count": int(rng.integers(1, filters + 1)),
    }  # fmt: skip
    return lambda v: call(op, spectrogram=call("AudioSpectrogram", input=v, **attrs), sample_rate=rate, **cepstrum), [x]


@family("FusedPadConv2D", "FusedResizeAndPadConv2D")
def fused(rng: np.random.Generator, op: str) -> Case:
    """One picture: of more, TensorFlow's own result is not that of padding and convolution (2.21)."""
    mode = str(rng.choice(["REFLECT", "SYMMETRIC"]))
    borders = np.zeros((4, 2), np.int32)
    borders[1:3] = rng.integers(0, 4, (2, 2))
    kernel = floats(rng, [int(rng.integers(1, 4)), int(rng.integers(1, 4)), 3, int(rng.integers(1, 6))])
    stride = int(rng.integers(1, 3))
    attrs: dict[str, Any] = {"mode": mode, "strides": [1, stride, stride, 1], "padding": "VALID"}
    attrs |= {"paddings": held(borders), "filter": held(kernel)}
    if op == "FusedResizeAndPadConv2D":
        attrs |= {"size": held(rng.integers(5, 9, 2), np.int32), "resize_align_corners": bool(rng.integers(2))}
    return lambda v: call(op, input=v, **attrs), [floats(rng, [1, *(int(n) for n in rng.integers(5, 9, 2)), 3])]


@family("HistogramFixedWidth")
def histogram(rng: np.random.Generator, op: str) -> Case:
    low = float(rng.uniform(-3, 0))
    ends, bins = held([low, low + float(rng.uniform(0.5, 3))], np.float32), int(rng.integers(1, 9))
    kind = tf.int32 if rng.integers(2) else tf.int64
    return lambda v: call(op, values=v, value_range=ends, nbins=bins, dtype=kind), [floats(rng, shape(rng, 2, 7))]


@family("TensorListResize")
def resized_list(rng: np.random.Generator, op: str) -> Case:
    """Longer or shorter than it was, by a number that is known or not, of elements in one tensor or one by one."""
    size, single = np.asarray(rng.integers(1, 8), np.int32), bool(rng.integers(2))

    def run(v: Any, n: Any) -> Any:
        if single:
            made = tf.raw_ops.EmptyTensorList(element_shape=[3], max_num_elements=-1, element_dtype=tf.float32)
            for k in range(4):
                made = tf.raw_ops.TensorListPushBack(input_handle=made, tensor=v[k])
        else:
            made = tf.raw_ops.TensorListFromTensor(tensor=v, element_shape=[3])
        made = call(op, input_handle=made, size=n)
        count = tf.raw_ops.TensorListLength(input_handle=made)
        made = tf.raw_ops.TensorListSetItem(input_handle=made, index=count - 1, item=v[0] * 2)
        return [tf.raw_ops.TensorListStack(input_handle=made, element_shape=[3], element_dtype=tf.float32), count]

    x = floats(rng, [4, 3])
    if rng.integers(2):
        return lambda v: run(v, tf.constant(size)), [x]
    return run, [x, size]


@family("TensorListConcatLists")
def joined_lists(rng: np.random.Generator, op: str) -> Case:
    def run(a: Any, b: Any) -> Any:
        first, second = (tf.raw_ops.TensorListFromTensor(tensor=v, element_shape=[3]) for v in (a, b))
        both = call(op, input_a=first, input_b=second, element_dtype=tf.float32)
        return tf.raw_ops.TensorListStack(input_handle=both, element_shape=[3], element_dtype=tf.float32)

    return run, [floats(rng, [int(n), 3]) for n in rng.integers(1, 5, 2)]


@family(
    "StatelessRandomUniform", "StatelessRandomNormal", "StatelessRandomUniformInt", "StatelessRandomUniformFullInt",
    "StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessRandomUniformIntV2",
    "StatelessRandomUniformFullIntV2",
)  # fmt: skip
def of_seeds(rng: np.random.Generator, op: str) -> Case:
    """All element types; seeds that are an input of the graph."""
    sizes = held(shape(rng), np.int32)
    kinds = (tf.int32, tf.int64) if "Int" in op else (tf.float32, tf.float32, tf.float64, tf.float16)
    if "FullInt" in op:
        kinds = (*kinds, tf.uint32, tf.uint64)
    kind = kinds[int(rng.integers(len(kinds)))]
    attrs: dict[str, Any] = {"dtype": kind}
    if op.removesuffix("V2").endswith("UniformInt"):
        low, high = sorted(int(v) for v in rng.integers(-1000, 1000, 2))
        attrs = {"minval": tf.constant(low, kind), "maxval": tf.constant(high + 1, kind)}

    def run(seed: Any) -> Any:
        if not op.endswith("V2"):
            return call(op, shape=sizes, seed=seed, **attrs)
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
        return [call(op, shape=sizes, key=key, counter=counter, alg=1, **attrs), key, counter]

    return run, [np.asarray(rng.integers(-(2**40), 2**40, 2))]
