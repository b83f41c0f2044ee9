"""Winograd's transforms of one tile as arithmetic on vectors: each lane is another channel.

A two-dimensional transform is one along the columns' direction followed by one along the rows'. Rows of B^T that
belong to a pair of points share their even and odd halves, and so do columns of A^T. To keep few vectors alive, the
transform of the input produces one such step of rows after the other and loads what each needs again, which costs less
than spilling the whole tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from MNN.backends.cpu.lang.module import Builder, Value
from MNN.backends.cpu.winograd.points import Filtering, halves

Row = Sequence[Fraction]


def dot(b: Builder, row: Row, values: Callable[[int], Value]) -> tuple[Value, Fraction]:
    """``sum_j row[j] * values(j) / s`` and ``s``, the last coefficient, chosen so that one product is saved."""
    used = [j for j, c in enumerate(row) if c != 0]
    scale = row[used[-1]]
    total = values(used[-1])
    for j in reversed(used[:-1]):
        total = add_scaled(b, total, row[j] / scale, values(j))
    return total, scale


def add_scaled(b: Builder, total: Value, factor: Fraction, x: Value) -> Value:
    """``total + factor * x``."""
    if factor == 1:
        return b.add(total, x)
    if factor == -1:
        return b.sub(total, x)
    if x.type.kind == "i":
        return b.sub(total, scaled(b, -factor, x)) if factor < 0 else b.add(total, scaled(b, factor, x))
    return b.fma(x, float(factor), total)


def scaled(b: Builder, factor: Fraction, x: Value) -> Value:
    if factor == 1:
        return x
    if x.type.kind != "i":
        return b.mul(x, float(factor))
    assert factor.denominator == 1
    return _times(b, int(factor), x)


def _times(b: Builder, factor: int, x: Value) -> Value:
    """``factor * x`` of integers: by shifts where that is one or two instructions, which products are slower than."""
    size = abs(factor)
    low = size & -size
    if size & (size - 1) == 0:
        found = b.shl(x, low.bit_length() - 1) if low > 1 else x
        return b.sub(b.const(x.type, 0), found) if factor < 0 else found
    if low == 1 and (size - 1) & (size - 2) == 0 and factor > 0:
        return b.add(b.shl(x, (size - 1).bit_length() - 1), x)
    return b.mul(x, factor)


def step_of_rows(b: Builder, rows: Sequence[Row], values: Callable[[int], Value]) -> list[Value]:
    """The products of one row, or of the two rows of a pair, with ``values``."""
    if len(rows) == 1:
        total, scale = dot(b, rows[0], values)
        return [scaled(b, scale, total)]
    even, odd = halves(rows[0], rows[1])
    e, e_scale = dot(b, even, values)
    o, o_scale = dot(b, odd, values)
    e = scaled(b, e_scale, e)
    return [add_scaled(b, e, o_scale, o), add_scaled(b, e, -o_scale, o)]


def few_products(b: Builder, rows: Sequence[Row], values: Callable[[int], Value]) -> list[Value]:
    """As :func:`step_of_rows`, with the fewest multiplications instead of the fewest instructions: a pair's halves are
    added and subtracted, which processors do beside them."""

    def sum_of(row: Row) -> Value:
        first, *others = sorted((j for j, c in enumerate(row) if c != 0), key=lambda j: row[j] != 1)
        total = scaled(b, row[first], values(first))
        for j in others:
            total = add_scaled(b, total, row[j], values(j))
        return total

    if len(rows) == 1:
        return [sum_of(rows[0])]
    even, odd = (sum_of(half) for half in halves(rows[0], rows[1]))
    return [b.add(even, odd), b.sub(even, odd)]


def all_rows(b: Builder, matrix: Sequence[Row], f: Filtering, values: Sequence[Value]) -> list[Value]:
    """The product of ``B^T`` or ``G`` (rows in the order of the positions) with ``values``."""
    out: list[Value] = []
    for step in f.steps():
        out += step_of_rows(b, [matrix[i] for i in step], values.__getitem__)
    return out


def outputs(b: Builder, f: Filtering, values: Sequence[Value], parity: int | None = None) -> list[Value]:
    """``A^T values``; with ``parity`` only its even or odd rows."""
    terms: dict[int, list[tuple[int, Value]]] = {0: [], 1: []}  # (position, its value or the pair's sum or difference)
    for step in f.steps():
        first = values[step[0]]
        for half in (0, 1):
            if parity is not None and parity != half:
                continue
            if len(step) == 2:
                second = values[step[1]]
                terms[half].append((step[0], b.sub(first, second) if half else b.add(first, second)))
            elif any(f.at[i][step[0]] for i in range(half, f.m, 2)):
                terms[half].append((step[0], first))
    out: list[Value] = []
    for i in range(f.m):
        if parity is not None and i % 2 != parity:
            continue
        used = [(f.at[i][p], v) for p, v in terms[i % 2] if f.at[i][p]]
        used.sort(key=lambda t: t[0] != 1)  # start from one that needs no product
        total = scaled(b, used[0][0], used[0][1])
        for factor, value in used[1:]:
            total = add_scaled(b, total, factor, value)
        out.append(total)
    return out


def operations(f_h: Filtering, f_w: Filtering) -> tuple[int, int]:
    """Vector operations of the input's and of the output's transform of a tile, roughly, for cost models."""

    def rows(f: Filtering) -> int:
        if f.positions == 1:
            return 0
        total = 0
        for step in f.steps():
            parts = [f.bt[step[0]]] if len(step) == 1 else halves(f.bt[step[0]], f.bt[step[1]])
            total += sum(sum(c != 0 for c in part) - 1 for part in parts) + 2 * (len(step) == 2)
        return total

    def columns(f: Filtering) -> int:
        if f.positions == 1:
            return 0
        alone = f.m if f.stride > 1 else 2  # outputs that a position of no pair is added to
        return 2 * len(f.pairs) + f.m * len(f.pairs) + alone + (f.stride > 1)

    into = rows(f_h) * f_w.inputs + rows(f_w) * f_h.positions
    out = columns(f_h) * f_w.positions + columns(f_w) * f_h.m
    return into, out
