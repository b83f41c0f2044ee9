"""Quantisation-aware training: convolutions that are trained on what integers of 8 bits will hold, and compute in
these integers when they are no longer trained."""

from __future__ import annotations

from enum import Enum

from MNN.errors import MNNError
from MNN.nn.extracted import Extracted
from MNN.nn.layers import Conv
from MNN.nn.module import Module
from MNN.nn.quantizer import Quantizer


class Feature_Scale_Method(Enum):  # noqa: N801 - PyMNN's name
    """Whether features have one scale, or one for each channel. Like PyMNN, one is what they get."""

    PER_TENSOR = 0
    PER_CHANNEL = 1


class Scale_Update_Method(Enum):  # noqa: N801 - PyMNN's name
    """What the range of features is: the widest that was met, or a running mean of what was."""

    MAXIMUM = 0
    MOVING_AVERAGE = 1


PER_TENSOR, PER_CHANNEL = Feature_Scale_Method.PER_TENSOR, Feature_Scale_Method.PER_CHANNEL
MAXIMUM, MOVING_AVERAGE = Scale_Update_Method.MAXIMUM, Scale_Update_Method.MOVING_AVERAGE


def train_quant(
    module: Module,
    quant_bits: int = 8,
    feature_scale_method: Feature_Scale_Method = PER_TENSOR,
    scale_update_method: Scale_Update_Method = MOVING_AVERAGE,
) -> bool:
    """Has the convolutions of a module, and of those inside, trained for integers: weights of ``quant_bits`` (2 to 8)
    with a step for each output channel, features of 8 bits with one step, whatever ``feature_scale_method`` says (so it
    is in PyMNN). Whether there are any.

    Steps of an optimizer then compute with rounded numbers and keep the range of each convolution's input. In
    inference mode (``module.train(False)``) the convolutions compute in integers, and ``MNN.expr.save`` and
    :func:`MNN.train.export` write them so. A module that is not trained any more is quantised by running it on examples
    in inference mode: the first ones decide the ranges. Optimizers are made afterwards."""
    if not isinstance(module, Module):
        raise MNNError(f"train_quant() takes a Module, found {type(module).__name__}")
    if isinstance(quant_bits, bool) or not isinstance(quant_bits, int) or not 2 <= quant_bits <= 8:
        raise MNNError(f"weights of 2 to 8 bits can be trained, found quant_bits={quant_bits!r}")
    if not isinstance(feature_scale_method, Feature_Scale_Method):
        raise MNNError(f"feature_scale_method is PER_TENSOR or PER_CHANNEL, found {feature_scale_method!r}")
    if not isinstance(scale_update_method, Scale_Update_Method):
        raise MNNError(f"scale_update_method is MAXIMUM or MOVING_AVERAGE, found {scale_update_method!r}")
    return _quantized(module, quant_bits, scale_update_method.name) > 0


def _quantized(module: Module, bits: int, method: str) -> int:
    """How many convolutions there are, each of which has a quantizer now."""
    inside = [child for child in module._children.values() if not isinstance(child, Quantizer)]
    count = sum(_quantized(child, bits, method) for child in inside)
    if isinstance(module, Conv):
        module.quantizer = Quantizer(bits, method)
        module.quantizer.train(module.is_training)
        return count + 1
    return count + (module.quantize(lambda: Quantizer(bits, method)) if isinstance(module, Extracted) else 0)


__all__ = [
    "MAXIMUM", "MOVING_AVERAGE", "PER_CHANNEL", "PER_TENSOR", "Feature_Scale_Method", "Scale_Update_Method",
    "train_quant",
]  # fmt: skip
