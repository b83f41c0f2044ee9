"""Keras networks that give numbers for every place of an image: detectors, segmentation, poses. Weights are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow import keras

_LAYERS = keras.layers


def _unit(x: tf.Tensor, layer: keras.layers.Layer, activation: str | None) -> tf.Tensor:
    """A convolution without bias, its normalisation and an activation."""
    x = _LAYERS.BatchNormalization()(layer(x))
    return x if activation is None else _LAYERS.Activation(activation)(x)


def _conv(
    x: tf.Tensor, channels: int, size: int = 1, stride: int = 1, activation: str | None = "relu6", dilation: int = 1
) -> tf.Tensor:
    layer = _LAYERS.Conv2D(channels, size, stride, padding="same", use_bias=False, dilation_rate=dilation)
    return _unit(x, layer, activation)


def _separable(x: tf.Tensor, channels: int, stride: int = 1, activation: str | None = "relu6") -> tf.Tensor:
    """A depthwise window and a pointwise product."""
    x = _unit(x, _LAYERS.DepthwiseConv2D(3, stride, padding="same", use_bias=False), "relu6")
    return _conv(x, channels, activation=activation)


def _inverted(x: tf.Tensor, channels: int, stride: int) -> tf.Tensor:
    """An inverted residual (Sandler et al. 2018)."""
    y = _conv(x, 6 * x.shape[-1])
    y = _unit(y, _LAYERS.DepthwiseConv2D(3, stride, padding="same", use_bias=False), "relu6")
    y = _conv(y, channels, activation=None)
    return _LAYERS.Add()([x, y]) if x.shape == y.shape else y


def _pyramid(x: tf.Tensor, widths: Sequence[int] = (24, 40, 80, 112)) -> list[tf.Tensor]:
    """A backbone's features at strides of 4, 8, 16 and 32."""
    x, levels = _conv(x, 16, 3, 2), []
    for width in widths:
        for i in range(2):
            x = _inverted(x, width, 2 if i == 0 else 1)
        levels.append(x)
    return levels


def _resized(x: tf.Tensor, size: int) -> tf.Tensor:
    """Nearest pixels to a larger size, the largest of windows to a smaller one."""
    given = x.shape[1]
    return _LAYERS.UpSampling2D(size // given)(x) if size > given else _LAYERS.MaxPooling2D(3, 2, padding="same")(x)


def efficientdet() -> keras.Model:
    """A detector with two bidirectional pyramids and shared heads (Tan, Pang, Le 2020)."""
    given = keras.Input((256, 256, 3))
    levels = [_conv(x, 64, activation=None) for x in _pyramid(given)[1:]]
    for _ in range(2):
        levels.append(_LAYERS.MaxPooling2D(3, 2, padding="same")(levels[-1]))
    for _ in range(2):
        down = levels[-1:]
        for x in reversed(levels[:-1]):
            joined = _LAYERS.Add()([x, _resized(down[0], x.shape[1])])
            down.insert(0, _separable(_LAYERS.Activation("relu6")(joined), 64, activation=None))
        up = down[:1]
        for x, y in zip(levels[1:], down[1:], strict=True):
            joined = _LAYERS.Add()([x, y, _resized(up[-1], x.shape[1])])
            up.append(_separable(_LAYERS.Activation("relu6")(joined), 64, activation=None))
        levels = up
    found = []
    for count, last in ((9 * 20, "sigmoid"), (9 * 4, None)):
        head = _LAYERS.SeparableConv2D(count, 3, padding="same", activation=last)
        shared = _LAYERS.SeparableConv2D(64, 3, padding="same", activation="relu6")
        flat = [_LAYERS.Reshape((-1, count // 9))(head(shared(x))) for x in levels]
        found.append(_LAYERS.Concatenate(axis=1)(flat))
    return keras.Model(given, _LAYERS.Concatenate(axis=-1)(found))


def deeplab() -> keras.Model:
    """Segmentation by windows of several distances (Chen et al. 2018), bilinear to the image's size."""
    given = keras.Input((225, 225, 3))
    _, low, x, _ = _pyramid(given)
    parts = [_conv(x, 96), *(_conv(x, 96, 3, dilation=d) for d in (2, 4))]
    mean = _conv(_LAYERS.GlobalAveragePooling2D(keepdims=True)(x), 96)
    parts.append(_LAYERS.Resizing(x.shape[1], x.shape[2], interpolation="bilinear")(mean))
    x = _conv(_LAYERS.Concatenate()(parts), 96)
    x = _LAYERS.Resizing(low.shape[1], low.shape[2], interpolation="bilinear")(x)
    x = _separable(_LAYERS.Concatenate()([x, _conv(low, 48)]), 96)
    x = _LAYERS.Conv2D(21, 1)(x)
    return keras.Model(given, _LAYERS.Resizing(225, 225, interpolation="bilinear")(x))


def movenet() -> keras.Model:
    """Centres, heat maps and offsets of points of a person at a stride of 4, as MoveNet's heads give them."""
    given = keras.Input((192, 192, 3))
    levels = [_conv(x, 64, activation=None) for x in _pyramid(given)]
    x = levels[-1]
    for level in reversed(levels[:-1]):
        x = _LAYERS.Resizing(level.shape[1], level.shape[2], interpolation="bilinear")(x)
        x = _separable(_LAYERS.Add()([x, level]), 64)
    heads = []
    for count, last in ((1, "sigmoid"), (17, "sigmoid"), (34, None), (34, None)):
        y = _LAYERS.SeparableConv2D(96, 3, padding="same", activation="relu")(x)
        heads.append(_LAYERS.Conv2D(count, 1, activation=last)(y))
    return keras.Model(given, _LAYERS.Concatenate()(heads))


def yolo() -> keras.Model:
    """A one-stage detector in the manner of YOLOv5: cross-stage blocks of SiLU, pooled pyramids, three heads."""

    def conv(x: tf.Tensor, channels: int, size: int = 1, stride: int = 1) -> tf.Tensor:
        return _conv(x, channels, size, stride, "silu")

    def block(x: tf.Tensor, channels: int, *, added: bool = True) -> tf.Tensor:
        left, right = conv(x, channels // 2), conv(x, channels // 2)
        y = conv(conv(left, channels // 2), channels // 2, 3)
        return conv(_LAYERS.Concatenate()([_LAYERS.Add()([left, y]) if added else y, right]), channels)

    given = keras.Input((256, 256, 3))
    x, levels = conv(given, 16, 6, 2), []
    for channels in (32, 64, 128, 256):
        x = block(conv(x, channels, 3, 2), channels)
        levels.append(x)
    pooled = [conv(x, 128)]
    for _ in range(3):
        pooled.append(_LAYERS.MaxPooling2D(5, 1, padding="same")(pooled[-1]))
    levels[-1] = conv(_LAYERS.Concatenate()(pooled), 256)
    x, outputs = levels[-1], []
    for channels, level in ((128, levels[2]), (64, levels[1])):
        x = conv(x, channels)
        outputs.append(x)
        x = block(_LAYERS.Concatenate()([_LAYERS.UpSampling2D(2)(x), level]), channels, added=False)
    found = [x]
    for channels, level in zip((128, 256), reversed(outputs), strict=True):
        y = conv(found[-1], level.shape[-1], 3, 2)
        found.append(block(_LAYERS.Concatenate()([y, level]), channels, added=False))
    heads = [_LAYERS.Reshape((-1, 25))(_LAYERS.Conv2D(75, 1, activation="sigmoid")(y)) for y in found]
    return keras.Model(given, _LAYERS.Concatenate(axis=1)(heads))


DENSE = {"efficientdet": efficientdet, "deeplab": deeplab, "movenet": movenet, "yolo": yolo}
