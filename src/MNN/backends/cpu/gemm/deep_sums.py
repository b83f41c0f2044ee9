"""Long sums in parts, one command each, so that a panel of B stays in the second-level cache for all rows of A.

A panel of a right side with thousands of rows is larger than that cache, and is read from beyond it for every few rows
of A. Parts of the sum have panels that fit; what is found so far lies in memory between them, as an operand of the
epilogue that the next part adds. (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008,
block the sums likewise.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.products.emit_epilogue import Epilogue
from MNN.backends.cpu.products.operand_access import OperandAccess
from MNN.backends.cpu.products.product import Product
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder, body_of

_SHARE = 4
"""Which share of the second-level cache a panel of B may take."""
_WORTH = 1.5
"""How many times deeper than that sums are before they are cut."""


@dataclass(frozen=True)
class Part:
    """A part of a product's sums: its taps, values of each, rows of B in front of it, and what becomes of its sums."""

    taps: np.ndarray
    k: int
    lines: int
    c: OperandAccess
    epilogue: Epilogue


def whole(product: Product) -> Part:
    """All of the sums at once."""
    return Part(product.taps, product.k, 0, product.c, product.epilogue)


def parts(e: Emitter, product: Product, nr: int, group: int = 1) -> list[Part]:
    """The parts of sums in f32 with panels of ``nr`` columns, ``group`` neighbours being summed at once; all sizes are
    known."""
    steps = product.taps.size * -(-product.k // group)
    most = e.target.l2_bytes // _SHARE // (nr * DType.F32.size)
    if steps <= _WORTH * most:
        return [whole(product)]
    cuts = _cut(product.taps, product.k, -(-steps // most), group)
    last = len(cuts) - 1
    between = _between(e, product)
    adding = ("mn", between)
    found = []
    for number, (taps, k, lines) in enumerate(cuts):
        if number == last:
            epilogue = Epilogue(_behind(product), [adding, *product.epilogue.operands])
        elif number:
            epilogue = Epilogue(body_of([DType.F32, DType.F32], lambda b, x, y: b("add", x, y)), [adding])
        else:
            epilogue = Epilogue()
        found.append(Part(taps, k, lines, product.c if number == last else between, epilogue))
    return found


def _cut(taps: np.ndarray, k: int, count: int, group: int) -> list[tuple[np.ndarray, int, int]]:
    """Taps, values of each and rows of B (of groups) before them, of ``count`` or more parts: of several taps, or of
    one."""
    lines = -(-k // group)
    if taps.size >= count:
        shares = np.array_split(taps, count)
        starts = np.cumsum([0, *(len(s) for s in shares)])
        return [(share, k, int(start) * lines) for share, start in zip(shares, starts, strict=False)]
    pieces = np.array_split(np.arange(lines), -(-count // taps.size))
    return [
        (
            taps[i : i + 1] + group * int(piece[0]),
            min(group * len(piece), k - group * int(piece[0])),
            i * lines + int(piece[0]),
        )
        for i in range(taps.size)
        for piece in pieces
    ]


def _between(e: Emitter, product: Product) -> OperandAccess:
    """Memory for what is found so far, each product's rows one after another."""
    m, n, batches = product.m, product.n, product.batches
    place = e.allocate(DType.F32, (batches, m, n), (0, 1, 2))
    return OperandAccess(place, DType.F32, e.grid((m,), (n,)), e.grid((batches,), (m * n,)))


def _behind(product: Product) -> Body:
    """The product's epilogue behind the sum of the last part and what was found before."""
    body, out = product.epilogue.body, product.c.dtype
    b = BodyBuilder()
    total = b("add", b.arg(DType.F32), b.arg(DType.F32))
    if body is None:
        return b.build(b.cast(total, out))
    return b.build(*b.inline(body, [total, *(b.arg(dtype) for dtype in body.args[1:])]))


__all__ = ["Part", "parts", "whole"]
