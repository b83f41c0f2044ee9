"""Families of operators on images, of quantisation, and of control flow; see :mod:`tests.tensorflow.families`."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.tensorflow.families import Case, call, family, floats, held, ints, raw, shape


def _windows(rng: np.random.Generator, count: int) -> tuple[list[int], list[int], str]:
    return (
        [int(n) for n in rng.integers(1, 4, count)],
        [int(n) for n in rng.integers(1, 3, count)],
        str(rng.choice(["SAME", "VALID"])),
    )


@family("Conv2D", "DepthwiseConv2dNative")
def conv(rng: np.random.Generator, op: str) -> Case:
    kernel, strides, padding = _windows(rng, 2)
    if op.startswith("Depth"):
        strides = [strides[0]] * 2
    dilations = [1, 1] if max(strides) > 1 else [int(n) for n in rng.integers(1, 3, 2)]
    channels, outer = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    group = int(rng.integers(1, 3)) if op == "Conv2D" else 1
    w = floats(rng, [*kernel, channels, outer * group if op == "Conv2D" else outer])
    sizes = [int(rng.integers(1, 3)), *(int(n) for n in rng.integers(7, 12, 2)), channels * group]
    more: dict[str, Any] = {"dilations": [1, *dilations, 1]}
    if rng.integers(4) == 0:
        more |= {"explicit_paddings": [0, 0, *(int(n) for n in rng.integers(0, 3, 4)), 0, 0]}
        padding = "EXPLICIT"
    weights = held(w)
    return lambda v: call(op, input=v, filter=weights, strides=[1, *strides, 1], padding=padding, **more), [
        floats(rng, sizes)
    ]


@family("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def projective(rng: np.random.Generator, op: str) -> Case:
    """Turned, sheared and seen from the side, one transformation for all images or one for each."""
    count = int(rng.integers(1, 4))
    x = floats(rng, [count, *(int(n) for n in rng.integers(1, 9, 2)), 2])
    if rng.integers(4) == 0:
        x = ints(rng, list(x.shape))
    by = np.asarray([[1, 0, 0, 0, 1, 0, 0, 0]], np.float32).repeat(1 if rng.integers(2) else count, 0)
    by = by + np.asarray(rng.normal(0, [0.3, 0.3, 6, 0.3, 0.3, 6, 0.01, 0.01], by.shape), np.float32)
    more: dict[str, Any] = {
        "output_shape": held([int(n) for n in rng.integers(1, 9, 2)]),
        "interpolation": str(rng.choice(["NEAREST", "BILINEAR"])),
        "fill_mode": str(rng.choice(["CONSTANT", "NEAREST", "REFLECT", "WRAP"])),
    }
    if op.endswith("3"):
        more["fill_value"] = held(1.5)
    return lambda v, t: call(op, images=v, transforms=t, **more), [x, by]


@family("Conv3D")
def conv3d(rng: np.random.Generator, op: str) -> Case:
    kernel, strides, padding = _windows(rng, 3)
    w = held(floats(rng, [*kernel, 2, 3]))
    return lambda v: call(op, input=v, filter=w, strides=[1, *strides, 1], padding=padding), [
        floats(rng, [1, 6, 5, 7, 2])
    ]


@family("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput", "Conv3DBackpropInputV2")
def transposed(rng: np.random.Generator, op: str) -> Case:
    count = 3 if "3D" in op else 2
    kernel, strides, padding = _windows(rng, count)
    if "Depthwise" in op:
        strides = [strides[0]] * 2
    given = [int(n) for n in rng.integers(2, 6, count)]
    if padding == "SAME":
        out = [n * s - int(rng.integers(0, s)) for n, s in zip(given, strides, strict=True)]
    else:
        out = [(n - 1) * s + k + int(rng.integers(0, s)) for n, s, k in zip(given, strides, kernel, strict=True)]
    outer, inner = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    w = held(floats(rng, [*kernel, outer, inner]))
    last = outer * inner if "Depthwise" in op else inner
    sizes = held([1, *out, outer])
    keys = ("input_sizes", "filter", "out_backprop")
    return lambda v: call(
        op, **dict(zip(keys, (sizes, w, v), strict=True)), strides=[1, *strides, 1], padding=padding
    ), [floats(rng, [1, *given, last])]


@family("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolV2", "MaxPoolWithArgmax")
def pool(rng: np.random.Generator, op: str) -> Case:
    count = 3 if op.endswith("3D") else 2
    kernel, strides, padding = _windows(rng, count)
    x = floats(rng, [2, *(int(n) for n in rng.integers(4, 9, count)), 3])
    key = "value" if op == "AvgPool" else "input"
    sizes: dict[str, Any] = {"ksize": [1, *kernel, 1], "strides": [1, *strides, 1]}
    more = {"include_batch_in_index": bool(rng.integers(2))} if op == "MaxPoolWithArgmax" else {}
    found = lambda v: call(op, **{key: v}, **sizes, padding=padding, **more)  # noqa: E731
    return (lambda v: list(found(v)), [x]) if op == "MaxPoolWithArgmax" else (found, [x])


@family("Dilation2D")
def dilation(rng: np.random.Generator, op: str) -> Case:
    kernel, strides, padding = _windows(rng, 2)
    w = held(floats(rng, [*kernel, 3]))
    rates = [1, *(int(n) for n in rng.integers(1, 3, 2)), 1]
    return lambda v: call(op, input=v, filter=w, strides=[1, *strides, 1], rates=rates, padding=padding), [
        floats(rng, [1, 8, 9, 3])
    ]


@family("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
def resize(rng: np.random.Generator, op: str) -> Case:
    flags = [(False, False), (True, False), (False, True)][int(rng.integers(3))]
    size = [int(n) for n in rng.integers(1, 12, 2)]
    if flags[0]:
        size = [max(n, 2) for n in size]
    x = floats(rng, [1, *(int(n) for n in rng.integers(2, 9, 2)), 2])
    return lambda v: call(op, images=v, size=size, align_corners=flags[0], half_pixel_centers=flags[1]), [x]


@family("CropAndResize")
def crop_and_resize(rng: np.random.Generator, op: str) -> Case:
    boxes = np.sort(rng.uniform(-0.2, 1.2, (3, 2, 2)), 1).reshape(3, 4).astype(np.float32)
    which, size = ints(rng, [3], 0, 2), held(rng.integers(1, 6, 2).astype(np.int32))
    arrays = [floats(rng, [2, 7, 8, 3]), boxes, which]
    return lambda v, b, i: call(op, image=v, boxes=b, box_ind=i, crop_size=size, extrapolation_value=0.5), arrays


@family("DepthToSpace", "SpaceToDepth")
def blocks(rng: np.random.Generator, op: str) -> Case:
    size = int(rng.integers(2, 4))
    x = [1, 2, 3, 2 * size * size] if op == "DepthToSpace" else [1, 2 * size, 3 * size, 2]
    return lambda v: call(op, input=v, block_size=size), [floats(rng, x)]


@family("SpaceToBatchND", "BatchToSpaceND")
def batch_blocks(rng: np.random.Generator, op: str) -> Case:
    count = int(rng.integers(1, 3))
    block = [int(n) for n in rng.integers(1, 4, count)]
    if op == "SpaceToBatchND":
        borders = [[int(rng.integers(0, 3)), 0] for _ in block]
        sizes = [b * int(rng.integers(2, 4)) - p[0] for b, p in zip(block, borders, strict=True)]
        x = floats(rng, [2, *[max(s, 1) for s in sizes], 3])
        for i, s in enumerate(sizes):
            if s < 1:
                borders[i] = [0, (-x.shape[1 + i]) % block[i]]
        return lambda v: call(op, input=v, block_shape=block, paddings=borders), [x]
    crops = [[int(rng.integers(0, 2)), int(rng.integers(0, 2))] for _ in block]
    x = floats(rng, [2 * int(np.prod(block)), *([4] * count), 3])
    return lambda v: call(op, input=v, block_shape=block, crops=crops), [x]


@family("FusedBatchNorm", "FusedBatchNormV3", "FusedBatchNormV2")
def batch_norm(rng: np.random.Generator, op: str) -> Case:
    """In training, the batch's statistics are results too, as they are or a share of them beside the old ones."""
    channels, training = int(rng.integers(1, 6)), bool(rng.integers(3) == 0)
    scale, offset, mean = (held(floats(rng, [channels])) for _ in range(3))
    variance = held(floats(rng, [channels], 0.2, 2))
    empty = held([], np.float32)
    x, share = floats(rng, [2, 4, 5, channels]), float(rng.choice([1.0, 0.3])) if training else 1.0
    moments = (empty, empty) if training and share == 1 else (mean, variance)
    attrs = {"exponential_avg_factor": share} if share != 1 else {}
    return lambda v: list(
        getattr(raw, op)(
            x=v, scale=scale, offset=offset, mean=moments[0], variance=moments[1], epsilon=1e-3, is_training=training,
            **attrs,
        )[: 3 if training else 1]
    ), [x]  # fmt: skip


@family("LRN")
def lrn(rng: np.random.Generator, op: str) -> Case:
    attrs = {"depth_radius": int(rng.integers(1, 4)), "bias": 1.5, "alpha": 0.3, "beta": 0.6}
    return lambda v: call(op, input=v, **attrs), [floats(rng, [1, 3, 4, 7])]


@family("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5")
def suppression(rng: np.random.Generator, op: str) -> Case:
    centre, size = rng.uniform(0, 1, (12, 2)), rng.uniform(0.1, 0.5, (12, 2))
    boxes = np.concatenate([centre - size / 2, centre + size / 2], 1).astype(np.float32)
    scores = rng.permutation(12).astype(np.float32) / 12
    attrs: dict[str, Any] = {"max_output_size": int(rng.integers(1, 9)), "iou_threshold": 0.3}
    if op[-1] in "345":
        attrs["score_threshold"] = 0.2
    if op[-1] in "45":
        attrs["pad_to_max_output_size"] = bool(rng.integers(2))
    if op[-1] == "5":
        attrs["soft_nms_sigma"] = float(rng.choice([0.0, 0.2, 0.7]))
    found = lambda b, s: call(op, boxes=b, scores=s, **attrs)  # noqa: E731
    return (lambda b, s: list(found(b, s)), [boxes, scores]) if op[-1] in "45" else (found, [boxes, scores])


@family("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant(rng: np.random.Generator, op: str) -> Case:
    attrs = {"num_bits": int(rng.integers(4, 9)), "narrow_range": bool(rng.integers(2))}
    x = floats(rng, [3, 4])
    if op.endswith("Args"):
        return lambda v: call(op, inputs=v, min=-1.5, max=2.0, **attrs), [x]
    count = [4] if op.endswith("Channel") else []
    low, high = held(floats(rng, count, -2, -0.5)), held(floats(rng, count, 0.5, 2))
    return lambda v: call(op, inputs=v, min=low, max=high, **attrs), [x]


@family("Dequantize")
def dequantize(rng: np.random.Generator, op: str) -> Case:
    signed = bool(rng.integers(2))
    x = ints(rng, [3, 4], -128 if signed else 0, 128, np.int8 if signed else np.uint8)
    mode = str(rng.choice(["MIN_COMBINED", "MIN_FIRST", "SCALED"]))
    to = tf.qint8 if signed else tf.quint8
    return lambda v: call(op, input=tf.bitcast(v, to), min_range=-2.0, max_range=3.0, mode=mode), [x]


@family("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3")
def quantize_and_dequantize(rng: np.random.Generator, op: str) -> Case:
    bits = {"num_bits": 6}
    attrs = {"signed_input": bool(rng.integers(2)), "range_given": True, **bits}
    return lambda v: call(op, input=v, input_min=0.0 if not attrs["signed_input"] else -1.5, input_max=2.0, **attrs), [
        floats(rng, [3, 4])
    ]


@family("LSTMBlockCell")
def lstm_cell(rng: np.random.Generator, op: str) -> Case:
    batch, given, hidden = shape(rng, 3)
    w, b = held(floats(rng, [given + hidden, 4 * hidden])), held(floats(rng, [4 * hidden]))
    peep = [held(floats(rng, [hidden])) for _ in range(3)]
    arrays = [floats(rng, [batch, given]), floats(rng, [batch, hidden]), floats(rng, [batch, hidden])]
    use = bool(rng.integers(2))
    return lambda x, c, h: list(call(
        op, x=x, cs_prev=c, h_prev=h, w=w, wci=peep[0], wcf=peep[1], wco=peep[2], b=b, use_peephole=use, cell_clip=-1.0
    )), arrays  # fmt: skip


@family("GRUBlockCell")
def gru_cell(rng: np.random.Generator, op: str) -> Case:
    batch, given, hidden = shape(rng, 3)
    w1, w2 = (held(floats(rng, [given + hidden, n * hidden])) for n in (2, 1))
    b1, b2 = (held(floats(rng, [n * hidden])) for n in (2, 1))
    arrays = [floats(rng, [batch, given]), floats(rng, [batch, hidden])]
    return lambda x, h: list(call(op, x=x, h_prev=h, w_ru=w1, w_c=w2, b_ru=b1, b_c=b2)), arrays


# -- control flow and lists -------------------------------------------------------------------------------------------


@family("If", "Case", "While", "PartitionedCall")
def control(rng: np.random.Generator, op: str) -> Case:
    x = floats(rng, shape(rng, 2))
    if op == "If":
        return lambda c, v: tf.cond(c, lambda: v * 2, lambda: tf.nn.relu(v) - 1), [np.asarray(bool(rng.integers(2))), x]
    if op == "Case":
        branches = [lambda v=k: tf.constant(float(v)) for k in range(3)]
        return lambda i, v: tf.switch_case(i, branches) + v, [np.asarray(int(rng.integers(0, 4)), np.int32), x]
    if op == "PartitionedCall":
        inner = tf.function(lambda v: tf.nn.relu(v) + 1)
        return lambda v: inner(v) * inner(v * 2), [x]
    step = lambda i, v: (i + 1, tf.tanh(v * 1.5) + 0.1)  # noqa: E731
    if rng.integers(2):
        return lambda v: tf.while_loop(lambda i, u: i < 5, step, [0, v])[1], [x]
    return lambda n, v: tf.while_loop(lambda i, u: i < n, step, [0, v])[1], [np.asarray(4, np.int32), x]


@family("TensorListStack", "TensorListGetItem", "TensorListConcatV2", "TensorListGather", "TensorListPushBack")
def tensor_list(rng: np.random.Generator, op: str) -> Case:
    x = floats(rng, [4, *shape(rng, 1)])

    def scanned(v: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 4).unstack(v)
        out = tf.TensorArray(tf.float32, 4)
        step = lambda i, s, t: (i + 1, s + rows.read(i), t.write(i, s * 2))  # noqa: E731
        _, last, out = tf.while_loop(lambda i, s, t: i < 4, step, [0, tf.zeros_like(v[0]), out])
        if op == "TensorListConcatV2":
            return [last, out.concat()]
        if op == "TensorListGather":
            return [last, out.gather([2, 0])]
        return [last, out.stack()]

    if op == "TensorListGetItem":
        return lambda v: tf.TensorArray(tf.float32, 4).unstack(v).read(2) * 2, [x]
    if op == "TensorListPushBack":

        def pushed(v: Any) -> Any:
            made = raw.EmptyTensorList(element_shape=[-1], max_num_elements=-1, element_dtype=tf.float32)
            for k in range(3):
                made = raw.TensorListPushBack(input_handle=made, tensor=v[k])
            return raw.TensorListStack(input_handle=made, element_shape=[-1], element_dtype=tf.float32)

        return pushed, [x]
    return scanned, [x]


@family(
    "Switch", "Merge", "Enter", "TensorArrayV3", "TensorArrayWriteV3", "TensorArrayScatterV3", "TensorArrayConcatV3",
    "TensorArraySplitV3",
)  # fmt: skip
def control_v1(rng: np.random.Generator, op: str) -> Case:
    """Graphs of TensorFlow 1, made with its own way of control flow."""
    x = floats(rng, [4, 3])

    def v1(v: Any, c: Any) -> Any:
        if op in ("Switch", "Merge"):
            inner = lambda: tf.compat.v1.cond(tf.reduce_sum(v) > 0, lambda: v + 3, lambda: v - 3)  # noqa: E731
            return tf.compat.v1.cond(c, inner, lambda: tf.nn.relu(v))
        if op == "Enter":
            again = lambda i, u: (i + 1, tf.tanh(u) + v)  # noqa: E731
            return tf.compat.v1.while_loop(lambda i, u: i < 5, again, [0, v])[1]
        made = tf.TensorArray(tf.float32, 4, infer_shape=False)
        if op == "TensorArrayWriteV3":
            step = lambda i, t: (i + 1, t.write(i, v[i] * 2))  # noqa: E731
            return tf.compat.v1.while_loop(lambda i, t: i < 4, step, [0, made])[1].stack()
        if op == "TensorArraySplitV3":
            return made.split(v, [1, 1, 1, 1]).read(2)
        if op == "TensorArrayConcatV3":
            return made.unstack(tf.reshape(v, [4, 3, 1])).concat()
        rows = tf.TensorArray(tf.float32, 4, infer_shape=False, clear_after_read=False).unstack(v)
        return rows.read(1) + rows.stack()

    v1.graph_of_1 = True  # type: ignore[attr-defined]
    return v1, [x, np.asarray(bool(rng.integers(2)))]


@family("RandomUniform", "RandomStandardNormal", "RandomUniformInt", "Multinomial")
def random(rng: np.random.Generator, op: str) -> Case:
    """Only that it is there, and what of it is certain: its shape, and that it lies within its bounds."""
    sizes = held(shape(rng, 2))

    def made(v: Any) -> Any:
        if op == "RandomUniformInt":
            found = call(op, shape=sizes, minval=2, maxval=3)
        elif op == "Multinomial":
            found = call(op, logits=held([[0.0, -1e30]]), num_samples=4)
        else:
            found = call(op, shape=sizes, dtype=tf.float32)
        certain = tf.shape(found) if op.startswith("RandomS") else found
        if op == "RandomUniform":
            certain = tf.logical_and(found >= 0, found < 1)
        return tf.cast(certain, tf.float32) + v

    return made, [np.asarray(1, np.float32)]


@family("Const", "Placeholder", "PlaceholderWithDefault", "NoOp", "Assert", "Print")
def basic(rng: np.random.Generator, op: str) -> Case:
    x = floats(rng, shape(rng, 2))

    def made(v: Any) -> Any:
        if op == "PlaceholderWithDefault":
            return v + tf.compat.v1.placeholder_with_default(held(2.5), [])
        if op == "Assert":
            with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(v < 99), [v])]):
                return v + 1
        if op == "Print":
            return raw.Print(input=v, data=[v]) + 1
        if op == "NoOp":
            with tf.control_dependencies([tf.no_op()]):
                return v + 1
        return v + held(floats(rng, [1]))

    return made, [x]
