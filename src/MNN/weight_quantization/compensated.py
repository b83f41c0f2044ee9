"""Quantisation of a matrix for what it is multiplied by: what rounding one column changes, later columns undo.

Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (2022,
arXiv:2210.17323): columns are rounded one after the other, and each error is spread over the columns that are not
rounded yet so that the results change least (Hassibi and Stork's optimal brain surgeon), by the inverse of the inputs'
second moments, taken from its Cholesky factor. The scale of a block is found when its first column's turn comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.ir.quant import QuantizedArray

Array = np.ndarray[Any, np.dtype[Any]]
_AT_ONCE = 128
"""Columns whose errors are put off and then given to all later ones in one product."""
_DAMPING = 0.01
"""Share of the mean second moment that is added to each, as in the paper: inputs that were hardly seen count, too."""
_SHRINK = np.linspace(1.0, 0.6, 9, dtype=np.float32)
"""By what the range of a block is narrowed in turn: an outlier that is cut off can cost less than coarse steps."""


def quantize_compensated(
    weight: Array, moments: Array, bits: int, block: int, symmetric: bool = False
) -> QuantizedArray:
    """A matrix f32 ``[rows, cols]`` in blocks of ``block`` neighbours of a row that share a scale and, unless
    ``symmetric``, an offset.

    ``moments``: the sum of ``x x^T`` over the inputs ``x`` that the matrix is multiplied by, ``[cols, cols]``.
    """
    rows, cols = weight.shape
    spread = _spread(moments)
    seen = np.maximum(np.diagonal(moments), 0).astype(np.float32)
    left = np.ascontiguousarray(weight.T, np.float32)  # a column's numbers lie side by side
    values = np.empty((cols, rows), np.int8)
    scale = np.empty((cols // block, rows), np.float32)
    low = np.empty_like(scale)
    for number, first in enumerate(range(0, cols, block)):
        last = first + block
        low[number], scale[number] = _range(left[first:last], seen[first:last], bits, symmetric)
        for begin in range(first, last, _AT_ONCE):
            end = min(begin + _AT_ONCE, last)
            errors = _rounded(left, values, begin, end, low[number], scale[number], bits, spread)
            left[end:] -= spread[begin:end, end:].T @ errors
    half = np.float32(1 << (bits - 1))
    offset = None if symmetric else np.ascontiguousarray((low + half * scale).T)
    return QuantizedArray.of(np.ascontiguousarray(values.T), np.ascontiguousarray(scale.T), offset, bits, (rows, cols))


def _spread(moments: Array) -> Array:
    """The upper Cholesky factor of the inverse of the damped moments, f32: its rows say how errors are given on."""
    damped = np.array(moments, np.float64)
    places = np.arange(len(damped))
    dead = damped[places, places] <= 0
    damped[places[dead], places[dead]] = 1.0
    damped[places, places] += _DAMPING * damped[places, places].mean()
    lower = np.linalg.cholesky(damped[::-1, ::-1])  # of the reversed order: its inverse, reversed, is the factor
    return np.ascontiguousarray(_inverse(lower)[::-1, ::-1], np.float32)


def _inverse(lower: Array) -> Array:
    """The inverse of a lower triangular matrix, by halves: products do most of the work."""
    size = len(lower)
    if size <= _AT_ONCE:
        small: Array = np.tril(np.linalg.inv(lower))
        return small
    half = size // 2
    first, last = _inverse(lower[:half, :half]), _inverse(lower[half:, half:])
    found = np.zeros_like(lower)
    found[:half, :half], found[half:, half:] = first, last
    found[half:, :half] = -(last @ lower[half:, :half]) @ first
    return found


def _range(block: Array, seen: Array, bits: int, symmetric: bool) -> tuple[Array, Array]:
    """Where the integers of each row's block begin and how large their steps are, ``[rows]`` each, for numbers
    ``[columns, rows]`` whose errors count as ``seen`` ``[columns]`` says."""
    levels, half = (1 << bits) - 1, 1 << (bits - 1)
    largest, least = block.max(0), block.min(0)
    if symmetric:
        largest = np.maximum(np.abs(largest), np.abs(least))
    best = np.full(block.shape[1], np.inf, np.float32)
    low, scale = np.zeros_like(best), np.zeros_like(best)
    for shrink in _SHRINK:
        if symmetric:
            step = largest * (shrink / np.float32(half - 1))
            first = -half * step
        else:
            step = (largest - least) * (shrink / np.float32(levels))
            first = least * shrink
        known = np.where(step > 0, step, np.float32(1))
        error = block - (np.clip(np.rint((block - first) / known), 0, levels) * step + first)
        cost = seen @ np.square(error)
        better = cost < best
        best[better], low[better], scale[better] = cost[better], first[better], step[better]
    return low, scale


def _rounded(
    left: Array, values: Array, begin: int, end: int, low: Array, scale: Array, bits: int, spread: Array
) -> Array:
    """Rounds columns ``begin`` to ``end`` of what is ``left`` into ``values``, and gives their errors ``[columns,
    rows]`` for the columns behind ``end``."""
    known = np.where(scale > 0, scale, np.float32(1))
    levels, half = np.float32((1 << bits) - 1), np.float32(1 << (bits - 1))
    errors = np.empty((end - begin, left.shape[1]), np.float32)
    for i in range(begin, end):
        codes = np.clip(np.rint((left[i] - low) / known), 0, levels)
        values[i] = codes - half
        error = errors[i - begin]
        np.divide(left[i] - (codes * scale + low), spread[i, i], out=error)
        left[i + 1 : end] -= np.multiply.outer(spread[i, i + 1 : end], error)
    return errors


__all__ = ["quantize_compensated"]
