"""Calls that numpy and ``MNN.numpy`` answer alike, with random arguments: ``call(module, given)``, where ``given``
makes the same arguments for both. Grouped by what the functions do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Given:
    """Random arguments from a seed; arrays are given to ``wrap`` (such as ``MNN.numpy.array``)."""

    def __init__(self, seed: int, wrap: Callable[[np.ndarray], Any] = lambda a: a) -> None:
        self.random = np.random.default_rng(seed)
        self.wrap = wrap

    def sizes(self, low: int = 1, high: int = 3) -> tuple[int, ...]:
        return tuple(int(n) for n in self.random.integers(1, 6, self.random.integers(low, high + 1)))

    def floats(self, *shape: int, rank: tuple[int, int] = (1, 3)) -> Any:
        return self.wrap((self.random.normal(size=shape or self.sizes(*rank)) * 3).astype(np.float32))

    def above(self, *shape: int) -> Any:
        return self.wrap((self.random.random(shape or self.sizes()) * 4 + 0.1).astype(np.float32))

    def ints(self, *shape: int, low: int = -9, high: int = 10) -> Any:
        return self.wrap(self.random.integers(low, high, shape or self.sizes()).astype(np.int32))

    def bits(self, *shape: int) -> Any:
        return self.wrap(self.random.integers(0, 256, shape or self.sizes()).astype(np.uint8))

    def numbers(self, *shape: int) -> Any:
        return self.pick(self.floats, self.ints)(*(shape or self.sizes()))

    def holed(self, *shape: int) -> Any:
        """Floats of which some are no numbers, none of them in the first row (of rows)."""
        array = self.random.normal(size=shape or (3, 4)).astype(np.float32)
        array[1:][self.random.random(array[1:].shape) < 0.4] = np.nan
        return self.wrap(array)

    def pick(self, *values: Any) -> Any:
        return values[self.random.integers(len(values))]

    def pair(self, make: Callable[..., Any]) -> tuple[Any, Any]:
        """Two arrays that broadcast."""
        a, b, c = (int(n) for n in self.random.integers(1, 5, 3))
        one, two = self.pick(((a, b), (b,)), ((a, b, c), (a, 1, c)), ((a, 1), (1, b)), ((a,), (a,)))
        return make(*one), make(*two)


Call = Callable[[Any, Given], Any]


def _reducing(name: str) -> Call:
    def call(m: Any, g: Given) -> Any:
        x = g.holed(3, 4, 2) if name.startswith("nan") else g.floats(3, 4, 2)
        axis = g.pick(None, 0, 1, -1, (1, 2))
        if name.startswith("nanarg"):
            return getattr(m, name)(x, g.pick(None, 0))
        return getattr(m, name)(x, axis, keepdims=g.pick(False, True))

    return call


def _unary(name: str, make: str = "floats") -> Call:
    return lambda m, g: getattr(m, name)(getattr(g, make)())


def _binary(name: str, make: str = "floats") -> Call:
    return lambda m, g: getattr(m, name)(*g.pair(getattr(g, make)))


def _indices(m: Any, g: Given) -> Any:
    return m.indices(g.sizes(), sparse=g.pick(False, True))


def _written(write: Callable[[Any, Given, Any], object], make: str = "floats", shape: Sequence[int] = (4, 3)) -> Call:
    """What a function writes into its first argument."""

    def call(m: Any, g: Given) -> Any:
        x = getattr(g, make)(*shape)
        write(m, g, x)
        return x

    return call


def _sorted(g: Given) -> Any:
    return g.wrap(np.sort(g.random.normal(size=9).astype(np.float32)))


CALLS: dict[str, dict[str, Call]] = {
    "elementwise": {
        **{n: _unary(n) for n in ("sinc", "modf", "frexp", "spacing", "i0", "real_if_close", "fix", "trunc", "cbrt",
                                  "exp2", "deg2rad", "degrees", "radians", "signbit")},
        **{n: _binary(n) for n in ("logaddexp", "logaddexp2", "heaviside", "nextafter", "copysign", "hypot", "divmod")},
        **{n: _binary(n, "ints") for n in ("gcd", "lcm", "bitwise_and", "bitwise_xor")},
        "float_power": lambda m, g: m.float_power(g.above(3, 2), g.floats(2)),
        "ldexp": lambda m, g: m.ldexp(g.floats(3, 2), g.ints(2)),
        "invert": lambda m, g: m.invert(g.pick(g.ints, g.bits)()),
        "left_shift": lambda m, g: m.left_shift(g.ints(4), g.ints(4, low=0)),
        "right_shift": lambda m, g: m.right_shift(g.ints(4), g.ints(4, low=0)),
        "packbits": lambda m, g: m.packbits(g.ints(5, 9, low=0, high=2), axis=g.pick(None, 0, 1)),
        "unpackbits": lambda m, g: m.unpackbits(g.bits(3, 2), axis=g.pick(None, 0, -1)),
        "nan_to_num": lambda m, g: m.nan_to_num(g.holed()),
        "unwrap": lambda m, g: m.unwrap(g.floats(4, 5), axis=g.pick(0, -1)),
        "interp": lambda m, g: m.interp(g.floats(), _sorted(g), g.floats(9)),
        "convolve": lambda m, g: m.convolve(g.floats(6), g.floats(3), g.pick("full", "same", "valid")),
        "correlate": lambda m, g: m.correlate(g.floats(6), g.floats(3), g.pick("full", "same", "valid")),
        "binary_repr": lambda m, g: m.binary_repr(int(g.random.integers(-9, 99)), 9),
        "base_repr": lambda m, g: m.base_repr(int(g.random.integers(0, 999)), int(g.random.integers(2, 37))),
    },
    "statistics": {
        **{n: _reducing(n) for n in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "median",
                                     "nanmedian", "nanargmax", "nanargmin")},
        **{n: (lambda m, g, n=n: getattr(m, n)(g.holed(3, 4) if "nan" in n else g.floats(3, 4), g.pick(30.0, [5, 50.5]),
                                               axis=g.pick(None, 0, 1), keepdims=g.pick(False, True)))
           for n in ("percentile", "nanpercentile")},
        **{n: (lambda m, g, n=n: getattr(m, n)(g.floats(3, 4), g.pick(0.3, [0.05, 0.7]), axis=g.pick(None, 0, 1)))
           for n in ("quantile", "nanquantile")},
        **{n: (lambda m, g, n=n: getattr(m, n)(g.holed(3, 4), axis=g.pick(0, 1)))
           for n in ("nancumsum", "nancumprod")},
        "cov": lambda m, g: m.cov(g.floats(3, 7), rowvar=g.pick(True, False)),
        "corrcoef": lambda m, g: m.corrcoef(g.floats(3, 7)),
        "histogram": lambda m, g: m.histogram(g.floats(50), g.pick(5, 9), g.pick(None, (-2, 3)),
                                              density=g.pick(None, True)),
        "histogram_bin_edges": lambda m, g: m.histogram_bin_edges(g.floats(50), g.pick(5, "sturges")),
        "histogram2d": lambda m, g: m.histogram2d(g.floats(30), g.floats(30), bins=g.pick(3, [3, 4])),
        "histogramdd": lambda m, g: m.histogramdd(g.floats(30, 2), bins=3),
        "bincount": lambda m, g: m.bincount(g.ints(20, low=0), minlength=g.pick(0, 14)),
        "digitize": lambda m, g: m.digitize(g.floats(8), _sorted(g), g.pick(True, False)),
        "diff": lambda m, g: m.diff(g.numbers(3, 4, 2), g.pick(0, 1, 2), g.pick(0, 1, -1)),
        "diff with ends": lambda m, g: m.diff(g.floats(3, 4), 1, g.pick(0, 1), prepend=0.5, append=g.pick(1.0, 2.0)),
        "ediff1d": lambda m, g: m.ediff1d(g.floats(2, 3), g.pick(None, [1.0, 2.0]), g.pick(None, -7.0)),
        "gradient": lambda m, g: m.gradient(g.floats(4, 5), *g.pick((), (2.0,), (0.5, 3.0))),
        "gradient along": lambda m, g: m.gradient(g.floats(4, 5), axis=g.pick(0, 1), edge_order=g.pick(1, 2)),
    },
    "matrices": {
        **{n: (lambda m, g, n=n: getattr(m, n)(g.numbers(*g.pick((4, 3), (3,), (2, 3, 4))), g.pick(-1, 0, 2)))
           for n in ("tril", "triu")},
        "diag": lambda m, g: m.diag(g.numbers(*g.pick((4, 3), (3,))), g.pick(-1, 0, 2)),
        "diagflat": lambda m, g: m.diagflat(g.numbers(), g.pick(-1, 0, 2)),
        "diagonal": lambda m, g: m.diagonal(g.numbers(3, 4, 2), g.pick(-1, 0, 1), *g.pick((0, 1), (2, 0))),
        "tri": lambda m, g: m.tri(4, g.pick(None, 3, 6), g.pick(-1, 0, 2)),
        "vander": lambda m, g: m.vander(g.numbers(3), g.pick(None, 2, 4), g.pick(True, False)),
        "cross": lambda m, g: m.cross(g.floats(4, 3), g.floats(*g.pick((4, 3), (3,)))),
        "cross axes": lambda m, g: m.cross(g.floats(3, 4), g.floats(4, 3), 0, 1, g.pick(0, 1)),
        "tensordot": lambda m, g: m.tensordot(g.numbers(2, 3, 4), g.numbers(3, 4, 5)),
        "tensordot axes": lambda m, g: m.tensordot(g.floats(2, 3, 4), g.floats(4, 5, 2), ([0, 2], [2, 0])),
        "tensordot outer": lambda m, g: m.tensordot(g.floats(2, 3), g.floats(4), 0),
        "block": lambda m, g: m.block([[g.floats(2, 3), g.floats(2, 1)], [g.floats(1, 4)]]),
        "bmat": lambda m, g: (m.block if m is np else m.bmat)([[g.floats(2, 3), g.floats(2, 1)],
                                                                [g.floats(1, 4)]]),
    },
    "editing": {
        "append": lambda m, g: m.append(g.numbers(2, 3), g.numbers(2, 3), g.pick(None, 0, 1)),
        "insert": lambda m, g: m.insert(g.floats(3, 4), g.pick(1, [0, 2]), 7.0, g.pick(None, 0, 1)),
        "delete": lambda m, g: m.delete(g.floats(3, 4), g.pick(1, [0, 2], slice(0, 2)), g.pick(None, 0, 1)),
        "flip": lambda m, g: m.flip(g.numbers(2, 3, 4), g.pick(None, 0, -1, (0, 2))),
        "flipud": lambda m, g: m.flipud(g.numbers()),
        "fliplr": lambda m, g: m.fliplr(g.numbers(2, 3)),
        "resize": lambda m, g: m.resize(g.numbers(), g.sizes()),
        "trim_zeros": lambda m, g: m.trim_zeros(g.ints(9, low=0, high=2), g.pick("f", "b", "fb")),
        "unique": lambda m, g: m.unique(g.ints(20, high=2)),
        "unique all": lambda m, g: m.unique(g.ints(20, high=2), True, True, True),
        "unique rows": lambda m, g: m.unique(g.ints(9, 2, low=0, high=2), axis=0),
        "roll": lambda m, g: m.roll(g.numbers(2, 3, 4), g.pick(0, 2, -7, (1, -2)), g.pick(None, 0, -1, (2, 0))),
        "rollaxis": lambda m, g: m.rollaxis(g.floats(2, 3, 4), g.pick(0, 1, -1), g.pick(0, 1, 3)),
        "rot90": lambda m, g: m.rot90(g.numbers(2, 3, 4), g.pick(-1, 0, 1, 2, 3), g.pick((0, 1), (2, 0))),
        "broadcast_arrays": lambda m, g: list(m.broadcast_arrays(*g.pair(g.numbers))),
        "broadcast": lambda m, g: list(m.broadcast(*g.pair(g.ints))),
        "choose": lambda m, g: m.choose(g.ints(5, low=0, high=2), [g.floats(5), g.floats(5)]),
        "select": lambda m, g: m.select([g.floats(5) > 0, g.floats(5) > 0], [g.floats(5), g.floats(5)], 3.0),
        "row_stack": lambda m, g: (m.vstack if m is np else m.row_stack)([g.floats(3), g.floats(2, 3)]),
        "meshgrid": lambda m, g: list(m.meshgrid(g.floats(3), g.floats(4), *g.pick([], [g.floats(2)]),
                                                 indexing=g.pick("xy", "ij"), sparse=g.pick(False, True))),
        "logspace": lambda m, g: m.logspace(0.5, 2.0, g.pick(1, 5), g.pick(True, False)),
        "geomspace": lambda m, g: m.geomspace(2.0, 90.0, g.pick(1, 5), g.pick(True, False)),
        "fromfunction": lambda m, g: m.fromfunction(lambda i, j: i * 3 + j, (3, 4)),
        "frombuffer": lambda m, g: m.frombuffer(bytes(range(64)), m.int32, g.pick(-1, 3), g.pick(0, 4)),
        "fromstring": lambda m, g: m.fromstring("1, 2.5, 3", sep=","),
        "fromiter": lambda m, g: m.fromiter((n * n for n in range(5)), m.int32),
        "loadtxt": lambda m, g: m.loadtxt(["# a", "1 2 3", "4 5 6"], usecols=g.pick(None, [0, 2])),
        "asarray_chkfinite": lambda m, g: m.asarray_chkfinite(g.floats()),
        "ascontiguousarray": lambda m, g: m.ascontiguousarray(g.floats()),
        "require": lambda m, g: m.require(g.floats(), requirements=["C"]),
        "copyto": _written(lambda m, g, x: m.copyto(x, g.ints(3), where=g.floats(4, 3) > 0)),
        "fill_diagonal": _written(lambda m, g, x: m.fill_diagonal(x, 2.5, g.pick(True, False))),
        "place": _written(lambda m, g, x: m.place(x, g.floats(4, 3) > 0, g.floats(2))),
        "put": _written(lambda m, g, x: m.put(x, [0, 5, -1], g.floats(2))),
        "putmask": _written(lambda m, g, x: m.putmask(x, g.floats(4, 3) > 0, g.floats(2))),
        "put_along_axis": _written(lambda m, g, x: m.put_along_axis(x, g.ints(4, 1, low=0, high=3), 7.0, 1)),
    },
    "places": {
        "indices": _indices,
        "ix_": lambda m, g: m.ix_(g.ints(3), g.ints(2)),
        "ravel_multi_index": lambda m, g: m.ravel_multi_index((g.ints(4, low=0, high=3), g.ints(4, low=0, high=5)),
                                                              (3, 5)),
        "unravel_index": lambda m, g: list(m.unravel_index(g.ints(4, low=0, high=24), (2, 3, 4))),
        "diag_indices": lambda m, g: m.diag_indices(4, g.pick(2, 3)),
        "diag_indices_from": lambda m, g: m.diag_indices_from(g.floats(3, 3)),
        "mask_indices": lambda m, g: m.mask_indices(4, m.triu, g.pick(0, 1)),
        "tril_indices": lambda m, g: m.tril_indices(4, g.pick(-1, 0, 1), g.pick(None, 3)),
        "triu_indices": lambda m, g: m.triu_indices(4, g.pick(-1, 0, 1), g.pick(None, 3)),
        "tril_indices_from": lambda m, g: m.tril_indices_from(g.floats(4, 4), g.pick(-1, 0, 1)),
        "triu_indices_from": lambda m, g: m.triu_indices_from(g.floats(4, 4), g.pick(-1, 0, 1)),
        "take": lambda m, g: m.take(g.floats(3, 4), g.ints(2, 2, low=-3, high=3), g.pick(None, 0, 1)),
        "take_along_axis": lambda m, g: m.take_along_axis(g.floats(3, 4), g.ints(3, 2, low=0, high=4), 1),
        "compress": lambda m, g: m.compress([1, 0, 1], g.floats(3, 4), g.pick(0, 1)),
        "extract": lambda m, g: m.extract(g.floats(3, 4) > 0, g.floats(3, 4)),
        "searchsorted": lambda m, g: m.searchsorted(_sorted(g), g.floats(), g.pick("left", "right")),
        "lexsort": lambda m, g: m.lexsort((g.ints(9, high=-5), g.ints(9, high=-5))),
        "argpartition": lambda m, g: m.take_along_axis(x := g.floats(3, 6), m.argpartition(x, 2), -1)[:, 2],
        "partition": lambda m, g: m.partition(g.floats(3, 6), 3, g.pick(1, -1))[:, 3],
        "msort": lambda m, g: (m.sort(g.numbers(3, 4), 0) if m is np else m.msort(g.numbers(3, 4))),
        "array_equiv": lambda m, g: m.array_equiv(g.ints(2, low=0, high=2), g.ints(2, 2, low=0, high=2)),
        "ndindex": lambda m, g: list(m.ndindex(2, 3)),
        "ndenumerate": lambda m, g: [(i, float(v)) for i, v in m.ndenumerate(g.floats(2, 3))],
        "nditer": lambda m, g: [float(v) for v in m.nditer(g.floats(2, 3))],
    },
}  # fmt: skip
