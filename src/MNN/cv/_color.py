"""Conversions between colour spaces, by table. 8-bit formulas are the fixed-point ones of OpenCV's documentation."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from MNN.cv import _color_codes as codes
from MNN.cv._array import Array, _wrap, as_array, as_planes, to_dtype
from MNN.cv.kernels import colors as kernels
from MNN.cv.spaces import hls, lab, packed
from MNN.errors import ShapeError, UnsupportedError
from MNN.expr.var import Var

_Convert = Callable[[Array], Array]
_RGB_WEIGHTS = (0.299, 0.587, 0.114)  # ITU-R BT.601


def cvtColor(src: ArrayLike, code: int, dstCn: int = 0) -> Var:  # noqa: N802
    """The picture in another colour space; ``code`` is one of ``COLOR_*``.

    src uint8 or float32 (values 0-1 where the conversion needs a range), (h, w, channels) or (h, w). The result keeps
    its channel axis even for one channel. ``dstCn`` is ignored (the code decides). YUV 4:2:0 pictures have the shape
    (h * 3 / 2, w). Raises ``UnsupportedError`` for conversions that are not there, ``ShapeError`` for wrong channels.
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
    if image.dtype not in (np.uint8, np.float32):
        image = to_dtype(image, np.dtype(np.uint8)) if image.dtype.kind in "iub" else image.astype(np.float32)
    if image.shape[2] not in channels:
        raise ShapeError(f"src has {image.shape[2]} channels; this conversion needs {' or '.join(map(str, channels))}")
    found = kernels.converted(image, plans)
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
    if rgb.dtype == np.uint8:
        total = blue.astype(np.int32) * 3735 + green.astype(np.int32) * 19235 + red.astype(np.int32) * 9798
        return ((total + (1 << 14)) >> 15).astype(np.uint8)[:, :, None]
    gray = blue * np.float32(0.114) + green * np.float32(0.587) + red * np.float32(0.299)
    return np.asarray(gray, np.float32)[:, :, None]


def _top(image: Array) -> float:
    return 255.0 if image.dtype == np.uint8 else 1.0


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


def _then_reversed(convert: _Convert) -> _Convert:
    return lambda image: convert(image)[:, :, ::-1]


def _linear(matrix: Array, before: float, after: tuple[float, float, float]) -> _Convert:
    """``matrix @ (pixel - offset) + offset``: ``before`` is taken off channels 1 and 2, ``after`` added (of 1.0)."""

    def convert(image: Array) -> Array:
        top = 255.0 if image.dtype == np.uint8 else 1.0
        values = image.astype(np.float32)
        if before:
            values[:, :, 1:] -= 128.0 if image.dtype == np.uint8 else before
        result = values @ matrix.T.astype(np.float32)
        offset = np.array([128.0 if a == 0.5 and top == 255.0 else a * top for a in after], np.float32)
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


def _to_hsv(hues: int) -> _Convert:
    """From RGB. Hue in ``hues`` steps a circle (8 bit) or degrees; saturation and value of 255 or 1."""

    def convert(image: Array) -> Array:
        r, g, b = (image[:, :, i].astype(np.float32) for i in range(3))
        value = np.maximum(np.maximum(r, g), b)
        spread = value - np.minimum(np.minimum(r, g), b)
        safe = np.where(spread == 0, 1, spread)
        hue = np.where(value == r, (g - b) / safe, np.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe))
        hue = np.where(spread == 0, 0, hue)
        hue = np.where(hue < 0, hue + 6, hue)
        saturation = np.where(value == 0, 0, spread / np.where(value == 0, 1, value))
        if image.dtype == np.uint8:
            steps = np.rint(hue * (hues / 6)) % hues
            return to_dtype(np.stack([steps, saturation * 255, value], 2), image.dtype)
        return np.stack([hue * 60, saturation, value], 2).astype(np.float32)

    return convert


def _from_hsv(hues: int) -> _Convert:
    """To RGB, the inverse of :func:`_to_hsv`."""

    def convert(image: Array) -> Array:
        h, s, v = (image[:, :, i].astype(np.float32) for i in range(3))
        if image.dtype == np.uint8:
            h, s = h * np.float32(6 / hues), s / np.float32(255)
        else:
            h = h / np.float32(60)
        # Channel n falls from v to v(1-s) where the hue is far from its own (Smith, 1978).
        channels = []
        for n in (5, 3, 1):
            k = (n + h) % 6
            channels.append(v - v * s * np.clip(np.minimum(k, 4 - k), 0, 1))
        return to_dtype(np.stack(channels, 2), image.dtype)

    return convert


def _split_420(image: Array, layout: str) -> tuple[Array, Array, Array]:
    """Y, U, V planes at full size of a 4:2:0 picture of shape (h * 3 / 2, w, 1)."""
    rows, width = image.shape[:2]
    if rows % 3 or width % 2 or image.dtype != np.uint8:
        raise ShapeError(f"a 4:2:0 picture is uint8 of shape (h * 3 / 2, w), even; src is {image.shape}, {image.dtype}")
    height = rows // 3 * 2
    luma, chroma = image[:height, :, 0], image[height:, :, 0].reshape(-1)
    if layout in ("nv12", "nv21"):
        planes = chroma.reshape(height // 2, width // 2, 2)
        first, second = planes[:, :, 0], planes[:, :, 1]
    else:
        first, second = chroma.reshape(2, height // 2, width // 2)
    u, v = (first, second) if layout in ("nv12", "i420") else (second, first)
    full = [np.repeat(np.repeat(plane, 2, 0), 2, 1) for plane in (u, v)]
    return luma, full[0], full[1]


def _from_420(layout: str, order: tuple[int, ...]) -> _Convert:
    """ITU-R BT.601 with Y from 16 to 235, in 20-bit fixed point."""

    return _from_planes(lambda image: _split_420(image, layout), order)


def _from_planes(split: Callable[[Array], tuple[Array, Array, Array]], order: tuple[int, ...]) -> _Convert:
    def convert(image: Array) -> Array:
        y, u, v = (plane.astype(np.int32) for plane in split(image))
        y, u, v = np.maximum(y - 16, 0) * 1220542, u - 128, v - 128
        half = 1 << 19
        rgb = np.stack([y + 1673527 * v, y - 852492 * v - 409993 * u, y + 2116026 * u], 2)
        return _take(order)(np.clip((rgb + half) >> 20, 0, 255).astype(np.uint8))

    return convert


_Entry = tuple[tuple[int, ...], _Convert, kernels.Plans]
"""Numbers of channels that a conversion takes, the conversion in numpy, and as kernels have it."""


def _table() -> dict[int, _Entry]:
    table: dict[int, _Entry] = {}

    def add(name: str, channels: tuple[int, ...], convert: _Convert, plans: kernels.Plans) -> None:
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
    for name, hues, hues_back in (("HSV", 180, 180), ("HSV_FULL", 256, 255)):
        space, _, full = name.partition("_")
        ending = f"_{full}" if full else ""
        add(f"RGB2{name}", (3,), _to_hsv(hues), kernels.hsv(straight, hues))
        add(f"BGR2{name}", (3,), _reversed(_to_hsv(hues)), kernels.hsv(back, hues))
        add(f"{space}2RGB{ending}", (3,), _from_hsv(hues_back), {})
        add(f"{space}2BGR{ending}", (3,), _then_reversed(_from_hsv(hues_back)), {})
    for layout in ("nv12", "nv21", "i420", "yv12"):
        for to, take in {"RGB": (0, 1, 2), "BGR": (2, 1, 0), "RGBA": (0, 1, 2, -1), "BGRA": (2, 1, 0, -1)}.items():
            add(f"YUV2{to}_{layout.upper()}", (1,), _from_420(layout, take), {})
    add("YUV2GRAY_420", (1,), lambda image: image[: image.shape[0] // 3 * 2], {})
    for name, (count, convert) in _without_kernels().items():
        add(name, (count,), convert, {})
    return table


def _without_kernels() -> dict[str, tuple[int, _Convert]]:
    """Conversions of :mod:`MNN.cv.spaces`, by name, and how many channels they take."""
    found: dict[str, tuple[int, _Convert]] = {}
    for name, order in {"BGR": (0, 1, 2), "RGB": (2, 1, 0), "BGRA": (0, 1, 2, 3), "RGBA": (2, 1, 0, 3)}.items():
        take, count = _take(order), len(order)
        for bits, words in _WORDS.items():
            found[f"{name}2{words}"] = count, lambda x, t=take, n=bits: packed.to_16(t(x), n)  # type: ignore[misc]
            found[f"{words}2{name}"] = 2, lambda x, t=take, n=bits: t(packed.from_16(x, n))  # type: ignore[misc]
        for layout in ("I420", "YV12"):
            to_420 = functools.partial(packed.to_420, layout=layout.lower())
            found[f"{name}2YUV_{layout}"] = count, lambda x, t=take, to=to_420: to(t(x)[:, :, 2::-1])  # type: ignore[misc]
        from_red = tuple(-1 if i == 3 else 2 - i for i in order)
        for layout in ("UYVY", "YUYV", "YVYU"):
            split = functools.partial(packed.split_422, layout=layout.lower())
            found[f"YUV2{name}_{layout}"] = 2, _from_planes(split, from_red)
    for bits, words in _WORDS.items():
        found[f"GRAY2{words}"] = 1, lambda x, n=bits: packed.to_16(np.repeat(x, 3, 2), n)  # type: ignore[misc]
        found[f"{words}2GRAY"] = 2, lambda x, n=bits: to_gray(packed.from_16(x, n))  # type: ignore[misc]
    for layout in ("UYVY", "YUYV"):
        found[f"YUV2GRAY_{layout}"] = 2, functools.partial(packed.luma_422, layout=layout.lower())
    found["RGBA2mRGBA"], found["mRGBA2RGBA"] = (4, packed.premultiplied), (4, packed.unmultiplied)
    for ending, hues in (("", 180), ("_FULL", 255)):
        there, back = functools.partial(hls.to_hls, hues=hues), functools.partial(hls.from_hls, hues=hues)
        found[f"RGB2HLS{ending}"], found[f"BGR2HLS{ending}"] = (3, there), (3, _reversed(there))
        found[f"HLS2RGB{ending}"], found[f"HLS2BGR{ending}"] = (3, back), (3, _then_reversed(back))
    for space in ("Lab", "Luv"):
        for light, srgb in (("", True), ("L", False)):
            there = functools.partial(lab.to_lightness, space=space, srgb=srgb)
            back = functools.partial(lab.from_lightness, space=space, srgb=srgb)
            found[f"{light}RGB2{space}"], found[f"{light}BGR2{space}"] = (3, there), (3, _reversed(there))
            found[f"{space}2{light}RGB"], found[f"{space}2{light}BGR"] = (3, back), (3, _then_reversed(back))
    return found


_WORDS = {6: "BGR565", 5: "BGR555"}
"""Pixels of 16 bits, by the bits of green."""


_TABLE = _table()
