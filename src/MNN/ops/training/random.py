"""Random numbers, made by numpy's Philox generator: with a seed every run gives the same ones, without it none do.

Philox: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.arranging.creating import checked_shape
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand, wide
from MNN.ops.inference import infer

Draw = Callable[["np.random.Generator", Sequence[np.ndarray]], np.ndarray]  # named only: to import it takes 10 ms


class _Random(Operator):
    attributes = {"seed": 0, "seed2": 0, "type": "DT_FLOAT", "low": 0.0, "high": 1.0}
    draws = True

    def draw(
        self, b: Builder, node: Node, shape: Sequence[int], type_name: str, draw: Draw, *operands: Tensor
    ) -> Tensor:
        """A host primitive that draws; seeds of 0 mean fresh entropy for every run."""
        dtype = from_data_type(type_name, b.where)
        seeds = [self.int_attr(node, "seed") & 0xFFFFFFFF, self.int_attr(node, "seed2") & 0xFFFFFFFF]

        def fn(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            generator = np.random.Generator(np.random.Philox(seeds if any(seeds) else None))
            return [np.asarray(draw(generator, arrays)).astype(dtype.numpy)]

        return b.host(f"{self.name} {seeds}", fn, operands, (dtype, tuple(shape)), pure=any(seeds))[0]


@register("RandomUniform")
class RandomUniform(_Random):
    """Numbers between ``low`` and ``high`` in the shape given by the operand."""

    sizes_from = 0

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        shape = checked_shape(b, b.ints(operand(b, inputs, 0), "the shape"))
        low, high = self.float_attr(node, "low"), self.float_attr(node, "high")
        if not 0 <= high - low < float("inf"):
            raise ShapeError(f"{b.where}: numbers cannot be drawn between {low} and {high}")
        return [self.draw(b, node, shape, self.str_attr(node, "type"), lambda g, _: g.uniform(low, high, shape))]


@register("RandomNormal")
class RandomNormal(_Random):
    """Normally distributed numbers of mean ``low`` and deviation ``high`` in the shape given by the operand."""

    sizes_from = 0

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        shape = checked_shape(b, b.ints(operand(b, inputs, 0), "the shape"))
        mean, deviation = self.float_attr(node, "low"), self.float_attr(node, "high")
        if not (math.isfinite(mean) and 0 <= deviation < math.inf):
            raise ShapeError(f"{b.where}: mean {mean} and deviation {deviation} are no normal distribution")
        return [self.draw(b, node, shape, self.str_attr(node, "type"), lambda g, _: g.normal(mean, deviation, shape))]


@register("Bernoulli")
class Bernoulli(_Random):
    """1 with the probability in the operand, else 0; ``type`` DT_INVALID means the operand's dtype."""

    in_mnn = False
    attributes = {"seed": 0, "seed2": 0, "type": "DT_INVALID"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        name = self.str_attr(node, "type")
        drawn = self.draw(b, node, x.shape, "DT_BOOL", lambda g, a: g.random(x.shape) < a[0], wide(b, x))
        return [b.cast(drawn, x.dtype if name == "DT_INVALID" else from_data_type(name, b.where))]


@register("Multinomial")
class Multinomial(_Random):
    """``count`` class numbers per row of unnormalised log probabilities ``[rows, classes]``."""

    in_mnn = False
    attributes = {"seed": 0, "seed2": 0, "type": "DT_INT32", "count": 1}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, count = operand(b, inputs, 0), self.int_attr(node, "count")
        if x.rank != 2 or not x.shape[1] or count < 1:
            raise ShapeError(f"{b.where}: cannot draw {count} classes from {list(x.shape)}")

        def draw(generator: np.random.Generator, arrays: Sequence[np.ndarray]) -> np.ndarray:
            weights = np.exp(arrays[0].astype(np.float64) - arrays[0].max(axis=1, keepdims=True))
            edges = np.cumsum(weights, axis=1)
            points = generator.random((x.shape[0], count)) * edges[:, -1:]
            return np.stack([np.searchsorted(e, q, side="right") for e, q in zip(edges, points, strict=True)])

        return [self.draw(b, node, (x.shape[0], count), self.str_attr(node, "type"), draw, wide(b, x))]


@infer.rule(RandomUniform, RandomNormal)
def _infer_random(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    dims = h.ints(node.inputs[0])
    return [(from_data_type(str(node.attrs.get("type", "DT_FLOAT"))), None if dims is None else tuple(dims))]
