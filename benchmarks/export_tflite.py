"""Writes Keras' architectures as .tflite files of every number format.

    python benchmarks/export_tflite.py DIR [NAME ...]

Needs TensorFlow (``pip install tensorflow-cpu==2.21.0``), in an environment of its own. Weights are drawn; batch
normalisation gets the statistics of noise, so that numbers keep their size through the layers.
Each model is written as ``NAME.FORM.tflite`` with FORM one of ``float``, ``half`` (fp16 weights), ``dynamic`` (8-bit
weights, float activations), ``int8`` (weights and activations, inputs and outputs too) and ``int16`` (8-bit weights,
16-bit activations).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

FORMS = ("float", "half", "dynamic", "int8", "int16")
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


MODELS: dict[str, Callable[[], keras.Model]] = {
    "mobilenet_v1": lambda: keras.applications.MobileNet(weights=None),
    "mobilenet_v2": lambda: keras.applications.MobileNetV2(weights=None),
    "mobilenet_v3_small": lambda: keras.applications.MobileNetV3Small((224, 224, 3), weights=None),
    "mobilenet_v3_large": lambda: keras.applications.MobileNetV3Large((224, 224, 3), weights=None),
    "efficientnet_lite0": efficientnet_lite0,
    "resnet50": lambda: keras.applications.ResNet50(weights=None),
    "nasnet_mobile": lambda: keras.applications.NASNetMobile(weights=None),
    "efficientnet_v2_b0": lambda: keras.applications.EfficientNetV2B0(weights=None),
    "densenet121": lambda: keras.applications.DenseNet121(weights=None),
    "inception_v3": lambda: keras.applications.InceptionV3(weights=None),
    "efficientnet_b0": lambda: keras.applications.EfficientNetB0(weights=None),
    "resnet50_v2": lambda: keras.applications.ResNet50V2(weights=None),
    "xception": lambda: keras.applications.Xception(weights=None),
    "convnext_tiny": lambda: keras.applications.ConvNeXtTiny(weights=None),
    "mobilenet_v3_minimal": lambda: keras.applications.MobileNetV3Small((224, 224, 3), minimalistic=True, weights=None),
    "vgg16": lambda: keras.applications.VGG16(weights=None),
    "inception_resnet_v2": lambda: keras.applications.InceptionResNetV2(weights=None),
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


def converted(model: keras.Model, form: str) -> bytes:
    """The model as a .tflite file of a form."""

    @tf.function(input_signature=[tf.TensorSpec((1, *model.input_shape[1:]), tf.float32)])
    def call(x: tf.Tensor) -> tf.Tensor:
        return model(x, training=False)

    frozen = convert_variables_to_constants_v2(call.get_concrete_function())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if form != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "half":
        converter.target_spec.supported_types = [tf.float16]
    if form in ("int8", "int16"):

        def samples() -> Iterator[list[np.ndarray]]:
            for seed in range(4):
                yield [noise(model, seed)]

        converter.representative_dataset = samples
        wide = form == "int16"
        kinds = tf.lite.OpsSet
        ops = kinds.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8 if wide else kinds.TFLITE_BUILTINS_INT8
        converter.target_spec.supported_ops = [ops]
        converter.inference_input_type = converter.inference_output_type = tf.int16 if wide else tf.int8
    return converter.convert()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        model = drawn(name)
        for form in FORMS:
            (folder / f"{name}.{form}.tflite").write_bytes(converted(model, form))
        print(name, flush=True)


if __name__ == "__main__":
    main()
