"""Which tiles of Winograd's method a convolution may use, and how its sums must be cut for that.

Which may be used is decided by their error against that of plain fp32 sums (root mean square, for normal weights
and inputs behind a ReLU, 32 to 256 channels; in brackets with partial sums of 32 channels, or 16 in square ones):

====================  =====  ========================================
positions per side    1-D    2-D
====================  =====  ========================================
4                     0.9    0.7
5                            1.6 for 16 channels, 1.2 for 32
6                     1.6    2.4 (1.9 for 48 channels, 0.9 for 256)
                             [2.0 for 32 channels, 2.7 for 16]
7                            [5 taps: 1.9 for 48 channels, 2.0 for 64, 1.4 for 128]
8                     2.3 (3)  9 (5)
9                     [7 taps: 1.9 for 128 channels, 1.7 for 192, partial sums of 32]
10                    4.8 (2.3 to 3.8) [2.6 for 128 channels, 2.3 for 192]
====================  =====  ========================================

With taps along a third axis these are sums over channels and that axis, which are longer in plain sums too.

By inner products (:mod:`MNN.backends.cpu.winograd.code_inner_products`) these are 1.2 to 1.4 times as large up to six
positions and 1.6 times beyond; in planes with six 2.4 to 2.5 for 48 channels and 2.1 for 64 [16 channels: 1.9 for 80,
1.8 for 96, 1.7 for 128; 32 channels: 1.9 for 128], along lines 2.0 for 32 channels and 64. So they need shorter partial
sums, or more channels.

With stride 2, windows of three and 2 to 5 outputs along a line: 0.9, 1.2, 1.1, 1.8 for 16 channels, less for more; 2
and 3 outputs along both sides: 0.8.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from MNN.backends.cpu.winograd.fixed import CHUNK as FIXED_CHUNK

CHUNK, SMALL_CHUNK = 32, 16
"""Channels of a partial sum where the error must be that of plain fp32 sums; of few channels smaller ones."""
_INNER_PRODUCT_CHANNELS = 80
"""Channels from which inner products with six positions on both sides are as accurate."""


@dataclass(frozen=True)
class Work:
    """A convolution: images, outputs, channels in and out, window, stride along both sides; and along a third axis, if
    windows have ``taps`` there, its results, stride and dilation."""

    images: int
    oh: int
    ow: int
    c: int
    n: int
    rh: int
    rw: int
    fixed: bool = False
    """In fixed point: pairs of channels are multiplied at once, see :mod:`MNN.backends.cpu.winograd.fixed`."""
    stride: int = 1
    depths: int = 1
    taps: int = 1
    step: int = 1
    dilation: int = 1
    bytes: bool = field(default=False, kw_only=True)
    """Whether numbers take a byte in memory, and pairs of channels count as one."""
    groups: int = field(default=1, kw_only=True)
    """Groups of channels, each with ``c`` and ``n`` of its own."""


def name_of(work: Work, mh: int, mw: int) -> str:
    """What reports call tiles of so many outputs."""
    end = (f"/{work.stride}" if work.stride > 1 else "") + (f" x {work.taps}" if work.taps > 1 else "")
    end += " in 16 bits" if work.fixed else ""
    if work.rh == 1 or work.rw == 1:
        return f"Winograd F({mh * mw},{work.rh * work.rw}){end}"
    return f"Winograd F({mh}x{mw},{work.rh}x{work.rw}){end}"


def partial_sums(work: Work, positions: int, high: bool, inner_product: bool = False) -> int | None:
    """Channels per partial sum with so many positions per side (0: all), by plain products or inner products; None when
    the error were too large."""
    plane, taps = work.rh > 1 and work.rw > 1, max(work.rh, work.rw)
    if high and inner_product and positions > 5:
        return _inner_product_sums(work, positions, plane)
    if positions <= (4 if plane else 6):
        return 0
    if positions == 5:
        return 0 if plane and taps == 3 and work.c >= 16 else None
    if positions == 7 and (not plane or min(work.rh, work.rw) < 5):
        return None
    if positions > 8 and (plane or taps < {9: 7, 10: 5}[positions]):
        return None
    if not high:
        return 0 if positions == 6 else CHUNK
    if plane:
        fewest = {6: 32, 7: 48}.get(positions)
    else:
        fewest = {8: 64 if taps >= 5 else 128, 9: 128}.get(positions)
    if fewest is None or work.c < fewest:
        return None
    return SMALL_CHUNK if plane and work.c < {6: 48, 7: 96}[positions] else CHUNK


def _inner_product_sums(work: Work, positions: int, plane: bool) -> int | None:
    """The same by inner products, where plain fp32's error allows them at all."""
    summed = work.c * work.taps
    if positions > 6 or (plane and summed < _INNER_PRODUCT_CHANNELS):
        return None
    return CHUNK if summed >= (128 if plane else 64) else SMALL_CHUNK


def fixed_sums(work: Work, positions: int) -> int | None:
    """The same in fixed point, in pairs of channels: where the error stays near that of plain products of bf16."""
    taps = max(work.rh, work.rw)
    most = 6 if work.rh > 1 and work.rw > 1 else 8 if taps < 7 else 9
    if positions > most:
        return None
    return FIXED_CHUNK // 2 if work.c > FIXED_CHUNK else 0
