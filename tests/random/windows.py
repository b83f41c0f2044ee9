"""What window operators share: drawing their geometry, and their meaning in numpy by plain definition, in float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.random.case import Draw


@dataclass
class Geometry:
    """Where windows lie. ``pads`` are begins, then ends."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    auto_pad: str = "NOTSET"

    @property
    def spans(self) -> list[int]:
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def attributes(self, draw: Draw) -> dict[str, Any]:
        """As ONNX writes them; a default is written or left out."""
        ones = [1] * len(self.kernel)
        found: dict[str, Any] = {}
        if self.strides != ones or draw.flag():
            found["strides"] = self.strides
        if self.dilations != ones or draw.flag(0.3):
            found["dilations"] = self.dilations
        if self.auto_pad != "NOTSET":
            found["auto_pad"] = self.auto_pad
        elif any(self.pads) or draw.flag(0.3):
            found["pads"] = self.pads
        return found


def rank(draw: Draw) -> int:
    """Spatial axes: mostly two."""
    return int(draw.choice([1, 2, 2, 2, 3]))


def geometry(draw: Draw, count: int, dilated: bool = True, pads_below_kernel: bool = False) -> Geometry:
    """Each parameter is plain on some axes and odd on others."""
    kernel = [int(draw.often(3, [1, 2, 3, 4, 5, 7], 0.4)) for _ in range(count)]
    if count == 3:
        kernel = [min(k, 4) for k in kernel]
    if draw.flag(0.15):
        kernel = [kernel[0]] * count
    strides = [int(draw.often(1, [1, 2, 3, 4], 0.4)) for _ in range(count)]
    dilations = [int(draw.often(1, [1, 2, 3], 0.5)) if dilated else 1 for _ in range(count)]
    made = Geometry(kernel, strides, dilations, [0] * 2 * count)
    if draw.flag(0.75):
        most = [k - 1 if pads_below_kernel else s for k, s in zip(kernel, made.spans, strict=True)]
        made.pads = [draw.int(0, min(m, 4)) for m in most * 2]
        if draw.flag(0.3):
            made.pads = made.pads[:count] * 2
    made.auto_pad = draw.often("NOTSET", ["VALID", "SAME_UPPER", "SAME_LOWER"], 0.75)
    return made


def sizes(draw: Draw, made: Geometry) -> list[int]:
    """Input extents, at least as large as the window asks for."""
    most = {1: 40, 2: 18, 3: 9}[len(made.kernel)]
    count = len(made.kernel)
    found = []
    for axis, span in enumerate(made.spans):
        need = span - (made.pads[axis] + made.pads[axis + count] if made.auto_pad == "NOTSET" else 0)
        if made.auto_pad.startswith("SAME"):
            need = 1
        least = max(need, 1)
        found.append(draw.int(least, max(least + 3, most)))
    return found


def resolved(made: Geometry, extents: Sequence[int]) -> list[int]:
    """Explicit pads for the geometry's ``auto_pad``."""
    if made.auto_pad == "VALID":
        return [0] * len(made.pads)
    if made.auto_pad == "NOTSET":
        return made.pads
    begins, ends = [], []
    for n, s, span in zip(extents, made.strides, made.spans, strict=True):
        total = max((-(-n // s) - 1) * s + span - n, 0)
        less, more = total // 2, total - total // 2
        begins.append(less if made.auto_pad == "SAME_UPPER" else more)
        ends.append(more if made.auto_pad == "SAME_UPPER" else less)
    return begins + ends


def below_stride(made: Geometry, extents: Sequence[int]) -> bool:
    """Whether SAME's formula gives pads of less than nothing."""
    totals = [(-(-n // s) - 1) * s + k - n for n, s, k in zip(extents, made.strides, made.spans, strict=True)]
    return min(totals) < 0


def pool_excuse(made: Geometry, extents: Sequence[int]) -> str:
    """Why ONNX Runtime's pooling is not asked about a SAME geometry, or nothing."""
    if not made.auto_pad.startswith("SAME"):
        return ""
    if any(d > 1 and k > 1 for d, k in zip(made.dilations, made.kernel, strict=True)):
        return "auto_pad SAME with dilations: it pads as if there were none"
    if below_stride(made, extents):
        return "auto_pad SAME with a window below the stride: it pads by less than nothing"
    return ""


def taps(kernel: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(k) for k in kernel))


def convolve(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, made: Geometry, groups: int, fill: float = 0
) -> np.ndarray:
    """``x[N, C, ...]``, ``w[O, C/groups, ...]`` to ``[N, O, ...]``: a sum over taps of shifted inputs."""
    count = len(made.kernel)
    pads = resolved(made, x.shape[2:])
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *zip(pads[:count], pads[count:], strict=True)],
               constant_values=fill)  # fmt: skip
    out = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], made.spans, made.strides, strict=True)]
    x = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    total = np.zeros((x.shape[0], groups, w.shape[1], *out))
    for tap in taps(made.kernel):
        cut = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, s, o in zip(tap, made.dilations, made.strides, out, strict=True)
        )
        total += np.einsum("ngc...,goc->ngo...", x[(..., *cut)], w[(..., *tap)])
    total = total.reshape(total.shape[0], -1, *out)
    return total if bias is None else total + bias.astype(np.float64).reshape(-1, *[1] * count)


def transpose_convolve(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    made: Geometry,
    groups: int,
    begins: Sequence[int],
    extents: Sequence[int],
) -> np.ndarray:
    """``x[N, C, ...]``, ``w[C, O/groups, ...]`` to ``[N, O, extents]``: every input is spread over the whole output, of
    which ``extents`` from ``begins`` on are taken (zeros where nothing was spread)."""
    count = len(made.kernel)
    grouped = x.astype(np.float64).reshape(x.shape[0], groups, -1, *x.shape[2:])
    w = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    margin = [max(0, -a) for a in begins]
    full = [
        m + max((n - 1) * s + span, a + e)
        for m, n, s, span, a, e in zip(margin, x.shape[2:], made.strides, made.spans, begins, extents, strict=True)
    ]
    total = np.zeros((x.shape[0], groups, w.shape[2], *full))
    for tap in taps(made.kernel):
        cut = tuple(
            slice(m + t * d, m + t * d + (n - 1) * s + 1, s)
            for m, t, d, s, n in zip(margin, tap, made.dilations, made.strides, x.shape[2:], strict=True)
        )
        total[(..., *cut)] += np.einsum("ngc...,gco->ngo...", grouped, w[(..., *tap)])
    inner = tuple(slice(m + a, m + a + e) for m, a, e in zip(margin, begins, extents, strict=True))
    total = total[(..., *inner)].reshape(x.shape[0], -1, *extents)
    return total if bias is None else total + bias.astype(np.float64).reshape(-1, *[1] * count)


def patches(x: np.ndarray, made: Geometry, pads: Sequence[int], ceil: bool, fill: Any) -> tuple[np.ndarray, np.ndarray]:
    """All windows ``[N, C, out..., taps]``, and in the same places whether a tap lies in the input (2), in the declared
    padding (1) or beyond it (0), ``[out..., taps]``."""
    count = len(made.kernel)
    begins, ends = pads[:count], pads[count:]
    out = []
    for n, a, z, span, s in zip(x.shape[2:], begins, ends, made.spans, made.strides, strict=True):
        room = n + a + z - span
        steps = -(-room // s) if ceil else room // s
        if ceil and steps * s >= n + a:  # a window that starts in the end's padding is none
            steps -= 1
        out.append(steps + 1)
    found = np.full((*x.shape[:2], *out, int(np.prod(made.kernel))), fill, x.dtype)
    kinds = np.zeros((*out, found.shape[-1]), np.int8)
    for place in itertools.product(*(range(o) for o in out)):
        for k, tap in enumerate(taps(made.kernel)):
            at = [p * s + t * d - a
                  for p, s, t, d, a in zip(place, made.strides, tap, made.dilations, begins, strict=True)]  # fmt: skip
            if all(0 <= i < n for i, n in zip(at, x.shape[2:], strict=True)):
                kinds[(*place, k)] = 2
                found[(slice(None), slice(None), *place, k)] = x[(slice(None), slice(None), *at)]
            elif all(-a <= i < n + z for i, n, a, z in zip(at, x.shape[2:], begins, ends, strict=True)):
                kinds[(*place, k)] = 1
    return found, kinds
