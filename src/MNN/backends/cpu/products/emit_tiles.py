"""Register tiles of products as candidates: only while tuning, and where tuning has found a better one."""

from __future__ import annotations

import re
from collections.abc import Callable

from MNN.backends.base.candidates import Candidate
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.products.register_tiles import best_tiles, choose_tile, tiles
from MNN.backends.cpu.targets.base import Target
from MNN.compiler.bodies import WIDE
from MNN.ir.dtype import DType

Tile = tuple[int, int]
_TRIED = 5
"""How many other tiles are measured: the best ones by the cost model."""
_BEHIND = 1e-6
"""By so much tiles are said to be slower than the chosen one: only a measurement prefers them."""


def sums_of(dtype: DType) -> DType:
    """What products of ``dtype`` are summed in."""
    return DType.I32 if dtype in (DType.I8, DType.U8, DType.I16) else WIDE.get(dtype, dtype)


def with_tiles(
    e: Emitter, signature: str, name: str, size: tuple[int, int, int, DType], estimate: Callable[[], float],
    emit: Callable[[Tile | None], None], target: Target, settled: str = "",
) -> list[Candidate]:  # fmt: skip
    """The candidate ``name`` with the tile that the cost model chooses, and those with others, called ``name 6x4``.

    ``size``: rows, columns, steps of the sums, and the type that they are in. ``emit`` takes a tile, None: the usual.
    ``target``: with vectors as wide as the product takes them.
    Where ``name`` is ``settled``, nothing is estimated.
    """
    m, n, steps, acc = size
    if settled == name:
        return [Candidate(name, 0.0, lambda: emit(None))]
    cycles = estimate()
    found = [Candidate(name, cycles, lambda: emit(None))]
    usual = choose_tile(target, m, n, steps, acc, e.threads)
    if e.options.tuning:
        others = [t for t in best_tiles(target, m, n, steps, acc, e.threads)[: _TRIED + 1] if t != usual]
    else:
        known = re.fullmatch(re.escape(name) + r" (\d+)x(\d+)", e.options.tuned.get(signature, ""))
        tile = (int(known[1]), int(known[2])) if known else usual
        others = [tile] if tile != usual and tile in tiles(target, m) else []
    for order, (mr, nv) in enumerate(others, 1):
        found.append(Candidate(f"{name} {mr}x{nv}", cycles * (1 + order * _BEHIND), lambda t=(mr, nv): emit(t)))  # type: ignore[misc]
    return found
