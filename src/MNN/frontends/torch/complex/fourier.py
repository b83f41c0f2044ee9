"""Fourier transforms (torch.fft), the operators that they are decomposed into, and the one of frames (stft)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.aten.creation import bounded
from MNN.frontends.torch.aten.reshaping import unfold
from MNN.frontends.torch.aten.slicing import END, cut
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.complex.arithmetic import made
from MNN.frontends.torch.complex.tensor import COMPLEX, Complex, apply_complex
from MNN.frontends.torch.registry import apply
from MNN.ir.graph import Value

_NORMS = {None: (0, 2), "backward": (0, 2), "ortho": (1, 1), "forward": (2, 0)}
"""How transforms and their inverses are scaled: 0 not, 1 by ``1 / sqrt(n)``, 2 by ``1 / n``."""
_TURNED: dict[str | None, str] = {None: "forward", "backward": "forward", "forward": "backward"}
"""Of a transform into one that is scaled as its inverse is."""
Norm = str | None


def _pairs(ctx: TorchBuilder, x: Complex | Variable) -> tuple[Value, int]:
    """Pairs of a complex tensor, or a real one with an axis for the real part; and its rank without that axis."""
    if isinstance(x, Complex):
        return x.numbers(ctx), x.rank(ctx)
    value = ctx.as_float(x.read(ctx))
    rank = ctx.rank_of(value)
    return ctx.unsqueeze(value, rank), rank


def _scaled(ctx: TorchBuilder, x: Value, lengths: Sequence[int | None], by: int, inverse: bool) -> Value:
    """``x`` as this normalisation has it; what the engine's inverse has divided by already is taken back."""
    power = -by / 2 + (1 if inverse else 0)
    if power == 0:
        return x
    known = [n for n in lengths if n is not None]
    if len(known) != len(lengths):
        raise ctx.unsupported(
            "a scaled transform over an axis of unknown size", "export with a fixed size of this axis"
        )
    return ctx.binary("MUL", x, ctx.const(math.prod(known) ** power, x.dtype))


def _length(ctx: TorchBuilder, n: Any) -> int:
    return bounded(ctx, n, 1 << 24, "numbers of a transform")


def _size(x: Value, axis: int) -> int | None:
    found = None if x.shape is None else x.shape[axis]
    return found if isinstance(found, int) else None


def _transform(
    ctx: TorchBuilder, x: Value, axis: int, inverse: bool = False, onesided: bool = False, length: int | None = None
) -> Value:
    """Along one axis, cut or filled up with zeros to ``length``; of an inverse, divided by it."""
    lengths = [] if length is None else [ctx.const(np.int64(length))]
    return ctx.op("DFT", x, *lengths, axis=axis, inverse=inverse, onesided=onesided)


@COMPLEX.handles("_fft_c2c")
def c2c(ctx: TorchBuilder, z: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    x, rank = _pairs(ctx, z)
    lengths = [_size(x, d % rank) for d in dim]
    for d in dim:
        x = _transform(ctx, x, d % rank, inverse=not forward)
    return made(_scaled(ctx, x, lengths, normalization, not forward))


@COMPLEX.handles("_fft_r2c")
def r2c(ctx: TorchBuilder, x: Variable, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    pairs, rank = _pairs(ctx, x)
    lengths = [_size(pairs, d % rank) for d in dim]
    for i, d in enumerate(reversed(dim)):
        pairs = _transform(ctx, pairs, d % rank, onesided=onesided and i == 0)
    return made(_scaled(ctx, pairs, lengths, normalization, False))


@COMPLEX.handles("_fft_c2r")
def c2r(ctx: TorchBuilder, z: Complex, dim: Sequence[int], normalization: int, last_dim_size: int) -> Variable:
    x, rank = _pairs(ctx, z)
    last = _length(ctx, last_dim_size)
    lengths = [*[_size(x, d % rank) for d in dim[:-1]], last]
    for d in dim[:-1]:
        x = _transform(ctx, x, d % rank, inverse=True)
    x = ctx.squeeze(_transform(ctx, x, dim[-1] % rank, inverse=True, onesided=True, length=last), rank)
    return Variable(_scaled(ctx, x, lengths, normalization, True))


def _fitted(ctx: TorchBuilder, x: Complex | Variable, dims: Sequence[int], sizes: Sequence[int | None]) -> Any:
    """Axes cut or filled up with zeros to these sizes, where there are any."""
    pairs, rank = _pairs(ctx, x)
    pads = [0] * (2 * rank + 2)
    for d, n in zip(dims, sizes, strict=True):
        axis = d % rank
        if n is None or n == _size(pairs, axis):
            continue
        known = _size(pairs, axis)
        if known is None:
            raise ctx.unsupported("a transform that cuts or fills up an axis of unknown size", "cut or pad it before")
        pads[2 * axis + 1] = n - known
    if any(pads):
        pairs = ctx.op("Padding", pairs, ctx.const(pads), mode="CONSTANT")
    return made(pairs) if isinstance(x, Complex) else Variable(ctx.squeeze(pairs, rank))


def _mirrored(ctx: TorchBuilder, x: Any) -> Any:
    """The complex conjugate."""
    return apply_complex(ctx, "conj", [x], {}) if isinstance(x, Complex) else x


def _rank(ctx: TorchBuilder, x: Complex | Variable) -> int:
    return x.rank(ctx) if isinstance(x, Complex) else ctx.rank_of(x.read(ctx))


def _whole(
    ctx: TorchBuilder, x: Any, s: Sequence[int | None] | None, dim: Sequence[int] | None, norm: Norm, kind: str
) -> Any:
    """``kind``: ``fft``, ``ifft``, ``rfft``, ``irfft``, or ``hfft`` and ``ihfft``, over several axes."""
    if kind in ("hfft", "ihfft"):  # of signals with a real spectrum: as irfft and rfft of what is mirrored in time
        turned = _TURNED.get(norm, norm)
        if kind == "hfft":
            return _whole(ctx, _mirrored(ctx, x), s, dim, turned, "irfft")
        return _mirrored(ctx, _whole(ctx, x, s, dim, turned, "rfft"))
    dims = list(range(_rank(ctx, x))) if dim is None else list(dim)
    if dim is None and s is not None:
        dims = dims[len(dims) - len(s) :]
    sizes = [None if n in (None, -1) else _length(ctx, n) for n in (s or [None] * len(dims))]
    forward, inverse = _NORMS[norm]
    if kind == "irfft":
        bins = _size(_pairs(ctx, x)[0], dims[-1] % _rank(ctx, x))
        if sizes[-1] is None and bins is None:
            raise ctx.unsupported("an inverse transform of unknown length", "give it n")
        last = 2 * ((bins or 1) - 1) if sizes[-1] is None else sizes[-1]
        return c2r(ctx, _fitted(ctx, x, dims, [*sizes[:-1], None]), dims, inverse, last)
    x = _fitted(ctx, x, dims, sizes)
    if kind == "rfft":
        return r2c(ctx, x, dims, forward, True)
    if not isinstance(x, Complex) and kind == "fft":
        return r2c(ctx, x, dims, forward, False)
    return c2c(ctx, x, dims, forward if kind == "fft" else inverse, kind == "fft")


def _enter(kind: str) -> None:
    def along(ctx: TorchBuilder, x: Any, n: int | None = None, dim: int = -1, norm: Norm = None) -> Any:
        return _whole(ctx, x, [n], [dim], norm, kind)

    def several(default: Sequence[int] | None) -> Callable[..., Any]:
        def handler(
            ctx: TorchBuilder,
            x: Any,
            s: Sequence[int] | None = None,
            dim: Sequence[int] | None = default,
            norm: Norm = None,
        ) -> Any:
            return _whole(ctx, x, s, dim, norm, kind)

        return handler

    COMPLEX.handles(f"fft_{kind}")(along)
    COMPLEX.handles(f"fft_{kind}n")(several(None))
    COMPLEX.handles(f"fft_{kind}2")(several((-2, -1)))


for _kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _enter(_kind)


@COMPLEX.handles("stft")
def stft(
    ctx: TorchBuilder, x: Variable, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Variable | None = None, normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Any:  # fmt: skip
    """``[..., bins, frames]`` of a signal that is padded already."""
    if align_to_window:
        raise ctx.unsupported("frames that are aligned to their window", "leave align_to_window away")
    n_fft = _length(ctx, n_fft)
    length = n_fft if win_length is None else _length(ctx, win_length)
    frames = unfold(ctx, ctx.as_float(x.read(ctx)), -1, n_fft, n_fft // 4 if hop_length is None else hop_length)
    left = (n_fft - length) // 2
    if window is not None or length < n_fft:
        shape = ctx.const(np.ones(length, np.float32)) if window is None else window.read(ctx)
        shape = ctx.op("Padding", shape, ctx.const([left, n_fft - length - left]), mode="CONSTANT")
        frames = ctx.binary("MUL", frames, shape)
    spectrum = r2c(ctx, Variable(frames), [-1], int(normalized), onesided is not False).numbers(ctx)
    rank = ctx.rank_of(spectrum)
    turned = ctx.rows(spectrum, [*range(rank - 3), rank - 2, rank - 3, rank - 1])
    return Variable(turned) if return_complex is False else made(turned)


@COMPLEX.handles("istft")
def istft(
    ctx: TorchBuilder, z: Complex, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Variable | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """The signal of frames ``[..., bins, frames]``: they are added where they overlap, and divided by what their
    windows add up to there (Griffin and Lim 1984)."""
    if return_complex:
        raise ctx.unsupported("a complex signal", "leave return_complex away")
    n_fft = _length(ctx, n_fft)
    hop = n_fft // 4 if hop_length is None else _length(ctx, hop_length)
    width = n_fft if win_length is None else _length(ctx, win_length)
    spectrum = z.numbers(ctx)
    rank = ctx.rank_of(spectrum)
    turned = made(ctx.rows(spectrum, [*range(rank - 3), rank - 2, rank - 3, rank - 1]))
    if onesided is False:
        whole = c2c(ctx, turned, [-1], 1 if normalized else 2, False).numbers(ctx)
        frames = apply(ctx, "select", [whole, -1, 0], {})
    else:
        frames = c2r(ctx, turned, [-1], 1 if normalized else 2, n_fft).read(ctx)
    left = (n_fft - width) // 2
    shape = ctx.const(np.ones(width, np.float32)) if window is None else window.read(ctx)
    shape = apply(ctx, "constant_pad_nd", [shape, [left, n_fft - width - left]], {})
    signal = _added_up(ctx, ctx.binary("MUL", frames, shape), hop)
    count = ctx.size(frames, -2)
    weights = _added_up(ctx, ctx.expand(ctx.unary("SQUARE", shape), ctx.ints([count, n_fft])), hop)
    start = n_fft // 2 if center else 0
    end = -(n_fft // 2) if center and n_fft > 1 else END
    parts = [cut(ctx, v, ctx.rank_of(v) - 1, start, end if length is None else END) for v in (signal, weights)]
    if length is not None:  # what lies behind the last frame is silence
        parts = [cut(ctx, v, ctx.rank_of(v) - 1, 0, _length(ctx, length)) for v in parts]
    out = ctx.binary("REALDIV", *parts)
    have = _size(out, -1)
    if length is not None and have is not None and have < length:
        out = apply(ctx, "constant_pad_nd", [out, [0, length - have]], {})
    return Variable(out)


def _added_up(ctx: TorchBuilder, frames: Value, hop: int) -> Value:
    """Frames ``[..., T, n]`` that begin ``hop`` apart, added up where they overlap: ``[..., n + hop * (T - 1)]``.

    Each is cut into pieces as long as the hop; the pieces of one kind are lines of their own, a hop later each.
    """
    rank, width = ctx.rank_of(frames), ctx.known(ctx.size(frames, -1), "the length of frames")
    pieces = -(-width // hop)
    if pieces * hop > width:
        frames = apply(ctx, "constant_pad_nd", [frames, [0, pieces * hop - width]], {})
    total: Value | None = None
    for i in range(pieces):
        line = cut(ctx, frames, rank - 1, i * hop, (i + 1) * hop)
        line = apply(ctx, "constant_pad_nd", [line, [0, 0, i, pieces - 1 - i]], {})
        total = line if total is None else ctx.binary("ADD", total, line)
    assert total is not None
    out = ctx.reshape(total, [*ctx.sizes(total)[:-2], -1])
    spare = pieces * hop - width
    return cut(ctx, out, rank - 2, 0, -spare) if spare else out
