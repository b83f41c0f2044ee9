"""Fits the polynomials of MNN.backends.cpu.math.coefficients: minimax in relative error of the function they serve.

Run `python tools/fit_polynomials.py > src/MNN/backends/cpu/math/coefficients.py` (needs mpmath), with the argument
`pieces` for `vecmath_pieces.py`, with `tail` for `vecmath_tail.py`. The method is the discrete Remez exchange (Cheney,
Introduction to Approximation Theory, 1966) on a Chebyshev grid in 40-digit arithmetic."""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpmath as mp
import numpy as np

mp.mp.dps = 40
Real = Callable[[mp.mpf], mp.mpf]


def remez(
    target: Real, weight: Real, low: float, high: float, degree: int, points: int = 500
) -> tuple[list[mp.mpf], float]:
    """Coefficients (constant first) of P minimising max |weight * (target - P)| on [low, high], and that maximum."""
    a, b = mp.mpf(low), mp.mpf(high)
    grid = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * points)) for k in range(points)]
    ys, ws = [target(x) for x in grid], [weight(x) for x in grid]
    n = degree + 2
    chosen = [round((points - 1) * (1 - np.cos(np.pi * k / (n - 1))) / 2) for k in range(n)]
    coefficients: list[mp.mpf] = []
    for _ in range(12):
        system, right = mp.matrix(n, n), mp.matrix(n, 1)
        for row, k in enumerate(chosen):
            for d in range(degree + 1):
                system[row, d] = grid[k] ** d
            system[row, degree + 1] = (-1) ** row / ws[k]
            right[row] = ys[k]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[d] for d in range(degree + 1)]
        errors = [w * (y - mp.polyval(coefficients[::-1], x)) for x, y, w in zip(grid, ys, ws, strict=True)]
        peaks: list[int] = []
        for k, e in enumerate(errors):  # one largest error per run of equal sign
            if peaks and (errors[peaks[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[peaks[-1]]):
                    peaks[-1] = k
            else:
                peaks.append(k)
        while len(peaks) > n:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < n or peaks == chosen:
            break
        chosen = peaks
    return coefficients, float(max(abs(e) for e in errors))


def _series(f: Real, at_zero: float) -> Real:
    return lambda x: f(x) if abs(x) > mp.mpf("1e-18") else mp.mpf(at_zero)


def erf_tail(a: mp.mpf) -> mp.mpf:
    return -mp.log(mp.erfc(a))


HALF_LN2 = float(mp.log(2) / 2) * 1.002
ROOT2 = float(mp.sqrt(2))
# name: (target, weight, low, high, degree for f32, degree for f64)
FITS: dict[str, tuple[Real, Real, float, float, int, int]] = {
    # e^r = 1 + r + r^2 P(r); also e^r - 1
    "exp": (_series(lambda r: (mp.expm1(r) - r) / r**2, 0.5), lambda r: r**2 / mp.exp(r), -HALF_LN2, HALF_LN2, 4, 10),
    # 2^r = 1 + r P(r)
    "exp2": (_series(lambda r: (2**r - 1) / r, float(mp.log(2))), lambda r: r / 2**r, -0.501, 0.501, 5, 11),
    # log(1 + f) = f - f^2/2 + f^3 P(f)
    "log": (
        _series(lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, 1 / 3),
        lambda f: f**3 / mp.log1p(f),
        ROOT2 / 2 - 1,
        ROOT2 - 1,
        7,
        19,
    ),
    # log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2)
    "atanh": (
        _series(lambda z: 2 * (mp.atanh(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, 2 / 3),
        lambda z: mp.sqrt(z) ** 3 / mp.atanh(mp.sqrt(z)),
        1e-30,
        0.0296,
        2,
        7,
    ),
    # erf(x) = x + x P(x^2)
    "erf": (
        _series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / float(mp.sqrt(mp.pi)) - 1),
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)),
        1e-30,
        1.0,
        6,
        12,
    ),
    # sin(r) = r + r^3 P(r^2), cos(r) = 1 - r^2/2 + r^4 P(r^2)
    "sin": (
        _series(lambda z: (mp.sin(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, -1 / 6),
        lambda z: mp.sqrt(z) ** 3 / mp.sin(mp.sqrt(z)),
        1e-30,
        0.63,
        2,
        5,
    ),
    "cos": (
        _series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 1 / 24),
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
        1e-30,
        0.63,
        2,
        5,
    ),
    # asin(x) = x + x^3 P(x^2)
    "asin": (
        _series(lambda z: (mp.asin(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, 1 / 6),
        lambda z: mp.sqrt(z) ** 3 / mp.asin(mp.sqrt(z)),
        1e-30,
        0.25,
        4,
        12,
    ),
    # atan(x) = x + x^3 P(x^2)
    "atan": (
        _series(lambda z: (mp.atan(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, -1 / 3),
        lambda z: mp.sqrt(z) ** 3 / mp.atan(mp.sqrt(z)),
        1e-30,
        0.1718,
        4,
        11,
    ),
    # sinh(x) = x + x^3 P(x^2)
    "sinh": (
        _series(lambda z: (mp.sinh(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, 1 / 6),
        lambda z: mp.sqrt(z) ** 3 / mp.sinh(mp.sqrt(z)),
        1e-30,
        1.0,
        3,
        6,
    ),
}
# erf(a) = 1 - exp(-a P(a)) beyond 1; up to where erf rounds to 1
TAILS = {"f32": (0.95, 3.95, 6), "f64": (0.95, 6.0, 18)}


PIECE, WIDE_PIECE = mp.mpf(1) / 4, mp.mpf(17) / 32
"""Of 16 pieces, and of 8 (which then reach beyond where erf rounds to 1)."""


def erf_piece(middle: mp.mpf, low: mp.mpf, high: mp.mpf, degree: int) -> tuple[list[mp.mpf], float]:
    """erf on [low, high] in the distance from ``middle``; around 0 what is to be added to the distance, from 0 on."""
    if middle == 0:
        series = _series(lambda d: mp.erf(d) / d - 1, 2 / float(mp.sqrt(mp.pi)) - 1)
        c, error = remez(series, _series(lambda d: d / mp.erf(d), 1.0), 1e-20, float(high), degree - 1)
        return [mp.mpf(0), *c], error
    function, weight = (lambda d: mp.erf(middle + d)), (lambda d: 1 / mp.erf(middle + d))
    return remez(function, weight, float(low - middle), float(high - middle), degree)


def pieces() -> None:
    """The tables of MNN.backends.cpu.math.erf_polynomials."""
    print(PIECES_HEADER)
    quarters = [erf_piece(i * PIECE, i * PIECE, (i + 1) * PIECE, 5) for i in range(16)]
    wide = [erf_piece(i * WIDE_PIECE, (i - 0.5) * WIDE_PIECE, (i + 0.5) * WIDE_PIECE, 6) for i in range(8)]
    show_pieces({"ERF": quarters, "ERF_WIDE": wide}, "relative error")


def tail_piece(number: int, pieces: int, degree: int) -> tuple[list[mp.mpf], float]:
    """The normal distribution's tail in one of ``pieces``, in the distance from its middle; the last one ends in 0."""
    width = TAIL_END / (pieces - mp.mpf(0.5))
    middle, end = number * width, mp.erfc(TAIL_END / ROOT2) / 2

    def target(d: mp.mpf) -> mp.mpf:
        lost = end * (d / width + mp.mpf(0.5)) ** 2 if number == pieces - 1 else 0
        return mp.erfc((middle + d) / ROOT2) / 2 - lost

    low = mp.mpf(0) if number == 0 else -width / 2
    return remez(target, lambda d: 1 / (abs(target(d)) + mp.mpf("1e-4")), float(low), float(width / 2), degree)


def tail() -> None:
    """The tables of MNN.backends.cpu.math.normal_tail."""
    print(TAIL_HEADER)
    fits = {f"TAIL_{n}": [tail_piece(i, n, degree) for i in range(n)] for n, degree in ((8, 6), (16, 5))}
    show_pieces(fits, "error relative to 1e-4 more than the function")


def show_pieces(tables: dict[str, list[tuple[list[mp.mpf], float]]], what: str) -> None:
    for name, fits in tables.items():
        print(f"# largest {what} {max(e for _, e in fits):.1e}\n{name}: tuple[tuple[float, ...], ...] = (")
        for powers in zip(*(c for c, _ in fits), strict=True):
            print("    (")
            for i in range(0, len(fits), 4):
                print("        " + ", ".join(number(c, "f32") for c in powers[i : i + 4]) + ",")
            print("    ),")
        print(")")


def number(c: mp.mpf, kind: str) -> str:
    return repr(float(np.float32(float(c)))) if kind == "f32" else repr(float(c))


HEADER = '''"""Coefficients of the minimax polynomials in MNN.backends.cpu.math.functions, constant term first.

Made by tools/fit_polynomials.py, which says what each one approximates.
"""

# fmt: off
from __future__ import annotations

Table = dict[str, tuple[float, ...]]
'''


PIECES_HEADER = '''"""erf in pieces, one polynomial each: for every power, all coefficients.

Made by tools/fit_polynomials.py. ``ERF``: 16 pieces of a quarter from 0 on; the polynomials are in the distance from a
piece's left end. ``ERF_WIDE``: 8 pieces of 17/32, the first one around 0; in the distance from a piece's middle. They
give erf, on the first piece erf less that distance.
"""

# fmt: off
from __future__ import annotations

WIDTH = 17 / 32
"""Of the pieces of ``ERF_WIDE``."""
'''


TAIL_END = mp.mpf(45) / 8
TAIL_HEADER = '''"""The normal distribution's tail, erfc(a / sqrt(2)) / 2, in pieces: for every power, all coefficients.

Made by tools/fit_polynomials.py. The polynomials are in the distance from a piece's middle, the first one's is 0. At
``END`` they end in 0.
"""

# fmt: off
from __future__ import annotations

END = 45 / 8
'''


def show(name: str, c: list[mp.mpf], error: float, kind: str) -> None:
    print(f"    # largest relative error {error:.1e}")
    print(f'    "{name}": (')
    for x in c:
        print(f"        {number(x, kind)},")
    print("    ),")
    print(kind, name, f"{error:.2e} = {error * 2 ** (24 if kind == 'f32' else 53):.3f} ulp", file=sys.stderr)


def main() -> None:
    print(HEADER)
    for kind in ("f32", "f64"):
        print(f"{kind.upper()}: Table = {{")
        for name, (target, weight, low, high, d32, d64) in FITS.items():
            c, error = remez(target, weight, low, high, d32 if kind == "f32" else d64)
            show(name, c, error, kind)
        low, high, degree = TAILS[kind]
        c, error = remez(lambda a: erf_tail(a) / a, lambda a: a * mp.erfc(a) / mp.erf(a), low, high, degree)
        show("erf_tail", c, error, kind)
        print("}")
    mp.mp.prec = 1400
    digits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * 19)))
    print("# 64 zeros, then the binary digits of 2/pi, 64 a word")
    print("TWO_OVER_PI = (\n    0x0,")
    for k in reversed(range(19)):
        print(f"    {digits >> 64 * k & (1 << 64) - 1:#018x},")
    print(")")


if __name__ == "__main__":
    {"pieces": pieces, "tail": tail}.get(" ".join(sys.argv[1:]), main)()
