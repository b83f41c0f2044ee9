"""Normalisations. Statistics are taken in f32 at least, whatever the tensor's dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ir.shape import elements, normalize_axis
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import along, check_channels, operand, optional, require_rank, wide
from MNN.ops.inference import infer, symbolic_shape_check


def per_channel(b: Builder, vector: Tensor, x: Tensor, name: str) -> Tensor:
    """A vector that broadcasts along axis 1 of ``x``, in f32 at least."""
    check_channels(b, vector, x.shape[1] if x.rank > 1 else 1, name)
    return wide(b, along(b, vector, 1, max(x.rank, 2)) if x.rank > 1 else b.reshape(vector, (1,)))


def standardize(b: Builder, x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """``(x - mean) * inv`` with ``inv = 1 / sqrt(variance + epsilon)`` over ``axes``; also mean and inv."""
    mean = b.reduce("mean", x, axes)
    centred = b.op("sub", x, mean)
    inv = _inverse_root(b, b.reduce("mean", b.op("mul", centred, centred), axes), epsilon)
    return b.op("mul", centred, inv), mean, inv


def _standardize_groups(b: Builder, x: Tensor, group: int, epsilon: float) -> Tensor:
    """:func:`standardize` over space and the channels of a group.

    Over space first, then the few numbers that are left over channels: channels need not lie apart in memory for it,
    as views of groups would ask.
    """
    channels, space = x.shape[1], range(2, x.rank)
    if group == channels:
        return standardize(b, x, space, epsilon)[0]

    def mean(t: Tensor) -> Tensor:
        parts = b.reduce("mean", t, space)
        shape = (x.shape[0], group, channels // group)
        return b.reshape(b.expand(b.reduce("mean", b.reshape(parts, shape), (2,)), shape), parts.shape)

    centred = b.op("sub", x, mean(x))
    return b.op("mul", centred, _inverse_root(b, mean(b.op("mul", centred, centred)), epsilon))


def root_mean_square(b: Builder, x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor]:
    """``x * inv`` with ``inv = 1 / sqrt(mean(x^2) + epsilon)`` over ``axes`` (Zhang & Sennrich 2019, arXiv:1910.07467);
    also inv."""
    inv = _inverse_root(b, b.reduce("mean", b.op("mul", x, x), axes), epsilon)
    return b.op("mul", x, inv), inv


def _inverse_root(b: Builder, x: Tensor, epsilon: float) -> Tensor:
    def body(s: BodyBuilder, a: int) -> int:
        return s("recip", s("sqrt", s("add", a, s.const(epsilon, s.dtype(a)))))

    return b.map(body, x)


def affine(b: Builder, x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """``x * scale + shift`` with operands that broadcast; either may be absent."""
    if scale is not None:
        x = b.op("mul", x, b.cast(scale, x.dtype))
    return x if shift is None else b.op("add", x, b.cast(shift, x.dtype))


@register("BatchNorm")
class BatchNorm(Operator):
    """``(x - mean) / sqrt(var + epsilon) * slope + bias`` per channel; inputs ``x, slope, bias, mean, var``."""

    keeps_shape = True
    repeats = True
    attributes = {"channels": 0, "epsilon": 0.001}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        slope, bias, mean, var = (
            per_channel(b, operand(b, inputs, i, name), x, name)
            for i, name in enumerate(("slope", "bias", "mean", "var"), 1)
        )
        scale = b.op("mul", slope, _inverse_root(b, var, self.float_attr(node, "epsilon")))
        shift = b.op("sub", bias, b.op("mul", mean, scale))
        x32 = wide(b, x)
        scale, shift = b.cast(scale, x32.dtype), b.cast(shift, x32.dtype)
        return [b.cast(affine(b, x32, scale, shift), x.dtype)]


@register("BatchNormTraining")
class BatchNormTraining(Operator):
    """Batch normalisation with the batch's own statistics: inputs ``x, slope, bias, mean, var``, outputs ``y`` and the
    running mean and variance ``running * momentum + batch * (1 - momentum)``."""

    in_mnn = False
    updates: ClassVar[dict[int, int]] = {3: 1, 4: 2}
    attributes = {"epsilon": 1e-5, "momentum": 0.9}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        slope, bias = (per_channel(b, operand(b, inputs, i), x, "slope or bias") for i in (1, 2))
        axes = [a for a in range(x.rank) if a != 1]
        x32 = wide(b, x)
        normal, mean, _ = standardize(b, x32, axes, self.float_attr(node, "epsilon"))
        centred = b.op("sub", x32, mean)
        variance = b.reduce("mean", b.op("mul", centred, centred), axes)
        outputs = [b.cast(affine(b, normal, slope, bias), x.dtype)]
        keep = self.float_attr(node, "momentum")
        for i, batch in ((3, mean), (4, variance)):
            running = operand(b, inputs, i)
            flat = b.cast(b.reshape(batch, running.shape), running.dtype)
            mixed = b.map(
                lambda s, r, c, d=running.dtype: s(
                    "add", s("mul", r, s.const(keep, d)), s("mul", c, s.const(1 - keep, d))
                ),
                running,
                flat,
            )
            outputs.append(mixed)
        return outputs


@register("Scale")
class Scale(Operator):
    """``x * scale + bias?`` per channel (axis 1)."""

    keeps_shape = True
    repeats = True
    attributes = {"channels": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, bias = operand(b, inputs, 0), optional(inputs, 2)
        scale = b.cast(per_channel(b, operand(b, inputs, 1, "scale"), x, "scale"), x.dtype)
        return [affine(b, x, scale, None if bias is None else b.cast(per_channel(b, bias, x, "bias"), x.dtype))]


@register("InstanceNorm")
class InstanceNorm(Operator):
    """Normalises every channel of every sample over its spatial axes; inputs ``x, slope?, bias?`` (per channel)."""

    keeps_shape = True
    repeats = True
    attributes = {"channels": 0, "epsilon": 0.001}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        normal, _, _ = standardize(b, wide(b, x), range(2, x.rank), self.float_attr(node, "epsilon"))
        slope, bias = (
            None if t is None else per_channel(b, t, x, "slope or bias")
            for t in (optional(inputs, 1), optional(inputs, 2))
        )
        return [b.cast(affine(b, normal, slope, bias), x.dtype)]


def _trailing(b: Builder, vector: Tensor | None, sizes: Sequence[int]) -> Tensor | None:
    """Gamma or beta as something that broadcasts to the normalised sizes."""
    if vector is None:
        return None
    if vector.rank == 1 and vector.shape[0] == elements(sizes):  # files keep them flat
        return b.reshape(vector, sizes)
    surplus = max(vector.rank - len(sizes), 0)
    if vector.shape[:surplus] == (1,) * surplus:
        vector = b.reshape(vector, vector.shape[surplus:])
    if vector.rank > len(sizes) or any(
        d not in (1, n) for d, n in zip(vector.shape[::-1], tuple(sizes)[::-1], strict=False)
    ):
        raise ShapeError(f"{b.where}: gamma or beta {list(vector.shape)} does not fit the axes {list(sizes)}")
    return vector


@register("LayerNorm")
class LayerNorm(Operator):
    """Normalises over the last ``len(axis)`` axes; inputs ``x, gamma?, beta?, more?``.

    With ``group`` > 1 over each of ``group`` equal parts of what follows the first axis. ``useRMSNorm`` divides by the
    root mean square and does not subtract the mean. Official files of language models normalise the channels of pixels
    ``[N, C, 1, 1]``, and ``x + more``, which is then the first result.
    """

    keeps_shape = True
    repeats = True
    attributes = {"axis": None, "epsilon": 0.0, "group": 1, "useRMSNorm": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, more = operand(b, inputs, 0), optional(inputs, 3)
        if more is not None:
            x = b.op("add", x, more)
        group, count = self.int_attr(node, "group"), max(len(self.ints_attr(node, "axis")), 1)
        shape, total = x.shape, [] if more is None else [x]
        gamma, beta = (optional(inputs, i) for i in (1, 2))
        if count == 1 and len(shape) == 4 and shape[2:] == (1, 1) and gamma is not None and elements(gamma.shape) > 1:
            x = b.reshape(x, shape[:2])
        if group > 1:
            per = elements(shape[1:])
            if x.rank < 2 or per % group:
                raise ShapeError(f"{b.where}: {list(shape)} cannot be split into {group} groups")
            x, count = b.reshape(x, (shape[0] * group, per // group)), 1
        if count > x.rank:
            raise ShapeError(f"{b.where}: cannot normalise {count} axes of {list(shape)}")
        axes = range(x.rank - count, x.rank)
        x32, epsilon = wide(b, x), self.float_attr(node, "epsilon")
        if self.bool_attr(node, "useRMSNorm"):
            out, inv = root_mean_square(b, x32, axes, epsilon)
            stats = [inv]
        else:
            out, mean, inv = standardize(b, x32, axes, epsilon)
            stats = [mean, inv]
        sizes = x.shape[x.rank - count :]
        out = b.cast(affine(b, out, _trailing(b, gamma, sizes), _trailing(b, beta, sizes)), x.dtype)
        return [*total, b.reshape(out, shape), *self.statistics(stats)]

    def statistics(self, stats: list[Tensor]) -> list[Tensor]:
        return []


@register("LayerNormalization")
class LayerNormalization(LayerNorm):
    """:class:`LayerNorm` that also gives the mean and the inverse of the standard deviation."""

    in_mnn = False

    def statistics(self, stats: list[Tensor]) -> list[Tensor]:
        return stats


@register("GroupNorm")
class GroupNorm(Operator):
    """Normalises ``group`` groups of channels over channels and space; ``x, gamma?, beta?`` per channel; ``bSwish``
    applies ``y * sigmoid(y)`` (Wu & He 2018, arXiv:1803.08494)."""

    keeps_shape = True
    attributes = {"axis": 0, "epsilon": 0.0, "group": 1, "bSwish": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, group = operand(b, inputs, 0), self.int_attr(node, "group")
        if x.rank < 2 or group < 1 or x.shape[1] % group:
            raise ShapeError(f"{b.where}: the channels of {list(x.shape)} cannot be split into {group} groups")
        normal = _standardize_groups(b, wide(b, x), group, self.float_attr(node, "epsilon"))
        gamma, beta = (
            None if t is None else per_channel(b, t, x, "gamma or beta")
            for t in (optional(inputs, 1), optional(inputs, 2))
        )
        out = affine(b, normal, gamma, beta)
        if self.int_attr(node, "bSwish"):
            one = out.dtype
            logistic = b.map(lambda s, a: s("recip", s("add", s("exp", s("neg", a)), s.const(1, one))), out)
            out = b.op("mul", out, logistic)
        return [b.cast(out, x.dtype)]


@register("LRN")
class LRN(Operator):
    """``x * (bias + alpha / size * sum of squares)^-beta``, over ``localSize`` neighbouring channels (``regionType`` 0)
    or a square of that side in space (1)."""

    keeps_shape = True
    attributes = {"regionType": 0, "localSize": 0, "alpha": 0.0, "beta": 0.0, "bias": 1.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, size = operand(b, inputs, 0), self.int_attr(node, "localSize")
        alpha, beta, bias = (self.float_attr(node, k) for k in ("alpha", "beta", "bias"))
        if x.rank < 2 or size < 1:
            raise ShapeError(f"{b.where}: localSize {size} on an input of shape {list(x.shape)}")
        x32 = wide(b, x)
        square = b.op("mul", x32, x32)
        before, after = (size - 1) // 2, size // 2
        if self.int_attr(node, "regionType") == 0:
            # channels as the rows of a one-channel image
            rows = b.pad(b.reshape(square, (x.shape[0], 1, x.shape[1], -1)), (0, 0, before, 0), (0, 0, after, 0))
            total = b.reshape(b.window("sum", rows, (size, 1), (1, 1), (1, 1)), x.shape)
            count = size
        else:
            require_rank(b, x, 4)
            padded = b.pad(square, (0, 0, before, before), (0, 0, after, after))
            total = b.window("sum", padded, (size, size), (1, 1), (1, 1))
            count = size * size

        def body(s: BodyBuilder, a: int, t: int) -> int:
            base = s("add", s("mul", t, s.const(alpha / count, x32.dtype)), s.const(bias, x32.dtype))
            return s("mul", a, s("pow", base, s.const(-beta, x32.dtype)))

        return [b.cast(b.map(body, x32, total), x.dtype)]


@register("Normalize")
class Normalize(Operator):
    """``x / sqrt(sum of squares + eps) * scale`` over the channels, or over channels and space (``acrossSpatial``)."""

    keeps_shape = True
    attributes = {"acrossSpatial": 0, "channelShared": 0, "eps": 0.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, scale = operand(b, inputs, 0), optional(inputs, 1)
        x32 = wide(b, x)
        axes = range(1, x.rank) if self.int_attr(node, "acrossSpatial") else [normalize_axis(1, x.rank, b.where)]
        inv = _inverse_root(b, b.reduce("sum", b.op("mul", x32, x32), axes), self.float_attr(node, "eps"))
        shaped = None if scale is None else per_channel(b, scale, x, "scale")
        return [b.cast(affine(b, b.op("mul", x32, inv), shaped, None), x.dtype)]


@register("LpNormalization")
class LpNormalization(Operator):
    """``x / (sum |x|^p)^(1/p)`` along ``axis`` for p = 1 or 2; 0 where that norm is 0."""

    keeps_shape = True
    in_mnn = False
    attributes = {"axis": -1, "p": 2}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, p = operand(b, inputs, 0), self.int_attr(node, "p")
        axis = normalize_axis(self.int_attr(node, "axis"), x.rank, b.where)
        x32 = wide(b, x)
        if p not in (1, 2):
            raise ShapeError(f"{b.where}: p = {p}, expected 1 or 2")
        norm = b.reduce("sum", b.op("abs", x32) if p == 1 else b.op("mul", x32, x32), [axis])

        def body(s: BodyBuilder, a: int, n: int) -> int:
            root = s("sqrt", n) if p == 2 else n
            zero = s.const(0, x32.dtype)
            return s("select", s("eq", root, zero), zero, s("div", a, root))

        return [b.cast(b.map(body, x32, norm), x.dtype)]


@infer.rule(LayerNormalization)
def _infer_layer_normalization(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    """The result, the mean and the inverse of the deviation of what is normalised together."""
    x, count = infer.operand(node, 0), max(len(infer.ints(node, "axis")), 1)
    known = infer.sizes(x)
    if known is None:
        return [(x.dtype, None)] * 3
    one = (*known[: len(known) - count], *(1,) * count)
    return [(x.dtype, known), (DType.F32, one), (DType.F32, one)]


@symbolic_shape_check.rule(LayerNorm)
def _fits_normalised(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    x, axes = shapes[0], node.attrs.get("axis")
    if x is None or not x or node.attrs.get("group", 1) != 1 or (isinstance(axes, (list, tuple)) and len(axes) > 1):
        return True
    return not any(
        s is not None and len(s) == 1 and s[0] != 1 and symbolic_shape_check.differ(s[0], x[-1]) for s in shapes[1:]
    )
