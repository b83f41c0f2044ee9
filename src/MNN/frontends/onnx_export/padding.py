"""Padding of windows in ONNX's terms."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import UnsupportedError
from MNN.ir.graph import Value

MODES = {"CAFFE": "NOTSET", "VALID": "VALID", "SAME": "SAME_UPPER"} | {m: m for m in ("SAME_UPPER", "SAME_LOWER")}
"""``auto_pad`` by what MNN's operators call it."""


def padding(
    mode: str, pads: list[int], x: Value, spans: Sequence[int | str], strides: list[int], dilations: list[int]
) -> dict[str, object]:
    """``pads`` or ``auto_pad`` for windows of ``spans`` over the last axes of ``x``; ``pads`` are for both ends or
    for each.

    What ``SAME`` means is written out where it can be: ONNX Runtime refuses it with dilations, and for strides wider
    than the window finds a negative padding.
    """
    count = len(strides)
    if mode == "NOTSET":
        return {"pads": both_ends(pads, count)}
    sizes = x.shape[-count:] if x.shape is not None else (None,) * count
    found = [_same(*axis) for axis in zip(sizes, spans, strides, dilations, strict=True)]
    totals = [t for t in found if t is not None]
    if mode == "VALID" or len(totals) < count:
        return {"auto_pad": mode}
    begins = [(t + 1) // 2 if mode == "SAME_LOWER" else t // 2 for t in totals]
    return {"pads": [*begins, *(t - b for t, b in zip(totals, begins, strict=True))]}


def both_ends(pads: list[int], count: int) -> list[int]:
    """Pads at the beginnings and ends of ``count`` axes, given for these, for both alike, or not at all."""
    pads = pads or [0] * count
    return [*pads, *pads] if len(pads) == count else pads


def _same(size: object, span: object, stride: int, dilation: int) -> int | None:
    """What is added to an axis for as many results as fit into it by strides; None where its size is needed."""
    if not isinstance(span, int) or not (stride == 1 or isinstance(size, int)):
        return None
    reach = (span - 1) * dilation + 1
    if not isinstance(size, int):
        return reach - 1
    return max((-(-size // stride) - 1) * stride + reach - size, 0)


def without_last(
    pads: list[int], x: Value, spans: Sequence[int], strides: list[int], counted: bool
) -> list[int] | None:
    """Caffe rounds the number of windows up, but leaves out a last one that begins behind all data: pads for as many
    windows as that are when rounded down. None where no axis has such a one, and ONNX's rounding up serves.

    ``counted``: padding counts in averages. Raises :class:`UnsupportedError` where no padding then means the same.
    """
    count = len(strides)
    sizes = x.shape[-count:] if x.shape is not None else ()
    begins, ends = pads[:count], pads[count:]
    found, left_out = [], False
    for size, span, stride, begin, end in zip(sizes, spans, strides, begins, ends, strict=False):
        if not isinstance(size, int):
            return None
        last = -(-(size + begin + end - span) // stride)
        left_out |= (behind := last * stride >= size + begin)
        found.append(max((last - behind) * stride + span - size - begin, 0))
    if not left_out:
        return None
    if counted and any(new > old for new, old in zip(found, ends, strict=True)):
        raise UnsupportedError("ONNX has no averages over windows that Caffe counts up to its padding alone")
    return [*begins, *found]
