"""Order statistics, what passes over no-numbers, histograms, correlation, differences and sums along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import build, indexing, math, reducing, shaping
from MNN.expr.arrays.options import into
from MNN.expr.types import Axes, ElementType, VarOrNumber, dtype
from MNN.expr.var import Var
from MNN.numpy._arrays import concatenate
from MNN.numpy._at_hand import along, at_hand
from MNN.numpy._at_hand import untyped as _np
from MNN.numpy._calculation import cumprod, cumsum
from MNN.numpy._reductions import counted, degrees, variance
from MNN.numpy._reductions import max as largest
from MNN.numpy._reductions import mean as mean_of
from MNN.numpy._reductions import min as smallest
from MNN.numpy._reductions import prod as product
from MNN.numpy._reductions import sum as total


def percentile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Var | None = None, overwrite_input: bool = False,
               interpolation: str = "linear", keepdims: bool = False,
               method: str | None = None, *, weights: ArrayLike | None = None) -> VarOrNumber:  # fmt: skip
    """The numbers below which ``q`` percent lie; ``interpolation`` (or ``method``) as numpy names them."""
    return into(_quantile(_np.percentile, a, q, axis, method or interpolation, keepdims, weights), out)


def quantile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Var | None = None, overwrite_input: bool = False,
             interpolation: str = "linear", keepdims: bool = False,
               method: str | None = None, *, weights: ArrayLike | None = None) -> VarOrNumber:  # fmt: skip
    """The numbers below which the share ``q`` lies; see :func:`percentile`."""
    return into(_quantile(_np.quantile, a, q, axis, method or interpolation, keepdims, weights), out)


def nanpercentile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Var | None = None, overwrite_input: bool = False,
                  interpolation: str = "linear", keepdims: bool = False,
               method: str | None = None, *, weights: ArrayLike | None = None) -> VarOrNumber:  # fmt: skip
    """:func:`percentile` of what are numbers."""
    return into(_quantile(_np.nanpercentile, a, q, axis, method or interpolation, keepdims, weights), out)


def nanquantile(a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Var | None = None, overwrite_input: bool = False,
                interpolation: str = "linear", keepdims: bool = False,
               method: str | None = None, *, weights: ArrayLike | None = None) -> VarOrNumber:  # fmt: skip
    """:func:`quantile` of what are numbers."""
    return into(_quantile(_np.nanquantile, a, q, axis, method or interpolation, keepdims, weights), out)


def _quantile(
    function: Any, a: object, q: Any, axis: Axes, method: str, keepdims: bool, weights: object
) -> VarOrNumber:
    shares = build.to_var(q)._array() if isinstance(q, Var) else q
    if weights is not None:  # numpy 1 has none
        w = build.to_var(weights)._array()
        return along(function, build.floats(a), axis, q=shares, method=method, keepdims=bool(keepdims), weights=w)
    return along(function, build.floats(a), axis, q=shares, method=method, keepdims=bool(keepdims))


def median(a: ArrayLike, axis: Axes = None, out: Var | None = None, overwrite_input: bool = False,
           keepdims: bool = False) -> VarOrNumber:  # fmt: skip
    """The number in the middle, or the mean of the two there."""
    return into(along(_np.median, build.floats(a), axis, keepdims=bool(keepdims)), out)


def nanmedian(a: ArrayLike, axis: Axes = None, out: Var | None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> VarOrNumber:  # fmt: skip
    """:func:`median` of what are numbers."""
    return into(along(_np.nanmedian, build.floats(a), axis, keepdims=bool(keepdims)), out)


# -- passing over no-numbers ------------------------------------------------------------------------------------------


def _instead(a: object, value: float) -> Var:
    """``value`` in place of no-numbers."""
    v = build.to_var(a)
    return math.select(math.equal(v, v), v, build.number(value, v._kind)) if v._kind.is_float else v


def nansum(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *,
           dtype: ElementType | None = None, initial: ArrayLike | None = None,
           where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The sum of what are numbers, of ``initial`` too."""
    return total(_instead(a, 0), axis, out, keepdims, dtype=dtype, initial=initial, where=where)


def nanprod(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *,
            dtype: ElementType | None = None, initial: ArrayLike | None = None,
            where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The product of what are numbers, with ``initial`` too."""
    return product(_instead(a, 1), axis, out, keepdims, dtype=dtype, initial=initial, where=where)


def nancumsum(x: ArrayLike, axis: int | None = 0, dtype: ElementType | None = None, out: Var | None = None) -> Var:
    """:func:`cumsum` over what are no numbers."""
    return cumsum(_instead(x, 0), axis, dtype, out)


def nancumprod(x: ArrayLike, axis: int | None = 0, dtype: ElementType | None = None, out: Var | None = None) -> Var:
    """:func:`cumprod` over what are no numbers."""
    return cumprod(_instead(x, 1), axis, dtype, out)


def _named(x: Var, axis: Axes) -> VarOrNumber:
    return indexing.result(x) if axis is None else x


def nanmax(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *,
           initial: ArrayLike | None = None, where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The largest of what are numbers and ``initial``, which ``where`` needs; no-number where there are none."""
    return _nanextreme(a, axis, out, keepdims, initial, where, True)


def nanmin(a: ArrayLike, axis: Axes = None, out: Var | None = None, keepdims: bool = False, *,
           initial: ArrayLike | None = None, where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The smallest of what are numbers and ``initial``, which ``where`` needs; no-number where there are none."""
    return _nanextreme(a, axis, out, keepdims, initial, where, False)


def _nanextreme(
    a: object, axis: Axes, out: Var | None, keepdims: bool, initial: ArrayLike | None, where: ArrayLike, high: bool
) -> VarOrNumber:
    v = build.to_var(a)
    extreme = largest if high else smallest
    if not v._kind.is_float or not v.size or initial is not None or where is not True:
        return extreme(_instead(v, -_np.inf if high else _np.inf), axis, out, keepdims, initial=initial, where=where)
    found = (reducing.reduce_max if high else reducing.reduce_min)(
        _instead(v, -_np.inf if high else _np.inf), axis, keepdims
    )
    count = counted(_numbers(v, True), v, axis, keepdims)
    return into(_named(math.select(count, found, build.number(_np.nan, v._kind)), axis), out)


def _numbers(v: Var, where: ArrayLike) -> Var:
    """1 where elements are numbers and ``where`` is not 0."""
    numbers = math.equal(v, v)
    return numbers if where is True else math.multiply(numbers, math.not_equal(where, 0))


def nanmean(a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: Var | None = None,
            keepdims: bool = False, *, where: ArrayLike = True) -> VarOrNumber:  # fmt: skip
    """The mean of what are numbers."""
    v = build.floats(a)
    return mean_of(v, axis, dtype, out, keepdims, where=_numbers(v, where))


def nanvar(a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: Var | None = None, ddof: int = 0,
           keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None,
           correction: int | float | None = None) -> VarOrNumber:  # fmt: skip
    """The variance of what are numbers, whose count less ``ddof`` is the divisor; see :func:`var`."""
    found = _nanvar(a, axis, degrees(ddof, correction), keepdims, where, mean)
    return into(_named(found.astype(dtype), axis), out)


def _nanvar(a: object, axis: Axes, less: Any, keepdims: bool, where: ArrayLike, mean: ArrayLike | None) -> Var:
    v = build.floats(a)
    numbers = _numbers(v, where)
    found = variance(v, axis, less, keepdims, numbers, mean)
    enough = math.greater(counted(numbers, v, axis, keepdims), float(less))
    return math.select(enough, found, build.number(_np.nan, v._kind))


def nanstd(a: ArrayLike, axis: Axes = None, dtype: ElementType = dtype.float, out: Var | None = None, ddof: int = 0,
           keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None,
           correction: int | float | None = None) -> VarOrNumber:  # fmt: skip
    """The standard deviation of what are numbers; see :func:`nanvar`."""
    found = _nanvar(a, axis, degrees(ddof, correction), keepdims, where, mean)
    return into(_named(math.sqrt(found).astype(dtype), axis), out)


def nanargmax(a: ArrayLike, axis: int | None = None, out: Var | None = None, *, keepdims: bool = False) -> VarOrNumber:
    """Where the largest of what are numbers is. Raises :class:`MNNError` where there are none."""
    return into(along(_np.nanargmax, a, axis, keepdims=bool(keepdims)), out)


def nanargmin(a: ArrayLike, axis: int | None = None, out: Var | None = None, *, keepdims: bool = False) -> VarOrNumber:
    """Where the smallest of what are numbers is. Raises :class:`MNNError` where there are none."""
    return into(along(_np.nanargmin, a, axis, keepdims=bool(keepdims)), out)


# -- correlation and histograms ---------------------------------------------------------------------------------------


def cov(m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False,
        ddof: int | None = None, fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, *,
        dtype: ElementType | None = None) -> Var:  # fmt: skip
    """Covariances of variables, which are rows unless ``rowvar`` is false; observations count ``fweights`` times and
    weigh ``aweights``."""
    given = [build.floats(v) for v in ((m,) if y is None else (m, y))]
    found = at_hand(lambda *x: _np.cov(*x, rowvar=rowvar, bias=bias, ddof=ddof, fweights=_plain(fweights),
                                       aweights=_plain(aweights)), *given)  # fmt: skip
    return build.to_var(found) if dtype is None else build.to_var(found).astype(dtype)


def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *,
             dtype: ElementType | None = None) -> Var:  # fmt: skip
    """Correlation coefficients of variables, which are rows unless ``rowvar`` is false."""
    given = [build.floats(v) for v in ((x,) if y is None else (x, y))]
    found = build.to_var(at_hand(lambda *z: _np.corrcoef(*z, rowvar=rowvar), *given))
    return found if dtype is None else found.astype(dtype)


def _plain(value: Any) -> Any:
    """A Var as an array, within lists too; anything else as it is."""
    if isinstance(value, Var):
        return value._array()
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def histogram(a: ArrayLike, bins: Any = 10, range: Sequence[float] | None = None, normed: bool | None = None,
              weights: ArrayLike | None = None, density: bool | None = None) -> tuple[Var, Var]:  # fmt: skip
    """How many numbers lie in each bin (floats), and the bins' edges."""
    counts, edges = at_hand(_np.histogram, a, bins=_plain(bins), range=range, weights=_plain(weights),
                                density=bool(density or normed))  # fmt: skip
    return build.floats(counts), edges


def histogram_bin_edges(a: ArrayLike, bins: Any = 10, range: Sequence[float] | None = None,
                        weights: ArrayLike | None = None) -> Var:  # fmt: skip
    """The edges of the bins of :func:`histogram`."""
    found = at_hand(_np.histogram_bin_edges, a, bins=_plain(bins), range=range, weights=_plain(weights))
    return build.to_var(found)


def histogram2d(x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, density: bool | None = None,
                weights: ArrayLike | None = None) -> tuple[Var, Var, Var]:  # fmt: skip
    """How many points (x, y) lie in each bin, and the bins' edges along both axes."""
    counts, first, second = at_hand(_np.histogram2d, x, y, bins=_plain(bins), range=range, density=density,
                                        weights=_plain(weights))  # fmt: skip
    return counts, first, second


def histogramdd(sample: ArrayLike, bins: Any = 10, range: Any = None, density: bool | None = None,
                weights: ArrayLike | None = None) -> tuple[Var, tuple[Var, ...]]:  # fmt: skip
    """How many points ``[count, rank]`` lie in each bin, and the bins' edges along each axis."""
    counts, edges = at_hand(_np.histogramdd, sample, bins=_plain(bins), range=range, density=density,
                                weights=_plain(weights))  # fmt: skip
    return counts, tuple(edges)


def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0) -> Var:
    """How often each whole number from 0 on occurs, or the sums of its weights."""
    return build.to_var(at_hand(_np.bincount, x, weights=_plain(weights), minlength=minlength))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Var:
    """In which bin each number lies."""
    return build.to_var(at_hand(lambda v, b: _np.digitize(v, b, right), x, bins))


# -- differences and sums ---------------------------------------------------------------------------------------------


def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None,
         append: ArrayLike | None = None) -> Var:  # fmt: skip
    """The differences of neighbours along an axis, ``n`` times."""
    v = build.to_var(a)
    if not v.ndim or not -v.ndim <= axis < v.ndim:
        raise ShapeError(f"diff(): axis {axis} is outside of a tensor of shape {v.shape}")
    if n < 0:
        raise MNNError(f"diff(): n must not be negative, found {n}")
    if not n:
        return build.own(v)
    ends = []
    for end in (prepend, append):
        x = None if end is None else build.to_var(end)
        if x is not None and not x.ndim:
            x = shaping.broadcast_to(x, [1 if i == axis % v.ndim else s for i, s in enumerate(v.shape)])
        ends.append(x)
    parts = [p for p in (ends[0], v, ends[1]) if p is not None]
    v = concatenate(parts, axis) if len(parts) > 1 else v
    for _ in range(int(n)):
        size = v.shape[axis]
        before, after = (shaping.split(v, sizes, axis)[keep] for sizes, keep in
                         (([max(size - 1, 0), min(size, 1)], 0), ([min(size, 1), max(size - 1, 0)], 1)))  # fmt: skip
        v = math.subtract(after, before)
    return build.own(v)


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Var:
    """The differences of neighbours of the flat array, with something before and after them."""
    found = diff(build.to_var(ary).ravel())
    ends = [None if e is None else build.to_var(e).ravel() for e in (to_begin, to_end)]
    parts = [p for p in (ends[0], found, ends[1]) if p is not None]
    return concatenate(parts) if len(parts) > 1 else found


def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axes = None, edge_order: int = 1) -> Var | list[Var]:
    """The slope along each axis (or those named): central differences inside, one-sided ones at the ends. ``varargs``
    are the distances of neighbours, or their coordinates."""
    axes = tuple(axis) if isinstance(axis, list) else axis
    steps = [build.to_var(v)._array() for v in varargs]
    found = at_hand(lambda x: _np.gradient(x, *steps, axis=axes, edge_order=edge_order), build.floats(f))
    return found if isinstance(found, Var) else list(found)


def trapz(y: ArrayLike, x: ArrayLike | None = None, dx: float = 1.0, axis: int = -1) -> VarOrNumber:
    """The integral along an axis by the trapezoidal rule, over ``x`` or in steps of ``dx``."""
    v = build.floats(y)
    if not v.ndim or not -v.ndim <= axis < v.ndim:
        raise ShapeError(f"trapz(): axis {axis} is outside of a tensor of shape {v.shape}")
    width: Any = float(dx)
    if x is not None:
        at = build.floats(x)
        width = diff(at, axis=axis if at.ndim > 1 else -1)
        if at.ndim == 1:
            width = shaping.reshape(width, [-1 if i == axis % v.ndim else 1 for i in range(v.ndim)])
    size = v.shape[axis]
    first = shaping.split(v, [max(size - 1, 0), min(size, 1)], axis)[0]
    second = shaping.split(v, [min(size, 1), max(size - 1, 0)], axis)[1]
    areas = math.multiply(math.multiply(math.add(first, second), 0.5), width)
    return indexing.result(reducing.reduce_sum(areas, axis))


__all__ = [
    "bincount", "corrcoef", "cov", "diff", "digitize", "ediff1d", "gradient", "histogram", "histogram2d",
    "histogram_bin_edges", "histogramdd", "median", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax",
    "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
    "percentile", "quantile", "trapz",
]  # fmt: skip
