"""Programs with lists whose elements have no shape that is told, windows that leave something out, and crops.

Enters them into :mod:`tests.tensorflow.patterns`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.tensorflow.patterns import p

_rng = np.random.default_rng(12)


def f(*sizes: int) -> np.ndarray:
    return _rng.normal(0, 1, sizes).astype(np.float32)


def array(size: Any = None, **options: Any) -> Any:
    """Of so many elements, or of as many as are written."""
    return tf.TensorArray(tf.float32, size=0 if size is None else size, dynamic_size=size is None, **options)


def p_list(program: Callable[..., Any], *more: Any) -> None:
    p(program.__name__, tf.autograph.experimental.do_not_convert(program), f(6, 4), *more)


def partly_written(x: Any, n: Any) -> Any:
    """Fewer turns than elements; as many; as many as the array is told to have when it runs."""
    found = []
    for size, turns in ((8, n), (4, n), (6, 4), (n + 1, n)):
        _, a = tf.while_loop(
            lambda k, a, turns=turns: k < turns, lambda k, a: (k + 1, a.write(k, x[k] * 2)), [0, array(size)]
        )
        found += [a.stack(), a.size()]
    return found


def backwards(x: Any) -> Any:
    turn = lambda k, a, b: (k - 1, a.write(k, x[k]), b.write(5 - k, tf.reduce_sum(x[: k + 1])))  # noqa: E731
    _, a, b = tf.while_loop(lambda k, a, b: k >= 0, turn, [5, array(6), array(9)])
    return [a.stack(), b.stack()]


def at_its_end(x: Any, n: Any) -> Any:
    """Lists that say themselves how long they are, and ones that are longer by two in each turn."""

    def turn(k: Any, a: Any, b: Any) -> Any:
        b = tf.raw_ops.TensorListPushBack(input_handle=b, tensor=x[k])
        return k + 1, a.write(a.size(), x[k]), tf.raw_ops.TensorListPushBack(input_handle=b, tensor=-x[k, ::-1])

    b = tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=tf.float32)
    _, a, b = tf.while_loop(lambda k, a, b: k < n, turn, [0, array(), b])
    return [a.stack(), tf.raw_ops.TensorListStack(input_handle=b, element_shape=-1, element_dtype=tf.float32)]


def sometimes(x: Any) -> Any:
    """Written in a branch: by some turns of a loop, and behind it."""
    x = tf.ensure_shape(x, [None, 4])

    def turn(k: Any, a: Any) -> Any:
        return k + 1, tf.cond(x[k, 0] > 0, lambda: a.write(a.size(), x[k]), lambda: a)

    _, a = tf.while_loop(lambda k, a: k < 6, turn, [0, array()])
    b = array(3, clear_after_read=False).write(0, x[0]).write(1, x[1])
    b = tf.cond(x[1, 1] > 0, lambda: b.write(2, x[2]), lambda: b.write(0, x[3]))
    return [a.stack(), b.stack(), b.read(0)]


def two_a_turn(x: Any) -> Any:
    """Also within another loop, and again from its start in each turn of that."""

    def row(k: Any, a: Any, b: Any) -> Any:
        inner = lambda j, a: (j + 1, a.write(4 * k + j, x[k, j] + x[j, k]))  # noqa: E731
        _, a = tf.while_loop(lambda j, a: j < 4, inner, [0, a])
        _, b = tf.while_loop(lambda j, b: j < 3, lambda j, b: (j + 1, b.write(j, x[k] * x[j])), [0, b])
        return k + 1, a, b

    pair = lambda k, a: (k + 1, a.write(2 * k, x[k]).write(2 * k + 1, -x[k]))  # noqa: E731
    _, a = tf.while_loop(lambda k, a: k < 6, pair, [0, array(12)])
    _, b, c = tf.while_loop(lambda k, *_: k < 4, row, [0, array(16), array(3)])
    return [a.stack(), b.stack(), c.stack()]


p_list(partly_written, np.asarray(4, np.int32))
p_list(backwards)
p_list(at_its_end, np.asarray(5, np.int32))
p_list(sometimes)
p_list(two_a_turn)


def volumes(sizes: list[int], steps: list[int]) -> Callable[[Any], Any]:
    """Of three axes TensorFlow leaves something out on both sides, of two behind the last window alone."""

    def program(x: Any) -> Any:
        x = tf.ensure_shape(x, [None, None, None, None, 2])
        flat = x[:, :, :, 0]
        return [
            tf.nn.max_pool3d(x, sizes, steps, "SAME"),
            tf.nn.avg_pool3d(x, sizes, steps, "SAME"),
            tf.nn.conv3d(x, tf.ones([*sizes, 2, 1]), [1, *steps, 1], "SAME"),
            tf.nn.max_pool2d(flat, sizes[:2], steps[:2], "SAME"),
            tf.nn.conv2d(flat, tf.ones([*sizes[:2], 2, 1]), steps[:2], "SAME"),
        ]

    return program


for _name, *_windows in (("thirds", [1, 2, 1], [3, 3, 3]), ("far", [2, 1, 2], [5, 4, 4])):
    p(f"volumes_{_name}", volumes(*_windows), f(1, 8, 6, 7, 2))


def cropped(x: Any, size: Any) -> Any:
    """To sizes that are computed, one pixel among them."""
    boxes = tf.constant([[0.1, 0.2, 0.7, 1.1], [-0.2, 0.0, 0.9, 0.4]])
    found = [tf.image.crop_and_resize(x, boxes, [0, 1], size, m, 0.5) for m in ("bilinear", "nearest")]
    return [*found, tf.math.igamma(x + 3, x + 4), tf.math.igammac(x + 3, x + 4)]


for _name, _size in (("cropped", [3, 4]), ("cropped_to_a_row", [1, 3])):
    p(_name, cropped, np.abs(f(2, 7, 6, 2)), np.asarray(_size, np.int32))
