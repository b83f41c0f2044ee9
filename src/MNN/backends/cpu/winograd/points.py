"""The matrices of Winograd's minimal filtering, by the construction of Toom and Cook, and how to apply them cheaply.

``F(m, r)`` computes ``m`` neighbouring outputs of a filter with ``r`` taps from ``n = m + r - 1`` inputs with ``n``
products: ``y = A^T [(G g) * (B^T d)]`` (Winograd 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks", 2015). The matrices follow from ``n - 1`` points and infinity at which polynomials are evaluated.

The points decide the error (Barabasz, Anderson, Soodhalter, Gregg, "Error analysis and improving the accuracy of
Winograd convolution for deep neural networks", 2020). All points here are 0 and pairs +-p of short fractions: pairs
share half of their arithmetic, and every coefficient of A and B is exact in fp32. For six positions +-3/4 and +-3/2
were found best by trying all pairs of eighths: 0.6 times the error of the usual +-1 and +-2. Odd numbers of positions
do without 0: pairs alone, found alike, have little more error than one position less.

With stride 2 a filter is two filters with stride 1, of its even and of its odd taps, over the even and the odd inputs:
``2m + r - 2`` products where ``m r`` are needed plainly (7 for 9 with ``F(3, 3)``).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Matrix = tuple[tuple[Fraction, ...], ...]

_PAIRS: dict[int, tuple[Fraction, ...]] = {
    3: (Fraction(1),),
    4: (Fraction(1),),
    5: (Fraction(3, 8), Fraction(5, 4)),
    6: (Fraction(3, 4), Fraction(3, 2)),
    7: (Fraction(5, 16), Fraction(7, 8), Fraction(7, 4)),
    8: (Fraction(1, 2), Fraction(1), Fraction(2)),
    9: (Fraction(3, 16), Fraction(11, 16), Fraction(9, 8), Fraction(2)),
    10: (Fraction(3, 8), Fraction(3, 4), Fraction(5, 4), Fraction(9, 4)),
}
"""The positive points of the pairs, by the number of positions (which counts infinity too, and where it is even 0)."""
_WHOLE: dict[int, tuple[Fraction, ...]] = {4: (Fraction(1),), 6: (Fraction(1), Fraction(2))}
"""The same of whole numbers, for products of integers."""


@dataclass(frozen=True)
class Filtering:
    """``F(m, r)``: ``at`` is ``[m][positions]``, ``g`` ``[positions][r]`` and ``bt`` ``[positions][inputs]``.

    ``pairs`` are the positions (i, i + 1) that belong to points +p and -p: the even and the odd coefficients of their
    rows of ``bt`` and ``g`` and of their columns of ``at`` agree up to the sign of the odd ones.
    """

    m: int
    r: int
    at: Matrix
    g: Matrix
    bt: Matrix
    pairs: tuple[int, ...]
    stride: int = 1

    @property
    def positions(self) -> int:
        """Products."""
        return len(self.g)

    @property
    def inputs(self) -> int:
        """Neighbouring inputs that the outputs depend on."""
        return (self.m - 1) * self.stride + self.r

    @functools.cached_property
    def factors(self) -> int:
        """Different rows of ``g``: positions from the last of these on have the same one."""
        last = self.g[-1]
        return next(i for i, row in enumerate(self.g) if row == last) + 1

    def steps(self) -> tuple[tuple[int, ...], ...]:
        """The positions, those of a pair together."""
        out: list[tuple[int, ...]] = []
        for i in range(self.positions):
            if i in self.pairs:
                out.append((i, i + 1))
            elif i - 1 not in self.pairs:
                out.append((i,))
        return tuple(out)


def supported(m: int, r: int, stride: int = 1) -> bool:
    """Whether there are points for ``F(m, r)``; ``F(1, 1)`` is the identity."""
    if (m, r) == (1, 1):
        return stride in (1, 2)
    if stride == 2:
        return m >= 2 and r >= 3 and all(phase == 1 or supported(m, phase) for phase in _phases(r))
    return stride == 1 and m >= 2 and r >= 2 and m + r - 1 in _PAIRS


def _phases(r: int) -> tuple[int, int]:
    """Even and odd taps."""
    return (r + 1) // 2, r // 2


@functools.cache
def filtering(m: int, r: int, stride: int = 1) -> Filtering:
    """The matrices of ``F(m, r)``. Raises ``ValueError`` where :func:`supported` says no."""
    if not supported(m, r, stride):
        raise ValueError(f"no points for F({m}, {r}) with stride {stride}")
    if (m, r) == (1, 1):
        one = ((Fraction(1),),)
        return Filtering(1, 1, one, one, one, (), stride)
    return _minimal(m, r) if stride == 1 else _in_phases(m, r)


@functools.cache
def whole_filtering(m: int, r: int) -> tuple[Filtering, int]:
    """``F(m, r)`` in whole numbers, which gives its results times a factor: this one.

    What is one at infinity is shared between both sides, so that factors of the filter stay small. Raises
    ``ValueError`` where there are no points.
    """
    if m > 1 < r and m + r - 1 not in _WHOLE:
        raise ValueError(f"no whole points for F({m}, {r})")
    if 1 in (m, r):
        return _minimal(m, r), 1
    f = _minimal(m, r, _WHOLE)
    factor = math.lcm(*(x.denominator for row in f.g for x in row))
    most = max(sum(abs(factor * x) for x in row) for row in f.g[:-1])
    last = next(d for d in (1, 2, 4, 8, factor) if factor % d == 0 and factor // d <= most)
    g = (*(tuple(factor * x for x in row) for row in f.g[:-1]), tuple(factor // last * x for x in f.g[-1]))
    at = tuple((*row[:-1], last * row[-1]) for row in f.at)
    return dataclasses.replace(f, at=at, g=g), factor


def _in_phases(m: int, r: int) -> Filtering:
    """With stride 2: the positions of the even taps, then those of the odd ones."""
    inputs, zero = 2 * (m - 1) + r, Fraction(0)
    at: list[list[Fraction]] = [[] for _ in range(m)]
    g: list[tuple[Fraction, ...]] = []
    bt: list[tuple[Fraction, ...]] = []
    pairs: list[int] = []
    for phase, taps in enumerate(_phases(r)):
        f = _minimal(m, taps)
        pairs += [len(g) + i for i in f.pairs]
        for small, rows, size in ((f.g, g, r), (f.bt, bt, inputs)):
            for row in small:
                wide = [zero] * size
                wide[phase::2] = [*row, *[zero] * (len(wide[phase::2]) - len(row))]
                rows.append(tuple(wide))
        for out, row in zip(at, f.at, strict=True):
            out += row
    return Filtering(m, r, tuple(map(tuple, at)), tuple(g), tuple(bt), tuple(pairs), 2)


def _minimal(m: int, r: int, pairs_of: dict[int, tuple[Fraction, ...]] = _PAIRS) -> Filtering:
    """With stride 1; windows of one tap are the identity."""
    if r == 1:
        same = tuple(tuple(Fraction(int(i == j)) for j in range(m)) for i in range(m))
        return Filtering(m, 1, same, ((Fraction(1),),) * m, same, ())
    n = m + r - 1
    points = [Fraction(0)] * (1 - n % 2)
    pairs = tuple(range(len(points), n - 1, 2))
    for p in pairs_of[n]:
        points += [p, -p]
    at = tuple((*(p**i for p in points), Fraction(int(i == m - 1))) for i in range(m))
    g: list[tuple[Fraction, ...]] = []
    bt: list[tuple[Fraction, ...]] = []
    for i, p in enumerate(points):
        others = points[:i] + points[i + 1 :]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        g.append(tuple(p**k / scale for k in range(r)))
        bt.append((*_with_roots(others), Fraction(0)))
    g.append((Fraction(0),) * (r - 1) + (Fraction(1),))
    bt.append(_with_roots(points))
    return Filtering(m, r, at, tuple(g), tuple(bt), pairs)


def _with_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients, constant first, of the monic polynomial with these roots."""
    out = [Fraction(1)]
    for q in roots:
        shifted = [Fraction(0), *out]
        out = [s - q * c for s, c in zip(shifted, [*out, Fraction(0)], strict=True)]
    return tuple(out)


def halves(first: Sequence[Fraction], second: Sequence[Fraction]) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """``even`` and ``odd`` with first = even + odd and second = even - odd."""
    pairs = list(zip(first, second, strict=True))
    return tuple((a + b) / 2 for a, b in pairs), tuple((a - b) / 2 for a, b in pairs)
