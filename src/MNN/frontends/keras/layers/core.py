"""Dense layers, embeddings, masking, and layers that do nothing when a model is used."""

from __future__ import annotations

import math
from collections.abc import Sequence

from MNN.frontends.common.expressions import binary
from MNN.frontends.keras import quantized_products as quantized
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.activations import activated
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.keras.quantized import integers, names_of, policy_mode
from MNN.frontends.keras.registry import Config, keras_layer
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def kernel_and_bias(config: Config) -> Sequence[str]:
    return names_of(config, "kernel", ["bias"] if config.get("use_bias", True) else [])


def biased(ctx: KerasContext, node: KerasNode, x: Value, name: str = "bias") -> Value:
    """``x`` plus a variable along its last axis, where the layer has it."""
    bias = ctx.weight(node, name)
    return x if bias is None else binary(ctx, "ADD", x, bias)


@keras_layer("Dense", variables=kernel_and_bias, masks=True)
def dense(ctx: KerasContext, node: KerasNode) -> Value:
    held = integers(node, "kernel", node.int_attr("units"))
    if held is not None:
        return activated(ctx, node, biased(ctx, node, quantized.product(ctx, node, node.input(0), held)))
    y = ctx.op("MatMul", node.input(0), ctx.needed(node, "kernel"))
    y.dtype = node.input(0).dtype
    return activated(ctx, node, biased(ctx, node, y))


def _einsum_names(config: Config) -> Sequence[str]:
    return names_of(config, "kernel", ["bias"] if config.get("bias_axes") is not None else [])


@keras_layer("EinsumDense", variables=_einsum_names)
def einsum_dense(ctx: KerasContext, node: KerasNode) -> Value:
    x, equation = node.input(0), str(node.get("equation"))
    if policy_mode(node.config):
        shape = quantized.kernel_shape(node, x, equation)
        array = node.array("kernel")
        count = math.prod(shape) // max(len(array) if array is not None and array.ndim else 1, 1)
        held = integers(node, "kernel", count)
        assert held is not None
        return activated(ctx, node, biased(ctx, node, quantized.einsum(ctx, node, x, held, equation, shape)))
    y = ctx.op("Einsum", x, ctx.needed(node, "kernel"), equation=equation)
    y.dtype = x.dtype
    return activated(ctx, node, biased(ctx, node, y))


def _embeddings(config: Config) -> Sequence[str]:
    return names_of(config, "embeddings")


@keras_layer("Embedding", variables=_embeddings)
def embedding(ctx: KerasContext, node: KerasNode) -> Value:
    return looked_up(ctx, node)


def looked_up(ctx: KerasContext, node: KerasNode) -> Value:
    """The rows of a table; numbers that are 0 may be a mask."""
    x, held = node.input(0), integers(node, "embeddings", node.int_attr("output_dim"))
    numbers = x if x.dtype in (DType.I32, DType.I64) else ctx.cast(x, DType.I32)
    if held is not None:
        y = quantized.rows(ctx, node, numbers, held)
    else:
        y = ctx.op("GatherV2", ctx.needed(node, "embeddings"), numbers, ctx.const(0, DType.I32))
    if node.bool_attr("mask_zero"):
        ctx.masks[y] = ctx.op("BinaryOp", numbers, ctx.const_like(0, numbers), opType="NOTEQUAL")
    return y


def _reversible(config: Config) -> Sequence[str]:
    return ["embeddings"] if config.get("tie_weights", True) else ["embeddings", "reverse_embeddings"]


@keras_layer("ReversibleEmbedding", variables=_reversible)
def reversible_embedding(ctx: KerasContext, node: KerasNode) -> Value:
    """An embedding, or (``reverse``) the scores of all words for what a model gives."""
    if not node.argument(1, "reverse", False):
        return looked_up(ctx, node)
    if policy_mode(node.config):
        raise node.unsupported("scores by a quantised table", "save the model before it is quantised")
    if node.config.get("reverse_dtype") is not None:
        raise node.unsupported("reverse_dtype", "leave it out")
    x = node.input(0)
    tied = node.bool_attr("tie_weights", True)
    table = ctx.needed(node, "embeddings" if tied else "reverse_embeddings")
    y = ctx.op("MatMul", x, table, transposeB=tied)
    y.dtype = x.dtype
    limit = node.config.get("logit_soft_cap")
    if limit is None:
        return y
    bent = ctx.op("TanH", binary(ctx, "MUL", y, 1 / float(limit)))
    bent.dtype = x.dtype
    return binary(ctx, "MUL", bent, float(limit))


@keras_layer("Masking")
def masking(ctx: KerasContext, node: KerasNode) -> Value:
    """Steps all of whose numbers are ``mask_value`` do not count, and become zeros."""
    x = node.input(0)
    differs = ctx.op("BinaryOp", x, ctx.const_like(node.float_attr("mask_value", 0.0), x), opType="NOTEQUAL")
    some = ctx.op("Reduction", differs, operation="ANY", dim=[-1], keepDims=True)
    some.dtype = DType.BOOL
    y = ctx.op("Select", some, x, ctx.const_like(0, x))
    y.dtype, y.shape = x.dtype, x.shape
    ctx.masks[y] = ctx.op("Squeeze", some, squeezeDims=[-1])
    return y


@keras_layer(
    "Identity", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout",
    "GaussianNoise", "AlphaDropout", "ActivityRegularization", "StochasticDepth", masks=True,
)  # fmt: skip
def nothing(ctx: KerasContext, node: KerasNode) -> Value:
    """What these do, they do in training."""
    return node.input(0)


@keras_layer(
    "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomBrightness", "RandomContrast",
    "RandomHeight", "RandomWidth", "RandomShear", "RandomHue", "RandomSaturation", "RandomColorJitter",
    "RandomGrayscale", "RandomInvert", "RandomPosterization", "RandomSharpness", "RandomErasing",
    "RandomColorDegeneration", "RandomGaussianBlur", "RandomPerspective", "RandomElasticTransform", "AugMix", "MixUp",
    "CutMix", "RandAugment", "Solarization",
)  # fmt: skip
def augmentation(ctx: KerasContext, node: KerasNode) -> Value:
    """Pictures are changed at random in training alone."""
    return node.input(0)


@keras_layer("LayerScale", variables=lambda config: ["gamma"])
def layer_scale(ctx: KerasContext, node: KerasNode) -> Value:
    """A number for each channel, in the networks that Keras brings along; other classes may be called so."""
    gamma = ctx.needed(node, "gamma")
    if not {"init_values", "projection_dim"} <= set(node.config) or gamma.shape != (node.int_attr("projection_dim"),):
        raise node.unsupported("a layer of this form", "export a SavedModel in Keras (model.export('folder'))")
    return binary(ctx, "MUL", node.input(0), gamma)
