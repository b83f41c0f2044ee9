"""Writes Keras' architectures as .tflite files of every number format.

    python -m benchmarks.export_tflite DIR [NAME ...] [--forms float,int8]

Needs TensorFlow (``pip install tensorflow-cpu==2.21.0``), in an environment of its own. Weights are drawn; batch
normalisation gets the statistics of noise, so that numbers keep their size through the layers.
Each model is written as ``NAME.FORM.tflite`` with FORM one of ``float``, ``half`` (fp16 weights), ``dynamic`` (8-bit
weights, float activations), ``int8`` (weights and activations, inputs and outputs too) and ``int16`` (8-bit weights,
16-bit activations). What the converter refuses is said and left out.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from benchmarks.keras_networks import MODELS, drawn, noise

FORMS = ("float", "half", "dynamic", "int8", "int16")


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--forms", default=",".join(FORMS))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names:
        model = drawn(name)
        for form in given.forms.split(","):
            try:
                file = converted(model, form)
            except Exception as reason:  # noqa: BLE001 - the converter may raise anything, and the others go on
                print(f"{name}.{form}: {str(reason).strip().splitlines()[:1]}", flush=True)
                continue
            (given.folder / f"{name}.{form}.tflite").write_bytes(file)
            print(f"{name}.{form}", flush=True)


if __name__ == "__main__":
    main()
