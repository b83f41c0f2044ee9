"""Networks of Keras for :mod:`benchmarks.export_tflite`: its own architectures, and some by hand. Weights are drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow import keras

from benchmarks.keras_dense import DENSE

_LAYERS = keras.layers
_LITE0_STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
"""Window, stride, expansion, channels and repeats of each stage (Tan and Le 2019, table 1)."""


def efficientnet_lite0() -> keras.Model:
    """EfficientNet-Lite0: B0 without squeeze-and-excite, with ReLU6, stem and head not scaled."""

    def unit(x: tf.Tensor, layer: keras.layers.Layer, *, activated: bool = True) -> tf.Tensor:
        x = _LAYERS.BatchNormalization()(layer(x))
        return _LAYERS.ReLU(6.0)(x) if activated else x

    def conv(channels: int, size: int = 1, stride: int = 1) -> keras.layers.Layer:
        return _LAYERS.Conv2D(channels, size, stride, padding="same", use_bias=False)

    given = keras.Input((224, 224, 3))
    x = unit(given, conv(32, 3, 2))
    for i, (size, stride, expansion, channels, repeats) in enumerate(_LITE0_STAGES):
        for j in range(1 if i in (0, len(_LITE0_STAGES) - 1) else repeats):
            start, step = x, stride if j == 0 else 1
            if expansion > 1:
                x = unit(x, conv(x.shape[-1] * expansion))
            x = unit(x, _LAYERS.DepthwiseConv2D(size, step, padding="same", use_bias=False))
            x = unit(x, conv(channels), activated=False)
            x = _LAYERS.Add()([x, start]) if start.shape == x.shape else x
    x = _LAYERS.GlobalAveragePooling2D()(unit(x, conv(1280)))
    return keras.Model(given, _LAYERS.Dense(1000, activation="softmax")(x))


def unet() -> keras.Model:
    """A U-Net (Ronneberger et al. 2015) of four levels for pictures of 128 x 128."""

    def level(x: tf.Tensor, channels: int) -> tf.Tensor:
        for _ in range(2):
            x = _LAYERS.BatchNormalization()(_LAYERS.Conv2D(channels, 3, padding="same", use_bias=False)(x))
            x = _LAYERS.ReLU()(x)
        return x

    given = keras.Input((128, 128, 3))
    x, left = given, []
    for channels in (16, 32, 64):
        left.append(level(x, channels))
        x = _LAYERS.MaxPooling2D()(left[-1])
    x = level(x, 128)
    for channels, beside in zip((64, 32, 16), reversed(left), strict=True):
        x = _LAYERS.Conv2DTranspose(channels, 2, 2, padding="same")(x)
        x = level(_LAYERS.Concatenate()([x, beside]), channels)
    return keras.Model(given, _LAYERS.Conv2D(2, 1, activation="softmax")(x))


def transformer() -> keras.Model:
    """An encoder of four layers (Vaswani et al. 2017) over 128 vectors of 256, and a classifier of their mean."""
    x = given = keras.Input((128, 256))
    for _ in range(4):
        y = _LAYERS.LayerNormalization()(x)
        x = _LAYERS.Add()([x, _LAYERS.MultiHeadAttention(4, 64)(y, y)])
        y = _LAYERS.Dense(1024, activation="gelu")(_LAYERS.LayerNormalization()(x))
        x = _LAYERS.Add()([x, _LAYERS.Dense(256)(y)])
    return keras.Model(given, _LAYERS.Dense(10, activation="softmax")(_LAYERS.GlobalAveragePooling1D()(x)))


def _recurrent(layer: type[keras.layers.Layer]) -> keras.Model:
    """Two recurrent layers over 64 frames of 40 numbers, and a label of each."""
    x = given = keras.Input((64, 40))
    for _ in range(2):
        x = layer(128, return_sequences=True)(x)
    return keras.Model(given, _LAYERS.Dense(30, activation="softmax")(x))


def keyword_spotter() -> keras.Model:
    """A network of depthwise separable convolutions over 49 frames of 10 numbers (Zhang et al. 2017, DS-CNN)."""
    x = given = keras.Input((49, 10, 1))
    x = _LAYERS.ReLU()(_LAYERS.BatchNormalization()(_LAYERS.Conv2D(64, (10, 4), 2, padding="same")(x)))
    for _ in range(4):
        x = _LAYERS.ReLU()(_LAYERS.BatchNormalization()(_LAYERS.DepthwiseConv2D(3, padding="same")(x)))
        x = _LAYERS.ReLU()(_LAYERS.BatchNormalization()(_LAYERS.Conv2D(64, 1)(x)))
    return keras.Model(given, _LAYERS.Dense(12, activation="softmax")(_LAYERS.GlobalAveragePooling2D()(x)))


def _application(name: str, *given: object, **settings: object) -> Callable[[], keras.Model]:
    return lambda: getattr(keras.applications, name)(*given, weights=None, **settings)


MODELS: dict[str, Callable[[], keras.Model]] = {
    "mobilenet_v1": _application("MobileNet"),
    "mobilenet_v2": _application("MobileNetV2"),
    "mobilenet_v3_small": _application("MobileNetV3Small", (224, 224, 3)),
    "mobilenet_v3_large": _application("MobileNetV3Large", (224, 224, 3)),
    "efficientnet_lite0": efficientnet_lite0,
    "resnet50": _application("ResNet50"),
    "nasnet_mobile": _application("NASNetMobile"),
    "efficientnet_v2_b0": _application("EfficientNetV2B0"),
    "densenet121": _application("DenseNet121"),
    "inception_v3": _application("InceptionV3"),
    "efficientnet_b0": _application("EfficientNetB0"),
    "resnet50_v2": _application("ResNet50V2"),
    "xception": _application("Xception"),
    "convnext_tiny": _application("ConvNeXtTiny"),
    "mobilenet_v3_minimal": _application("MobileNetV3Small", (224, 224, 3), minimalistic=True),
    "vgg16": _application("VGG16"),
    "inception_resnet_v2": _application("InceptionResNetV2"),
    "unet": unet,
    "transformer": transformer,
    "lstm": lambda: _recurrent(_LAYERS.LSTM),
    "gru": lambda: _recurrent(_LAYERS.GRU),
    "keyword_spotter": keyword_spotter,
    **DENSE,
}


def noise(model: keras.Model, seed: int, batch: int = 1) -> np.ndarray:
    """Numbers in the range that the model expects of its pictures."""
    shape = (batch, *model.input_shape[1:])
    high = 255.0 if any(isinstance(x, _LAYERS.Rescaling) for x in model.layers) else 1.0
    return (np.random.default_rng(seed).random(shape) * high).astype(np.float32)


def drawn(name: str) -> keras.Model:
    """The architecture with seeded weights, and the statistics of noise in its normalisations."""
    keras.utils.set_random_seed(1)
    model = MODELS[name]()
    for layer in model.layers:
        if isinstance(layer, _LAYERS.BatchNormalization):
            layer.momentum = 0.0
    model(noise(model, 0, 4), training=True)
    return model
