"""Weights for inner products (:mod:`MNN.backends.cpu.inner_product.spec`): brought to size, with the sums of products
of their pairs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.inner_product.iteration import HEAD, SIGNS
from MNN.backends.cpu.inner_product.layout import EXPONENT, LARGE, SMALL, TWICE_ONE
from MNN.backends.cpu.lang.module import F32, I32, Kernel, Value
from MNN.backends.cpu.targets.base import Target
from MNN.ir.dtype import DType

_NOTHING = 2.0**-100
"""Sums of squares of columns that count as zeros: what is left of other numbers where transforms cancel them."""
_FULL = 0.75
"""Of the numbers of a column, those that are not zero, where sums may be mixed up."""
_UNEVEN = 8.0
"""Times the mean of its sizes that the root mean square of a column may be: then few numbers are most of it."""
_ONE_SIGN = 1 - 2.0**-10
"""Of the sum of its sizes, what the sum of a column reaches where its numbers have one sign."""


def sizable(matrix: npt.NDArray[np.float32]) -> bool:
    """Whether every column of ``[K, N]`` is all zeros or of a size that a power of two can bring to 1."""
    sizes = np.einsum("kn,kn->n", matrix, matrix)
    fine = (sizes > SMALL) & (sizes < LARGE)
    return bool(fine.all()) or not matrix[:, ~fine].any()


@dataclass(frozen=True)
class InnerProductPackSpec(KernelSpec):
    """Prepares panels of B in place, ``[panels, HEAD + k, nr]`` f32, whose weights (:func:`pack_b`'s) are there.

    Every column is multiplied by a power of two that brings its root mean square to 1 to 2; the inverse is the second
    row of its panel (0 for columns of zeros), and the first is the sum of products of its pairs, every second one
    subtracted. Block ``b`` does vector ``b`` of all panels' columns (``vectors`` a panel).
    """

    shaped: ClassVar[bool] = True

    split: bool = False
    """Whether sums are over even pairs, and there is a third row with those over odd ones, see
    :class:`MNN.backends.cpu.inner_product.iteration.Iteration`."""
    screened: bool = False
    """Whether nobody has looked at the weights, which change: the last row before them is then of whole numbers, other
    than 0 where a column must be multiplied plainly and stays as it is. That is where :func:`sizable` refuses its
    numbers, where many are zeros, all have one sign, or few are most of it, as ``ConstantPool.mixable`` has it."""

    def slots(self) -> tuple[str, ...]:
        return ("b", "k", "vectors")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, lanes = k.b, target.lanes(DType.F32)
        vector, bits = F32.vec(lanes), I32.vec(lanes)
        depth, vectors = k.slot("k"), k.slot("vectors")
        zero, one = b.const(vector, 0), b.const(vector, 1)
        with b.loop(k.begin, k.end) as block:
            panel = b.udiv(block.index, vectors)
            row = vectors * lanes
            rows = HEAD + self.split + self.screened
            start = panel * (depth + rows) * row + (block.index - panel * vectors) * lanes
            head = b.gep(k.pointer("b"), F32, start)
            first = b.gep(head, F32, row * rows)
            with b.loop(0, depth, carry=[zero] * (4 if self.screened else 1)) as line:
                x = b.load(vector, b.gep(first, F32, row * line.index))
                more = []
                if self.screened:
                    count = b.select(b.fcmp("une", x, zero), one, zero)
                    parts = b.intrinsic("fabs", x), x, count
                    more = [b.add(total, part) for total, part in zip(line.carried[1:], parts, strict=True)]
                line.next(b.fma(x, x, line.carried[0]), *more)
            size = line.results[0]
            none = b.fcmp("olt", size, b.const(vector, _NOTHING))
            plain = None
            if self.screened:
                none = b.fcmp("oeq", line.results[1], zero)
                plain = b.not_(b.or_(none, self._mixable(k, *line.results)))
                b.store(b.convert("zext", plain, bits), b.gep(head, F32, row * (rows - 1)))
            mean = b.fdiv(b.splat(b.convert("sitofp", depth, F32), lanes), b.select(none, one, size))
            found = b.and_(b.bitcast(b.intrinsic("sqrt", mean), bits), EXPONENT)
            factor = b.select(none, one, b.bitcast(found, vector))
            inverse = b.select(none, zero, b.bitcast(b.sub(b.const(bits, TWICE_ONE), found), vector))
            if plain is not None:
                factor, inverse = b.select(plain, one, factor), b.select(plain, one, inverse)
            signs = SIGNS[self.split]
            with b.loop(0, depth, 2 * len(signs), carry=[zero] * (1 + self.split)) as iteration:
                totals = list(iteration.carried)
                for pair, sign in enumerate(signs):
                    places = [b.gep(first, F32, row * (iteration.index + 2 * pair + v)) for v in (0, 1)]
                    x, y = (b.mul(b.load(vector, place), factor) for place in places)
                    b.store(x, places[0])
                    b.store(y, places[1])
                    i = pair % len(totals)
                    totals[i] = b.fma(x, y, totals[i]) if sign > 0 else b.sub(totals[i], b.mul(x, y))
                iteration.next(*totals)
            for i, total in enumerate(iteration.results):
                b.store(total, b.gep(head, F32, row * (2 * i)))
            b.store(inverse, b.gep(head, F32, row))
        return k.finish()

    def _mixable(self, k: Kernel, squares: Value, sizes: Value, total: Value, count: Value) -> Value:
        """Which columns may be added to other numbers before they are multiplied."""
        b, vector = k.b, squares.type
        depth = b.splat(b.convert("sitofp", k.slot("k"), F32), vector.lanes)
        least = b.mul(b.mul(sizes, sizes), b.const(vector, _UNEVEN**2))
        tests = (
            b.fcmp("ogt", squares, b.const(vector, SMALL)),
            b.fcmp("olt", squares, b.const(vector, LARGE)),
            b.fcmp("oge", count, b.mul(depth, b.const(vector, _FULL))),
            b.fcmp("olt", b.intrinsic("fabs", total), b.mul(sizes, b.const(vector, _ONE_SIGN))),
            b.fcmp("oge", least, b.mul(squares, depth)),
        )
        return functools.reduce(b.and_, tests)
