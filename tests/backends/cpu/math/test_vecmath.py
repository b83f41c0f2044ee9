"""Errors of the vector functions in ulp, on random and special numbers, at several widths, on every target here."""

from __future__ import annotations

import ctypes
import dataclasses
import math

import numpy as np
import pytest

from MNN.backends.base.kernel import KernelSpec
from MNN.backends.cpu.lang.module import F32, F64, Kernel
from MNN.backends.cpu.math import functions as vecmath
from MNN.backends.cpu.math import powers as vecmath_pow
from MNN.backends.cpu.math import trigonometry as vecmath_trig
from MNN.backends.cpu.targets.base import Target
from tests.backends.cpu.util import ENTRY_TYPE, TARGETS, address

FUNCTIONS = {**vecmath.FUNCTIONS, **vecmath_trig.FUNCTIONS}
BINARY = {"atan2": vecmath_trig.atan2, "pow": vecmath_pow.power, "fmod": vecmath_pow.remainder}
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
         "atanh": "arctanh", "atan2": "arctan2", "pow": "power"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FunctionSpec(KernelSpec):
    """y = f(x) or f(x, z) over n elements, a multiple of lanes."""

    name: str
    bits: int
    lanes: int

    def slots(self) -> tuple[str, ...]:
        return ("x", "z", "y", "n")

    def emit(self, target: Target) -> str:
        k = Kernel.of(self.slots(), target)
        b, e = k.b, F32 if self.bits == 32 else F64
        with b.loop(0, k.slot("n"), self.lanes) as loop:
            x = b.load(e.vec(self.lanes), b.gep(k.pointer("x"), e, loop.index))
            if self.name in BINARY:
                y = BINARY[self.name](b, x, b.load(e.vec(self.lanes), b.gep(k.pointer("z"), e, loop.index)))
            else:
                y = FUNCTIONS[self.name](b, x)
            b.store(y, b.gep(k.pointer("y"), e, loop.index))
        return k.finish()


def run(name: str, target: Target, lanes: int, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    args = np.array([x.ctypes.data, z.ctypes.data, y.ctypes.data, x.size // lanes * lanes], np.int64)
    function = ENTRY_TYPE(address(FunctionSpec(name, x.itemsize * 8, lanes), target))
    function(args.ctypes.data, 0, 1, ctypes.c_void_p())
    return y[: x.size // lanes * lanes]


def reference(name: str, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        if name == "erf":
            return np.array([math.erf(v) for v in x.astype(np.float64)])
        f = getattr(np, NUMPY.get(name, name))
        return f(x.astype(wide), z.astype(wide)) if name in BINARY else f(x.astype(wide))


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units of the last place of the format at ``want``; 0 where both are the same special value."""
    dtype = got.dtype
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype)
        spacing = np.spacing(np.minimum(np.abs(rounded), np.finfo(dtype).max)).astype(want.dtype)
        error = np.abs(got.astype(want.dtype) - want) / spacing
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(
        same,
        np.minimum(np.nan_to_num(error, posinf=0.5), 0.5),
        np.where(np.isfinite(rounded) & np.isfinite(got), error, np.inf),
    )


RANGES = {
    "exp": (-105, 90), "exp2": (-151, 130), "expm1": (-20, 90), "log": None, "log1p": (-1, 1e3), "tanh": (-12, 12),
    "sinh": (-90, 90), "cosh": (-90, 90), "asinh": None, "acosh": None, "atanh": (-1, 1), "erf": (-5, 5),
    "sin": (-200, 200), "cos": (-200, 200), "tan": (-200, 200), "asin": (-1, 1), "acos": (-1, 1), "atan": None,
    "atan2": None, "pow": (-40, 40), "fmod": None,
}  # fmt: skip
# largest error in ulp: f32, f64. erf in f64 is compared with a reference that itself has an error of an ulp.
LIMITS = {
    "exp": (1, 1), "exp2": (1.25, 1.25), "expm1": (1.5, 2), "log": (1, 1), "log1p": (1.5, 1.5), "tanh": (2.25, 2.5),
    "sinh": (2, 2), "cosh": (1.5, 1.5), "asinh": (2, 2), "acosh": (2.5, 2.5), "atanh": (2.5, 2.5), "erf": (1.5, 2.5),
    "sin": (1.5, 2), "cos": (1.5, 2), "tan": (3.5, 4), "asin": (2, 2), "acos": (1.5, 1.5), "atan": (2, 2),
    "atan2": (2.5, 2.5), "pow": (0.6, 2), "fmod": (0, 0),
}  # fmt: skip


def samples(name: str, dtype: type, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    with np.errstate(over="ignore"):
        top = math.log2(float(info.max)) * 0.99
        parts = [2 ** rng.uniform(-top, top, n // 4) * rng.choice([-1, 1], n // 4)]
        low, high = RANGES[name] or (-5, 5)
        if dtype is np.float64 and abs(high) in (90, 130, 105):
            low, high = low * 8, high * 8
        parts += [rng.uniform(low, high, n // 2), rng.uniform(-2, 2, n // 8), 1 + rng.uniform(-1, 1, n // 8) * 2e-3]
        return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*FUNCTIONS, *BINARY])
def test_error(name: str, dtype: type) -> None:
    n = 20000 if dtype is np.float32 else 8000
    x, z = samples(name, dtype, n, 1), np.random.default_rng(0).permutation(samples(name, dtype, n, 2))
    info = np.finfo(dtype)
    special = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -2, 0.5, -0.5, 3, -3, 1e-40, info.max]
    special += [info.tiny / 4, -info.tiny, 4503599627370497.0, 1e22, -33554432]
    pairs = np.array([(p, q) for p in special for q in special], dtype)
    x, z = np.concatenate([x, pairs[:, 0]]), np.concatenate([z, pairs[:, 1]])
    want = reference(name, x, z)
    limit = LIMITS[name][0 if dtype is np.float32 else 1]
    for target in TARGETS:
        full = target.vector_bytes // np.dtype(dtype).itemsize
        for lanes in (full, 1):
            with np.errstate(all="ignore"):
                got = run(name, target, lanes, x, z)
            error = ulps(got, want[: got.size])
            worst = int(error.argmax())
            print(
                f"{name} {np.dtype(dtype)} {target.name} x{lanes}: {error.max():.2f} ulp at {x[worst]!r} {z[worst]!r}"
            )
            assert error.max() <= limit, (
                f"{name} {target.name} x{lanes}: {error[worst]} ulp at x={x[worst]!r} z={z[worst]!r}: "
                f"{got[worst]!r}, not {want[worst]!r}"
            )
            if name not in BINARY:
                zero = (x[: got.size] == 0) & ~np.isnan(got)
                assert (np.signbit(got[zero]) == np.signbit(want[: got.size][zero])).all(), f"{name}(-0)"
