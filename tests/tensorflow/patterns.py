"""What programs are made of: functions of TensorFlow that become several operators, loops and branches among them.

Needs tensorflow, as :mod:`tests.tensorflow.families` does; ``record.py --patterns`` records its answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.tensorflow.families import Case

_rng = np.random.default_rng(3)
PATTERNS: dict[str, Case] = {}


def f(*sizes: int) -> np.ndarray:
    return _rng.normal(0, 1, sizes).astype(np.float32)


def p(name: str, function: Callable[..., Any], *arrays: np.ndarray) -> None:
    PATTERNS[name] = (function, list(arrays))


def recurrent(x: Any, flag: Any) -> Any:
    """A loop with arrays, as ``dynamic_rnn`` makes it."""
    h, weights = tf.zeros([2, 3]), f(7, 3)
    rows = tf.TensorArray(tf.float32, size=tf.shape(x)[0]).unstack(x)
    out = tf.TensorArray(tf.float32, size=tf.shape(x)[0])

    def step(t: Any, h: Any, o: Any) -> Any:
        h = tf.tanh(tf.matmul(tf.concat([rows.read(t), h], 1), weights))
        return t + 1, h, o.write(t, h)

    _, h, out = tf.compat.v1.while_loop(lambda t, *_: t < tf.shape(x)[0], step, [0, h, out])
    return [h, out.stack()]


def recurrent_of_1(x: Any, flag: Any) -> Any:
    return recurrent(x, flag)


recurrent_of_1.graph_of_1 = True  # type: ignore[attr-defined]

p("map_fn", lambda x: tf.map_fn(lambda r: tf.nn.relu(r) * 2, x), f(5, 3))
p("scan", lambda x: tf.scan(lambda a, b: a * 0.5 + b, x), f(5, 3))
p("foldl", lambda x: tf.foldl(lambda a, b: a + b * b, x), f(5, 3))
p(
    "nested",
    lambda x: tf.while_loop(
        lambda i, v: i < 4, lambda i, v: (i + 1, tf.cond(tf.reduce_sum(v) > 0, lambda: v - 1, lambda: v * 2)), [0, x]
    )[1],
    f(2, 3),
)
p("data_while", lambda x: tf.while_loop(lambda v: tf.reduce_max(tf.abs(v)) > 0.1, lambda v: [v * 0.5], [x])[0], f(2, 3))
p("sort", lambda x: tf.sort(x, axis=-1, direction="DESCENDING"), f(3, 6))
p("argsort", lambda x: tf.argsort(x, axis=0), f(6, 3))
p("mask", lambda x: tf.boolean_mask(x, x[:, 0] > 0), f(6, 3))
p("repeat", lambda x: tf.repeat(x, 3, axis=1), f(3, 4))
p("repeats", lambda x: tf.repeat(x, [1, 2, 3], axis=0), f(3, 4))
p("meshgrid", lambda x: tf.meshgrid(x, x * 2), f(4))
p("frame", lambda x: tf.signal.frame(x, 6, 2), f(2, 20))
p("norm", lambda x: tf.linalg.l2_normalize(x, -1), f(3, 4))
p("moments", lambda x: list(tf.nn.moments(x, [0, 1])), f(3, 4, 2))
p("gelu", lambda x: tf.nn.gelu(x, approximate=True), f(3, 4))
p("swish", lambda x: tf.nn.silu(x), f(3, 4))
p("embedding", lambda x: tf.nn.embedding_lookup(f(10, 4), x), np.asarray([[1, 2], [3, 9]], np.int32))
p("resize_antialias_off", lambda x: tf.image.resize(x, [7, 9]), f(1, 5, 6, 2))
p("resize_nearest", lambda x: tf.image.resize(x, [7, 9], method="nearest"), f(1, 5, 6, 2))
p("central_crop", lambda x: tf.image.central_crop(x, 0.5), f(1, 8, 8, 2))
p("pad_to", lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 10, 12), f(1, 6, 7, 2))
p("flip", lambda x: tf.image.flip_left_right(x), f(1, 6, 7, 2))
p("standardize", lambda x: tf.image.per_image_standardization(x), f(1, 6, 7, 2))
p("gray", lambda x: tf.image.rgb_to_grayscale(x), f(1, 6, 7, 3))
p("seqmask", lambda x: tf.cast(tf.sequence_mask(x, 7), tf.float32), np.asarray([1, 4, 7], np.int32))
p("tensordot", lambda x: tf.tensordot(x, f(4, 5), [[1], [0]]), f(3, 4))
p("cumsum2", lambda x: tf.cumsum(x, axis=1, reverse=True), f(3, 4))
p("where3", lambda x: tf.where(x > 0, x, tf.zeros_like(x) - 1), f(3, 4))
p("logsumexp", lambda x: tf.reduce_logsumexp(x, axis=1), f(3, 4))
p("std", lambda x: tf.math.reduce_std(x, axis=1), f(3, 4))
p("scatter", lambda x: tf.tensor_scatter_nd_update(x, [[0, 1], [2, 2]], [5.0, 6.0]), f(3, 4))
p("strided", lambda x: x[..., ::-1, tf.newaxis, 1:], f(3, 4, 5))
p("einsum", lambda x: tf.einsum("bij,bjk->bik", x, x), f(2, 4, 4))
p("conv1d", lambda x: tf.nn.conv1d(x, f(3, 4, 5), 2, "SAME"), f(2, 11, 4))
p("atrous", lambda x: tf.nn.atrous_conv2d(x, f(3, 3, 4, 5), 2, "SAME"), f(1, 9, 9, 4))
p("separable", lambda x: tf.nn.separable_conv2d(x, f(3, 3, 4, 2), f(1, 1, 8, 5), [1, 1, 1, 1], "SAME"), f(1, 9, 9, 4))
p("convT", lambda x: tf.nn.conv2d_transpose(x, f(3, 3, 5, 4), [1, 18, 18, 5], 2), f(1, 9, 9, 4))
p("maxpool1", lambda x: tf.nn.max_pool1d(x, 3, 2, "SAME"), f(1, 9, 4))
p("dropout0", lambda x: tf.nn.dropout(x, 0.0), f(3, 4))
p("linspace", lambda x: x + tf.linspace(0.0, 1.0, 4), f(3, 4))
p("onehot", lambda x: tf.one_hot(x, 5), np.asarray([1, -1, 7], np.int64))
p("unstack", lambda x: tf.unstack(x, axis=1), f(3, 4))
p("batchnorm", lambda x: tf.nn.batch_normalization(x, f(4), np.abs(f(4)) + 0.1, f(4), f(4), 1e-3), f(2, 3, 3, 4))
p("roll", lambda x: tf.roll(x, [1, -2], [0, 1]), f(3, 4))
p(
    "nms",
    lambda b, s: tf.image.non_max_suppression(b, s, 3, 0.5),
    np.sort(_rng.random((6, 2, 2)), 1).reshape(6, 4).astype("f"),
    _rng.random(6).astype("f"),
)
p("crop_resize", lambda x: tf.image.crop_and_resize(x, [[0.1, 0.2, 0.8, 0.9]], [0], [4, 5]), f(1, 8, 8, 2))
p("dynamic_rnn_v1", recurrent_of_1, f(5, 2, 4), np.asarray(True))
p("dynamic_rnn_v2", recurrent, f(5, 2, 4), np.asarray(True))


def growing(x: Any) -> Any:
    """An array that is written behind its end in a loop, and once more after it."""
    rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[3])
    _, rows = tf.while_loop(
        lambda i, _: i < tf.shape(x)[0], lambda i, o: (i + 1, o.write(i, tf.reshape(x[i], [3]) * 2)), [0, rows]
    )
    return rows.write(rows.size() + 1, tf.ones([3])).stack()


def scattered(x: Any) -> Any:
    rows = tf.TensorArray(tf.float32, size=6, element_shape=[3]).scatter([3, 1, 5], tf.ensure_shape(x, [3, 3]))
    whole = tf.TensorArray(tf.float32, size=3).scatter([2, 0, 1], tf.ensure_shape(x, [3, 3]))
    return [rows.stack(), whole.gather([0, 2])]


def popped(x: Any) -> Any:
    shape, kind = tf.constant([3]), tf.float32
    held = tf.raw_ops.TensorListFromTensor(tensor=tf.reshape(x, [-1, 3]), element_shape=shape)
    held, last = tf.raw_ops.TensorListPopBack(input_handle=held, element_shape=shape, element_dtype=kind)
    held = tf.raw_ops.TensorListPushBack(input_handle=held, tensor=last * 2)
    return [tf.raw_ops.TensorListStack(input_handle=held, element_shape=shape, element_dtype=kind), last]


p("growing_array", growing, f(5, 3))
p("scattered_array", scattered, f(3, 3))
p("popped_list", popped, f(4, 3))
for _only in (False, True):
    p(
        f"counted_rows_{int(_only)}",
        lambda x, only=_only: tf.math.bincount(x, minlength=6, maxlength=6, axis=-1, binary_output=only),
        _rng.integers(0, 9, (3, 5)).astype(np.int32),
    )
