"""Images in other sizes, and read at places of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.frontends.common.expressions import select
from MNN.frontends.torch.aten.resampling import MOST, resampled, scale_of, weights
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int, Number, Scalar
from MNN.frontends.torch.registry import apply, aten
from MNN.frontends.torch.scalars import compute
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

Sizes = Sequence[Int] | None


def _factors(given: object, count: int) -> list[float] | None:
    """Scales, as a list or one by one; None where sizes alone decide."""
    if isinstance(given, (list, tuple)):
        given = [v for v in given if v is not None]
        return [float(v) for v in given] if len(given) == count else None
    return None


@aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def nearest(ctx: TorchBuilder, x: Value, output_size: Sizes, *scales: object, scale_factors: object = None) -> Value:
    return _resized(
        ctx, x, output_size, _given(scales, scale_factors, ctx.rank_of(x) - 2), "nearest", "asymmetric", "floor"
    )


@aten("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def nearest_exact(
    ctx: TorchBuilder, x: Value, output_size: Sizes, *scales: object, scale_factors: object = None
) -> Value:
    factors = _given(scales, scale_factors, ctx.rank_of(x) - 2)
    return _resized(ctx, x, output_size, factors, "nearest", "half_pixel", "round_prefer_ceil")


@aten("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear(
    ctx: TorchBuilder, x: Value, output_size: Sizes, align_corners: bool, *scales: object, scale_factors: object = None
) -> Value:
    factors = _given(scales, scale_factors, ctx.rank_of(x) - 2)
    return _resized(ctx, x, output_size, factors, "linear", "align_corners" if align_corners else "half_pixel")


@aten("upsample_bicubic2d")
def cubic(
    ctx: TorchBuilder, x: Value, output_size: Sizes, align_corners: bool, *scales: object, scale_factors: object = None
) -> Value:
    factors = _given(scales, scale_factors, ctx.rank_of(x) - 2)
    return _resized(ctx, x, output_size, factors, "cubic", "align_corners" if align_corners else "half_pixel")


@aten("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def antialiased(
    ctx: TorchBuilder, x: Value, output_size: Sizes, align_corners: bool, *scales: object, scale_factors: object = None
) -> Value:
    factors = _given(scales, scale_factors, ctx.rank_of(x) - 2)
    cubic = "bicubic" in ctx.name
    pixels = _pixels(ctx, x, output_size, factors)
    own = align_corners or (
        pixels and factors and any(abs(m / n - f) > 1e-6 for (n, m), f in zip(pixels, factors, strict=True))
    )
    if pixels is not None and (own or ctx.type_of(x) is DType.U8):
        return _weighted(ctx, x, pixels, factors, cubic, True, align_corners)
    if own or (factors is not None and output_size is not None and pixels is None):
        raise ctx.unsupported("antialias of open sizes with corners or factors of its own", "give the sizes alone")
    if ctx.type_of(x) is DType.U8:
        return _axis_by_axis(ctx, x, output_size, factors, _antialiased)
    return _antialiased(ctx, x, output_size, factors)


def _antialiased(ctx: TorchBuilder, x: Value, output_size: Sizes, factors: list[float] | None) -> Value:
    scales = None
    if factors is not None and output_size is None and ctx.static_shape(x) is None:
        scales = ctx.const(np.asarray([1, 1, *factors], np.float32))
    return ctx.op(
        "OnnxResize", x, None, scales, _target(ctx, x, output_size, factors) if scales is None else None,
        mode="cubic" if "bicubic" in ctx.name else "linear", antialias=True,
        coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.5, exclude_outside=True,
    )  # fmt: skip


def _pixels(
    ctx: TorchBuilder, x: Value, output_size: Sizes, factors: list[float] | None
) -> list[tuple[int, int]] | None:  # fmt: skip
    """How many pixels each axis of an image has, and is to have; None where that is open, or very many."""
    known = ctx.static_shape(x)
    if known is None or (output_size is None and factors is None):
        return None
    picked = [int(n * f) for n, f in zip(known[2:], factors, strict=True)] if factors and output_size is None else []
    pairs = list(zip(known[2:], output_size or picked, strict=True))
    if any(isinstance(m, Number) or min(n, m) < 1 or n * m > MOST for n, m in pairs):
        return None
    return [(n, int(m)) for n, m in pairs]  # type: ignore[arg-type]


def _weighted(
    ctx: TorchBuilder, x: Value, pixels: list[tuple[int, int]], factors: list[float] | None, cubic: bool,
    antialias: bool, corners: bool,
) -> Value:  # fmt: skip
    """An image along its last axis first, then along the other; an axis that stays as it is is left out."""
    for i in (1, 0):
        n, m = pixels[i]
        scale = scale_of(n, m, factors[i] if factors else None, corners)
        if n != m or scale != 1:
            x = resampled(ctx, x, 2 + i, weights(n, m, scale, cubic, antialias, corners))
    return x


def _given(scales: tuple[object, ...], named: object, count: int) -> list[float] | None:
    if named is not None:
        return _factors(named, count)
    if scales and isinstance(scales[0], (list, tuple)):
        return _factors(scales[0], count)
    return _factors(list(scales), count)


def _target(ctx: TorchBuilder, x: Value, output_size: Sizes, factors: list[float] | None) -> Value:
    """The whole shape of the result."""
    sizes = ctx.sizes(x)
    if output_size is not None:
        return ctx.ints([*sizes[:2], *output_size])
    if factors is None:
        raise ctx.unsupported("a resize without sizes or factors")
    target: list[Int] = []
    for n, factor in zip(sizes[2:], factors, strict=True):
        if isinstance(n, Number):
            wide = ctx.op("BinaryOp", ctx.cast(n.value, DType.F64), ctx.const(factor, DType.F64), opType="MUL")
            target.append(Number(ctx.cast(ctx.unary("FLOOR", wide), DType.I64)))
        else:
            target.append(int(n * factor))
    return ctx.ints([*sizes[:2], *target])


_CTM = {"half_pixel": "HalfPixels", "align_corners": "AlignCorners", "asymmetric": "Asymmetric"}
_TYPES = {"nearest": 1, "linear": 2, "cubic": 3}


def _resized(
    ctx: TorchBuilder, x: Value, output_size: Sizes, factors: list[float] | None, mode: str, transform: str,
    rounding: str = "",
) -> Value:  # fmt: skip
    """Given factors decide where pixels lie, where these and the sizes are at odds."""
    if x.dtype is DType.U8 and mode != "nearest":
        pixels = _pixels(ctx, x, output_size, factors) if ctx.rank_of(x) == 4 else None
        if pixels is not None:
            return _weighted(ctx, x, pixels, factors, mode == "cubic", False, transform == "align_corners")
        return _axis_by_axis(
            ctx, x, output_size, factors, lambda ctx, x, sizes, scales: _resized(ctx, x, sizes, scales, mode, transform)
        )
    rank = ctx.rank_of(x)
    known = ctx.static_shape(x)
    if mode == "nearest" and not _whole(known, output_size, factors, rounding):
        return _taken(ctx, x, output_size, factors, 0.5 if rounding == "round_prefer_ceil" else 0.0)
    target: Value
    if factors is not None and transform != "align_corners" and not _agree(known, output_size, factors):
        target = _scales(ctx, x, factors, mode)
    else:
        target = _target(ctx, x, output_size, factors)
    floats = target.dtype is DType.F32
    if rank == 3 or rounding == "round_prefer_ceil" or rank not in (4, 5):
        return ctx.op(
            "OnnxResize", x, None, target if floats else None, None if floats else target, mode=mode,
            coordinate_transformation_mode=transform, nearest_mode=rounding or "round_prefer_floor",
            cubic_coeff_a=-0.75,
        )  # fmt: skip
    return ctx.op(
        "Interp3D" if rank == 5 else "Interp", x, target, resizeType=_TYPES[mode], ctm=_CTM[transform],
        alignCorners=transform == "align_corners", halfPixelCenters=transform == "half_pixel",
        cubicCoeffA=-0.75 if mode == "cubic" else None,
    )  # fmt: skip


def _scales(ctx: TorchBuilder, x: Value, factors: list[float], mode: str) -> Value:
    """Factors of all axes. Linear resizes copy an axis that stays as long, whatever its factor."""
    found: list[Scalar] = [1.0, 1.0]
    for n, f in zip(ctx.sizes(x)[2:], factors, strict=True):
        if mode == "linear" and (isinstance(n, int) or 1 < f < 2):
            stays = compute(ctx, "eq", n, compute(ctx, "floor", compute(ctx, "mul", n, f)))
            found.append(compute(ctx, "ite", stays, 1.0, f))
        else:
            found.append(f)
    if not any(isinstance(f, Number) for f in found):
        return ctx.const(np.asarray(found, np.float32))
    return ctx.op("Pack", *(ctx.scalar(f, DType.F32) for f in found), axis=0)


def _whole(known: tuple[int, ...] | None, output_size: Sizes, factors: list[float] | None, rounding: str) -> bool:
    """Whether the engine's resize takes the pixels that torch takes: of factors with a rest, and of places in the
    middle of pixels, torch's rounding of f32 decides, as it does of 41 times as many pixels and more."""
    if factors is not None:
        return all(f.is_integer() and int(np.float32(f) * np.float32(1 / f)) == 1 for f in factors)
    if rounding == "round_prefer_ceil":
        return False
    pairs = zip(known[2:], output_size, strict=True) if known is not None and output_size is not None else ()
    return all(_exact(n, m) for n, m in pairs if not isinstance(m, Number))


def _exact(n: int, m: int) -> bool:
    """Whether ``floor(i * (n / m))`` in f32 is so for all ``m`` results."""
    steps = np.arange(min(m, 1 << 16))
    places = np.floor(steps.astype(np.float32) * np.float32(n / m if m else 0))
    return bool(np.all(places == steps * n // max(m, 1)))


def _taken(ctx: TorchBuilder, x: Value, output_size: Sizes, factors: list[float] | None, middle: float) -> Value:
    """Pixels ``floor((i + middle) * scale)`` of each axis, computed in f32 as torch does."""
    sizes = ctx.sizes(x)[2:]
    for i, n in enumerate(sizes):
        factor = None if factors is None else factors[i]
        wanted: Any = output_size[i] if output_size is not None else None
        if wanted is None:
            wanted = compute(ctx, "floor", compute(ctx, "mul", n, factor or 1.0))
        count = ctx.scalar(wanted, DType.I64)
        scale = (
            ctx.binary("REALDIV", ctx.cast(ctx.scalar(n, DType.I64), DType.F32), ctx.cast(count, DType.F32))
            if factor is None
            else ctx.const(np.float32(1 / factor))
        )
        if factor is not None and len(sizes) == 2 and not middle:  # as torch has it for images alone
            for times in (1, 2):
                exact = compute(ctx, "eq", wanted, compute(ctx, "mul", n, times))
                if exact is True:
                    scale = ctx.const(np.float32(1 / times))
                elif isinstance(exact, Number):
                    scale = select(ctx, exact.value, ctx.const(np.float32(1 / times)), scale)
        steps = ctx.cast(ctx.op("Range", ctx.const(np.int64(0)), count, ctx.const(np.int64(1))), DType.F32)
        steps = ctx.binary("ADD", steps, middle) if middle else steps
        places = ctx.cast(ctx.unary("FLOOR", ctx.binary("MUL", steps, scale)), DType.I64)
        last = ctx.scalar(compute(ctx, "sub", n, 1), DType.I64)
        x = ctx.op("GatherV2", x, ctx.binary("MINIMUM", places, last), ctx.const(np.int32(2 + i)))
    return x


def _axis_by_axis(
    ctx: TorchBuilder,
    x: Value,
    output_size: Sizes,
    factors: list[float] | None,
    resize: Callable[[TorchBuilder, Value, Sizes, list[float] | None], Value],
) -> Value:
    """Bytes along one axis after the other, the last one first, rounded to bytes each time, as torch does."""
    rank = ctx.rank_of(x)
    sizes = ctx.sizes(x)[2:]
    for i in range(rank - 3, -1, -1):
        picked = None if output_size is None else [*sizes[:i], *list(output_size)[i:]]
        scale = None if factors is None else [*[1.0] * i, factors[i], *[1.0] * (rank - 3 - i)]
        made = resize(ctx, ctx.cast(x, DType.F32), picked, scale)
        x = ctx.cast(apply(ctx, "clamp", [ctx.unary("FLOOR", ctx.binary("ADD", made, 0.5)), 0, 255], {}), DType.U8)
    return x


def _agree(known: tuple[int, ...] | None, output_size: Sizes, factors: list[float]) -> bool:
    """Whether sizes that are known follow from the factors without a rest."""
    if known is None:
        return False
    return all(float(n * f).is_integer() for n, f in zip(known[2:], factors, strict=True))


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    ctx: TorchBuilder, x: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    mode = ("BILINEAR", "NEAREST", "CUBIC")[interpolation_mode]
    padding = ("ZEROS", "CLAMP", "REFLECTION")[padding_mode]
    op = "OnnxGridSample" if mode == "CUBIC" else "GridSample"
    return ctx.op(op, x, grid, mode=mode, paddingMode=padding, alignCorners=align_corners)


@aten("affine_grid_generator")
def affine_grid(ctx: TorchBuilder, theta: Value, size: Sequence[Int], align_corners: bool) -> Value:
    return ctx.op("AffineGrid", theta, ctx.ints(size), alignCorners=align_corners)
