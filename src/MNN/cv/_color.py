"""Conversions between colour spaces, by table. 8-bit formulas are the fixed-point ones of OpenCV's documentation."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv import _color_codes as codes
from MNN.cv._array import Array, _wrap, as_array, as_planes, to_dtype
from MNN.cv.kernels import colors as kernels
from MNN.cv.spaces import hues, lab, packed, subsampled
from MNN.cv.spaces.numbers import Program
from MNN.errors import ShapeError, UnsupportedError
from MNN.expr.var import Var
from MNN.ir.dtype import DType

_Convert = Callable[[Array], Array]
_RGB_WEIGHTS = (0.299, 0.587, 0.114)  # ITU-R BT.601


def cvtColor(src: ArrayLike, code: int, dstCn: int = 0) -> Var:  # noqa: N802
    """The picture in another colour space; ``code`` is one of ``COLOR_*``.

    src uint8 or float32 (values 0-1 where the conversion needs a range), (h, w, channels) or (h, w); uint16, too, where
    channels are moved or weighted (other whole numbers are read as bytes). The result keeps its channel axis even for
    one channel. ``dstCn`` is ignored (the code decides). YUV 4:2:0 pictures have the shape
    (h * 3 / 2, w). Raises ``UnsupportedError`` for conversions that are not there, ``ShapeError`` for wrong channels
    or types.
    """
    del dstCn
    return _wrap(convert_color(as_planes(src), code))


def convert_color(image: Array, code: int) -> Array:
    """What :func:`cvtColor` does, on an array with a channel axis."""
    entry = _TABLE.get(code)
    if entry is None:
        names = [name for name, value in vars(codes).items() if "COLOR_" in name and value == code]
        what = " or ".join(names) or f"the code {code}"
        raise UnsupportedError(f"cvtColor cannot do {what} yet; convert the picture before, or to RGB or GRAY")
    channels, convert, plans = entry
    if image.dtype == np.uint16:
        if code not in _OF_16_BITS:
            raise ShapeError("src is uint16; this conversion takes uint8 or float32")
    elif image.dtype not in (np.uint8, np.float32):
        image = to_dtype(image, np.dtype(np.uint8)) if image.dtype.kind in "iub" else image.astype(np.float32)
    if image.shape[2] not in channels:
        raise ShapeError(f"src has {image.shape[2]} channels; this conversion needs {' or '.join(map(str, channels))}")
    if plans is not None and image.dtype not in plans and image.dtype != np.uint16:
        raise ShapeError(f"src is {image.dtype}; this conversion takes uint8 alone")
    found = kernels.converted(image, plans) if plans is not None else None
    return np.ascontiguousarray(convert(image)) if found is None else found


def cvtColorTwoPlane(src1: ArrayLike, src2: ArrayLike, code: int) -> Var:  # noqa: N802
    """RGB from an NV12 or NV21 picture in two planes: src1 (h, w), src2 with h * w / 2 values; uint8."""
    planes = as_planes(src1, "src1").astype(np.uint8)
    luma: Array = planes[:, :, 0]
    chroma = as_array(src2, "src2").astype(np.uint8)
    if planes.shape[2] != 1 or chroma.size != luma.size // 2 or luma.shape[0] % 2 or luma.shape[1] % 2:
        raise ShapeError(
            f"src2 has {chroma.size} values; a picture of shape {luma.shape} (even) needs {luma.size // 2}"
        )
    return cvtColor(np.concatenate([luma, chroma.reshape(luma.shape[0] // 2, luma.shape[1])]), code)


def to_gray(rgb: Array) -> Array:
    """Luminance (h, w, 1) of channels in the order blue, green, red (alpha ignored)."""
    blue, green, red = (rgb[:, :, i] for i in range(3))
    if rgb.dtype.kind == "u":  # of 16 bits 32 are enough, too
        total = blue.astype(np.int32) * 3735 + green.astype(np.int32) * 19235 + red.astype(np.int32) * 9798
        return ((total + (1 << 14)) >> 15).astype(rgb.dtype)[:, :, None]
    gray = blue * np.float32(0.114) + green * np.float32(0.587) + red * np.float32(0.299)
    return np.asarray(gray, np.float32)[:, :, None]


def _top(image: Array) -> float:
    return float(np.iinfo(image.dtype).max) if image.dtype.kind == "u" else 1.0


def _take(order: tuple[int, ...]) -> _Convert:
    """Channels in a new order; -1 is a new opaque alpha."""

    def convert(image: Array) -> Array:
        result = np.empty((*image.shape[:2], len(order)), image.dtype)
        for to, source in enumerate(order):
            result[:, :, to] = _top(image) if source < 0 else image[:, :, source]
        return result

    return convert


def _reversed(convert: _Convert) -> _Convert:
    """The same for input in the other order of red and blue."""
    return lambda image: convert(image[:, :, [2, 1, 0]])


def _linear(matrix: Array, before: float, after: tuple[float, float, float]) -> _Convert:
    """``matrix @ (pixel - offset) + offset``: ``before`` is taken off channels 1 and 2, ``after`` added (of 1.0)."""

    def convert(image: Array) -> Array:
        top = _top(image)
        half = 0.5 if top == 1 else (top + 1) / 2
        values = image.astype(np.float32)
        if before:
            values[:, :, 1:] -= half
        result = values @ matrix.T.astype(np.float32)
        offset = np.array([half if a == 0.5 else a * top for a in after], np.float32)
        return to_dtype(result + offset, image.dtype)

    return convert


def _luma_chroma(cr_first: bool, red: float, blue: float) -> Array:
    """RGB to Y, then (R - Y) * red and (B - Y) * blue, in the order asked for."""
    y = np.array(_RGB_WEIGHTS)
    cr, cb = (np.array([1, 0, 0]) - y) * red, (np.array([0, 0, 1]) - y) * blue
    return np.array([y, cr, cb] if cr_first else [y, cb, cr])


_YCRCB = _luma_chroma(True, 0.713, 0.564)
_YUV = _luma_chroma(False, 0.877, 0.492)
_FROM_YCRCB = np.array([[1, 1.403, 0], [1, -0.714, -0.344], [1, 0, 1.773]])
_FROM_YUV = np.array([[1, 0, 1.140], [1, -0.395, -0.581], [1, 2.032, 0]])


_Entry = tuple[tuple[int, ...], _Convert, kernels.Plans | None]
"""Numbers of channels that a conversion takes, the conversion in numpy, and as kernels have it (None: it asks them
itself)."""


_OF_16_BITS: set[int] = set()
"""Conversions that take pictures of uint16."""


def _table() -> dict[int, _Entry]:
    table: dict[int, _Entry] = {}

    def add(name: str, channels: tuple[int, ...], convert: _Convert, plans: kernels.Plans | None) -> None:
        table[getattr(codes, f"COLOR_{name}")] = channels, convert, plans

    straight, back = (0, 1, 2), (2, 1, 0)
    orders = {"BGR": "bgr", "RGB": "rgb", "BGRA": "bgra", "RGBA": "rgba"}
    for source, letters in orders.items():
        for to, wanted in orders.items():
            if hasattr(codes, f"COLOR_{source}2{to}"):
                take = tuple(letters.find(letter) for letter in wanted)
                add(f"{source}2{to}", (len(letters),), _take(take), kernels.taken(take))
        blue_first = source.startswith("BGR")
        gray = to_gray if blue_first else _reversed(to_gray)
        add(f"{source}2GRAY", (len(letters),), gray, kernels.gray(straight if blue_first else back))
        take = (0, 0, 0, -1)[: len(letters)]
        add(f"GRAY2{source}", (1,), _take(take), kernels.taken(take))
    linear = {"YCrCb": (_YCRCB, _FROM_YCRCB), "YUV": (_YUV, _FROM_YUV), "XYZ": (lab.XYZ, np.linalg.inv(lab.XYZ))}
    for name, (matrix, inverse) in linear.items():
        half = 0.0 if name == "XYZ" else 0.5
        to_space, from_space = (matrix, 0.0, (0.0, half, half)), (inverse, half, (0.0, 0.0, 0.0))
        backwards = (inverse[::-1], *from_space[1:])
        add(f"RGB2{name}", (3,), _linear(*to_space), kernels.weighted(straight, *to_space))
        add(f"BGR2{name}", (3,), _reversed(_linear(*to_space)), kernels.weighted(back, *to_space))
        add(f"{name}2RGB", (3,), _linear(*from_space), kernels.weighted(straight, *from_space))
        add(f"{name}2BGR", (3,), _linear(*backwards), kernels.weighted(straight, *backwards))
    _OF_16_BITS.update(table)
    for name, (channels, plans) in _programs().items():
        add(name, (channels,), functools.partial(kernels.interpreted, plans=plans), plans)
    for name, (channels, convert) in _shared().items():
        add(name, (channels,), convert, None)
    return table


def _programs() -> dict[str, tuple[int, kernels.Plans]]:
    """Conversions by the programs of :mod:`MNN.cv.spaces`, by name, and how many channels they take."""
    found: dict[str, tuple[int, kernels.Plans]] = {}
    straight, back = (0, 1, 2), (2, 1, 0)

    def both_ways(space: str, ending: str, there: Program, here: Program, light: str = "") -> None:
        """Between ``space`` and red, green and blue in both orders."""
        for colours, order in (("RGB", straight), ("BGR", back)):
            found[f"{light}{colours}2{space}{ending}"] = 3, kernels.computed(order, there)
            found[f"{space}2{light}{colours}{ending}"] = 3, kernels.computed(straight, here, order)

    partial = functools.partial
    for ending, steps, steps_back in (("", 180, 180), ("_FULL", 256, 255)):
        both_ways("HSV", ending, partial(hues.to_hsv, hues=steps), partial(hues.from_hsv, hues=steps_back))
        both_ways("HLS", ending, partial(hues.to_hls, hues=steps_back), partial(hues.from_hls, hues=steps_back))
    for space in ("Lab", "Luv"):
        for light, srgb in (("", True), ("L", False)):
            there, here = (partial(f, space=space, srgb=srgb) for f in (lab.to_lightness, lab.from_lightness))
            both_ways(space, "", there, here, light)
    whole = partial(kernels.computed, floats=False, kind=DType.I32)
    for bits, words in _WORDS.items():
        there, here = partial(packed.to_16, bits=bits), partial(packed.from_16, bits=bits)
        for name, order in {"BGR": straight, "RGB": back, "BGRA": (0, 1, 2, 3), "RGBA": (2, 1, 0, 3)}.items():
            found[f"{name}2{words}"] = len(order), whole(order, there, (0, 1))
            found[f"{words}2{name}"] = 2, whole((0, 1), here, order)
        found[f"GRAY2{words}"] = 1, whole((0, 0, 0), there, (0, 1))
        found[f"{words}2GRAY"] = 2, whole((0, 1), partial(packed.gray_of_16, bits=bits), (0,))
    alpha = partial(kernels.computed, (0, 1, 2, 3), results=(0, 1, 2, 3), floats=False)
    found["RGBA2mRGBA"], found["mRGBA2RGBA"] = (4, alpha(packed.premultiplied)), (4, alpha(packed.unmultiplied))
    return found


def _shared() -> dict[str, tuple[int, _Convert]]:
    """Conversions of pictures with shared chroma, by name, and how many channels they take."""
    found: dict[str, tuple[int, _Convert]] = {}
    partial = functools.partial
    for name, order in {"RGB": (0, 1, 2), "BGR": (2, 1, 0), "RGBA": (0, 1, 2, -1), "BGRA": (2, 1, 0, -1)}.items():
        for layout in ("nv12", "nv21", "i420", "yv12", "uyvy", "yuyv", "yvyu"):
            way = subsampled.layout_of(layout)
            found[f"YUV2{name}_{layout.upper()}"] = (
                2 - way.shift,
                partial(subsampled.from_shared, layout=way, order=order),
            )
        for layout in ("i420", "yv12"):
            convert = partial(subsampled.to_420, order=(order[0], order[1], order[2]), layout=layout)
            found[f"{name}2YUV_{layout.upper()}"] = len(order), convert
    for ending, layout in (("420", "i420"), ("UYVY", "uyvy"), ("YUYV", "yuyv")):
        way = subsampled.layout_of(layout)
        found[f"YUV2GRAY_{ending}"] = 2 - way.shift, partial(subsampled.luma, layout=way)
    return found


_WORDS = {6: "BGR565", 5: "BGR555"}
"""Pixels of 16 bits, by the bits of green."""


_TABLE = _table()
