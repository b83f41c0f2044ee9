"""Programs whose sizes are known only when they run: pictures of any size, ragged and sparse tensors, derivatives.

Enters them into :mod:`tests.tensorflow.patterns`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.tensorflow.patterns import p

_rng = np.random.default_rng(11)
_METHODS = ("bilinear", "bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic", "area")


def f(*sizes: int) -> np.ndarray:
    return _rng.normal(0, 1, sizes).astype(np.float32)


def i(most: int, *sizes: int) -> np.ndarray:
    return _rng.integers(0, most, sizes).astype(np.int32)


# -- pictures ---------------------------------------------------------------------------------------------------------


def resized(method: str, antialias: bool) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        x = tf.ensure_shape(x, [None, None, None, 2])
        return [tf.image.resize(x, size, method=method, antialias=antialias) for size in ((4, 11), (9, 5))]

    return program


for _method in _METHODS:
    for _smooth in (False, True) if _method == "bicubic" else (True,):
        p(f"resize_{_method}_{int(_smooth)}", resized(_method, _smooth), f(1, 6, 8, 2))
for _align in (False, True):
    p(
        f"resize_v1_{int(_align)}",
        lambda x, align=_align: [
            op(x, [4, 9], align_corners=align)
            for op in (tf.compat.v1.image.resize_bicubic, tf.compat.v1.image.resize_area)
        ],
        f(1, 6, 5, 2),
    )


def boxes(count: int) -> np.ndarray:
    corners = _rng.uniform(0, 5, (2, count, 2))
    return np.concatenate([corners, corners + _rng.uniform(0.5, 4, (2, count, 2))], 2).astype(np.float32)


p(
    "suppressed_padded",
    lambda b, s: tf.image.non_max_suppression_padded(
        b, s, 6, 0.4, 0.2, pad_to_max_output_size=True, canonicalized_coordinates=True
    ),
    boxes(12),
    _rng.random((2, 12)).astype(np.float32),
)
for _axis in (0, 1, 2):
    p(
        f"unique_{_axis}",
        lambda x, axis=_axis: tf.raw_ops.UniqueV2(x=tf.reshape(x, [5, 2, 2]), axis=[axis]),
        i(2, 5, 2, 2),
    )


# -- rows of different lengths ----------------------------------------------------------------------------------------

_SPLITS, _OUTER = np.asarray([0, 2, 2, 5, 6]), np.asarray([0, 1, 1, 4])


def rows(x: Any, splits: Any) -> Any:
    return tf.RaggedTensor.from_row_splits(x, splits, validate=False)


def ragged(x: Any, splits: Any, outer: Any) -> Any:
    one = rows(x, splits)
    two = rows(one, outer)
    return [
        one.to_tensor(-1.0),
        one.to_tensor(shape=[None, 2]),
        tf.RaggedTensor.from_value_rowids(x, one.value_rowids(), 5, validate=False).to_tensor(),
        two.to_tensor(),
        tf.gather(two, [2, 0]).to_tensor(),
        tf.concat([one, one * 2], 1).to_tensor(),
        tf.reverse(one, [1]).to_tensor(),
        one[:, :2].to_tensor(),
        tf.sparse.to_dense(one.to_sparse()),
    ]


p("ragged", ragged, f(6), _SPLITS, _OUTER)
p("ragged_vectors", lambda x, splits: tf.sin(rows(x, splits)).to_tensor(), f(6, 3), _SPLITS)
p("ragged_range", lambda n: tf.ragged.range(n - 2, n * 2, 3).to_tensor(), i(5, 4))
p("ragged_range_float", lambda x: tf.ragged.range(x, x + 1, 0.3).to_tensor(), f(3))


# -- numbers at places ------------------------------------------------------------------------------------------------

_AT = np.asarray([[0, 1], [0, 3], [2, 0], [2, 2], [2, 4]])


def sparse(x: Any, at: Any) -> Any:
    s = tf.SparseTensor(at, x, [4, 5])
    turned = tf.SparseTensor(at[::-1], x, [4, 5])
    filled, empty = tf.sparse.fill_empty_rows(s, 7.0)
    return [
        tf.sparse.sparse_dense_matmul(s, f(5, 3)),
        tf.sparse.sparse_dense_matmul(s, f(2, 4), adjoint_a=True, adjoint_b=True),
        tf.sparse.to_dense(tf.sparse.reorder(turned)),
        tf.sparse.to_dense(tf.sparse.transpose(s)),
        tf.sparse.to_dense(tf.sparse.reshape(s, [2, -1])),
        tf.sparse.to_dense(tf.sparse.slice(s, [1, 1], [3, 9])),
        tf.sparse.to_dense(s * tf.reshape(tf.range(5.0), [1, 5])),
        tf.sparse.add(s, tf.ones([4, 5])),
        tf.sparse.to_dense(filled),
        empty,
        tf.nn.safe_embedding_lookup_sparse(f(9, 2), tf.SparseTensor(at, at[:, 1], [4, 5])),
    ]


p("sparse", sparse, f(5), _AT)


# -- derivatives ------------------------------------------------------------------------------------------------------


def slope(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x))
        return tape.gradient(y, x)

    return program


_ACTIVATIONS = (
    tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.nn.leaky_relu, tf.nn.sigmoid,
    tf.nn.tanh, tf.nn.gelu, tf.nn.softmax, tf.math.reciprocal, lambda x: tf.sqrt(tf.abs(x)) + tf.math.rsqrt(tf.abs(x)),
)  # fmt: skip


def activated(x: Any) -> Any:
    return sum(tf.reduce_sum(function(x * 3) * tf.cos(x)) for function in _ACTIVATIONS)


def descended(x: Any) -> Any:
    """Steps of a descent, each along a derivative."""
    w = tf.zeros([4])
    for _ in tf.range(4):
        with tf.GradientTape() as tape:
            tape.watch(w)
            loss = tf.reduce_mean((tf.linalg.matvec(x, w) - tf.reduce_sum(x, 1)) ** 2)
        w -= 0.1 * tape.gradient(loss, w)
    return w


p("slope_activated", slope(activated), f(3, 4))
p("slope_broadcast", slope(lambda x: (x[:, :1] * x + x[0]) / (x**2 + 1)), f(3, 4))
p("slope_dense", slope(lambda x: tf.tanh(tf.matmul(x, x, transpose_b=True)) * tf.reduce_mean(x)), f(3, 4))
p("slope_bias", slope(lambda x: tf.nn.bias_add(tf.ones([2, 3, 4]), x[0]) ** 3), f(2, 4))
p("slope_slices", slope(lambda x: x[0, ::-2] * x[1:2, 1:3, tf.newaxis]), f(3, 4))


def seen(x: Any) -> Any:
    """Which pixels decide about a class, and by how much."""
    x = tf.ensure_shape(x, [None, None, None, 2])
    y = tf.nn.relu(tf.concat([x, x[..., :1] * 2], 3))
    y, *_ = tf.compat.v1.nn.fused_batch_norm(y, f(3), f(3), f(3), np.abs(f(3)) + 0.5, is_training=False)
    y = tf.nn.max_pool2d(y, 3, 2, "SAME")
    return tf.reduce_max(tf.reduce_mean(y, [1, 2]), 1) ** 2


p("slope_seen", slope(seen), f(2, 6, 5, 2))
p("descended", descended, f(6, 4))


# -- sound, patches ---------------------------------------------------------------------------------------------------


def transformed(x: Any) -> Any:
    """Transforms as long as what they are given, or as the graph computes; what is made of them."""
    n, signal = tf.shape(x)[-1], tf.signal
    spectrum, square = signal.rfft(x), signal.rfft2d(x)
    return [
        tf.abs(spectrum),
        signal.irfft(spectrum * tf.complex(2.0, 0.5), [n]),
        signal.irfft(signal.rfft(x, [2 * n]), [n + 3]),
        tf.math.imag(square),
        signal.irfft2d(square, tf.shape(x)[-2:]),
        tf.map_fn(lambda r: tf.abs(signal.rfft(r)), x),
        *(signal.dct(x, kind) for kind in (1, 2, 3, 4)),
    ]


def decoded(scores: Any, lengths: Any) -> Any:
    """The likeliest classes; half of the classes are one, so that some repeat."""
    found = []
    for repeated, blank in ((True, -1), (False, 1), (True, -3)):
        (text,), chosen = tf.nn.ctc_greedy_decoder(tf.round(scores * 2), lengths, repeated, blank)
        found += [text.indices, text.values, text.dense_shape, chosen]
    return found


def patched(sizes: list[int], steps: list[int], rates: list[int], padding: str) -> Callable[[Any], Any]:
    return lambda x: tf.image.extract_patches(x, [1, *sizes, 1], [1, *steps, 1], [1, *rates, 1], padding)


for _length in (9, 16):
    p(f"transformed_{_length}", transformed, f(3, _length))
p("decoded", decoded, f(9, 3, 4), np.asarray([9, 0, 5], np.int32))
for _padding in ("SAME", "VALID"):
    for _name, *_patch in (("near", [3, 2], [2, 3], [1, 2]), ("far", [2, 1], [3, 4], [1, 1])):
        p(f"patched_{_name}_{_padding}", patched(*_patch, _padding), f(1, 8, 10, 2))
    p(
        f"dilated_{_padding}",
        lambda x, padding=_padding: tf.nn.dilation2d(x, f(3, 2, 2), [1, 2, 3, 1], padding, "NHWC", [1, 1, 2, 1]),
        f(1, 8, 10, 2),
    )
    for _step in (2, 4):
        p(
            f"patched_volume_{_step}_{_padding}",
            lambda x, step=_step, padding=_padding: tf.raw_ops.ExtractVolumePatches(
                input=x, ksizes=[1, 1, 2, 3, 1], strides=[1, step, step, 2, 1], padding=padding
            ),
            f(1, 5, 7, 8, 2),
        )
    p(
        f"dilated_line_{_padding}",
        lambda x, padding=_padding: tf.nn.convolution(
            tf.ensure_shape(x, [None, None, 2]), f(3, 2, 4), padding=padding, dilations=[3]
        ),
        f(2, 11, 2),
    )


def blocked(x: Any) -> Any:
    """Blocks over one axis of several, as long as the graph computes."""
    longer = [[1, 1 + tf.shape(x)[1] % 2]]
    return tf.batch_to_space(tf.nn.relu(tf.space_to_batch(x, [2], longer)), [2], longer)


for _shape in ((2, 7), (2, 6, 3), (2, 7, 5, 3)):
    p(f"blocked_{len(_shape)}", blocked, f(*_shape))
