"""Convolutions, pooling and what else knows height and width: OpenCV has them too."""

from __future__ import annotations

import numpy as np

from tests.frontends.caffe.build import Word
from tests.frontends.caffe.cases.draw import Case, Draw, family


def _window(d: Draw, sizes: tuple[int, int]) -> tuple[dict[str, object], list[int]]:
    """Kernel, stride, pad and dilation in one of the ways in which they are written, and the kernel's sides."""
    dilation = d.int(1, 2)
    most = [(n - 1) // dilation + 1 for n in sizes]
    if d.flag():
        kernel = [d.int(1, min(3, *most))] * 2
        pad = d.int(0, 2)
        return {
            "kernel_size": kernel[0], "stride": d.one([None, 1, 2, 3]), "pad": pad or None,
            "dilation": None if dilation == 1 else dilation,
        }, kernel  # fmt: skip
    kernel = [d.int(1, min(3, m)) for m in most]
    return {
        "kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": d.int(1, 3), "stride_w": d.int(1, 3),
        "pad_h": d.int(0, 2), "pad_w": d.int(0, 2), "dilation": dilation,
    }, kernel  # fmt: skip


@family("Convolution")
def convolution(d: Draw) -> Case:
    group = d.int(1, 3)
    n, _, h, w = d.image(3, 10)
    x = d.input(n, group * d.int(1, 4), h, w)
    window, kernel = _window(d, (h, w))
    outputs, biased = group * d.int(1, 4), d.flag()
    blobs = [d.array(outputs, x.shape[1] // group, *kernel)] + ([d.array(outputs)] if biased else [])
    param = {"num_output": outputs, "group": None if group == 1 else group, "bias_term": None if biased else False}
    d.add("Convolution", ["data"], ["out"], *blobs, convolution_param={**param, **window})
    return d.case()


@family("DepthwiseConvolution", "ConvolutionDepthwise")
def depthwise(d: Draw, kind: str) -> Case:
    """OpenCV knows them as convolutions with groups; the sums are written out here."""
    n, channels, h, w = d.image(3, 8)
    x, size, stride, pad = d.input(n, channels, h, w), d.int(1, 3), d.int(1, 2), d.int(0, 1)
    weight, bias = d.array(channels, 1, size, size), d.array(channels)
    d.add(
        kind, ["data"], ["out"], weight, bias,
        convolution_param={"num_output": channels, "kernel_size": size, "stride": stride, "pad": pad},
    )  # fmt: skip
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))[:, :, ::stride, ::stride]
    return d.case(wanted=[np.einsum("nchwij,cij->nchw", views, weight[:, 0]) + bias[:, None, None]])


@family("Convolution line", "Convolution volume")
def convolution_nd(d: Draw, name: str) -> Case:
    """One and three axes, and channels in other places; the sums are written out."""
    count, axis = (1 if "line" in name else 3), d.int(1, 2)
    sizes = [d.int(3, 6) for _ in range(count)]
    lead = [d.int(1, 2) for _ in range(axis)]
    channels, outputs = d.int(1, 3), d.int(1, 4)
    x = d.input(*lead, channels, *sizes)
    kernel, stride, pad = [d.int(1, 3) for _ in sizes], [d.int(1, 2) for _ in sizes], [d.int(0, 1) for _ in sizes]
    weight, bias = d.array(outputs, channels, *kernel), d.array(outputs)
    param = {"num_output": outputs, "kernel_size": kernel, "stride": stride, "pad": pad, "axis": axis}
    d.add("Convolution", ["data"], ["out"], weight, bias, convolution_param=param)
    flat = np.pad(x.reshape(-1, channels, *sizes).astype(np.float64), [(0, 0), (0, 0), *((p, p) for p in pad)])
    views = np.lib.stride_tricks.sliding_window_view(flat, kernel, tuple(range(2, 2 + count)))
    views = views[(slice(None), slice(None), *(slice(None, None, s) for s in stride))]
    letters, inner = "xyz"[:count], "ijk"[:count]
    found = np.einsum(f"nc{letters}{inner},oc{inner}->no{letters}", views, weight)
    found += bias.reshape(-1, *([1] * count))
    return d.case(wanted=[found.reshape(*lead, *found.shape[1:])])


@family("Deconvolution")
def deconvolution(d: Draw) -> Case:
    group = d.int(1, 2)
    n, _, h, w = d.image(3, 7)
    x = d.input(n, group * d.int(1, 3), h, w)
    outputs, size, biased = group * d.int(1, 3), d.int(1, 4), d.flag()
    pad = d.int(0, (size - 1) // 2)
    blobs = [d.array(x.shape[1], outputs // group, size, size)] + ([d.array(outputs)] if biased else [])
    param = {
        "num_output": outputs, "kernel_size": size, "stride": d.int(1, 3), "pad": pad, "group": group,
        "bias_term": biased,
    }  # fmt: skip
    d.add("Deconvolution", ["data"], ["out"], *blobs, convolution_param=param)
    return d.case()


@family("Im2col")
def im2col(d: Draw) -> Case:
    n, channels, h, w = d.image(3, 7)
    x, size, stride, pad = d.input(n, channels, h, w), d.int(1, 3), d.int(1, 2), d.int(0, 2)
    d.add("Im2col", ["data"], convolution_param={"kernel_size": size, "stride": stride, "pad": pad})
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))[:, :, ::stride, ::stride]
    rows = views.transpose(0, 1, 4, 5, 2, 3)
    return d.case(wanted=[rows.reshape(n, channels * size * size, *rows.shape[4:])])


@family("Pooling")
def pooling(d: Draw) -> Case:
    x = d.input(*d.image(3, 12))
    kind = d.one(["MAX", "AVE"])
    if d.int(0, 4) == 0:
        d.add("Pooling", ["data"], pooling_param={"pool": Word(kind), "global_pooling": True})
        return d.case()
    kernel = [d.int(1, 3), d.int(1, 3)]
    pads = [d.int(0, k - 1) for k in kernel]
    strides = [d.int(1, k) for k in kernel]
    floor = Word("FLOOR") if d.int(0, 3) == 0 else None
    if d.flag():
        param = {"kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": strides[0], "stride_w": strides[1]}
        param |= {"pad_h": pads[0], "pad_w": pads[1]}
    else:
        kernel, strides, pads = [kernel[0]] * 2, [strides[0]] * 2, [pads[0]] * 2
        param = {"kernel_size": kernel[0], "stride": strides[0], "pad": pads[0]}
    d.add("Pooling", ["data"], pooling_param={"pool": Word(kind), "round_mode": floor, **param})
    return d.case(wanted=[_pooled(x, kind, kernel, strides, pads, floor is None)])


def _pooled(x: np.ndarray, kind: str, kernel: list[int], strides: list[int], pads: list[int], ceil: bool) -> np.ndarray:
    """As Caffe's loops have it."""
    out = []
    for n, k, s, p in zip(x.shape[2:], kernel, strides, pads, strict=True):
        count = (-(-(n + 2 * p - k) // s) if ceil else (n + 2 * p - k) // s) + 1
        out.append(count - 1 if p and (count - 1) * s >= n + p else count)
    found = np.zeros((*x.shape[:2], *out))
    for i in range(out[0]):
        for j in range(out[1]):
            begins = [i * strides[0] - pads[0], j * strides[1] - pads[1]]
            ends = [min(b + k, n + p) for b, k, n, p in zip(begins, kernel, x.shape[2:], pads, strict=True)]
            area = (ends[0] - begins[0]) * (ends[1] - begins[1])
            part = x[:, :, max(begins[0], 0) : ends[0], max(begins[1], 0) : ends[1]]
            found[:, :, i, j] = part.max((2, 3)) if kind == "MAX" else part.astype(np.float64).sum((2, 3)) / area
    return found


@family("Pooling places")
def pooling_places(d: Draw) -> Case:
    """Places of the largest, and back to them (SegNet)."""
    n, c, h, w = d.int(1, 2), d.int(1, 3), 2 * d.int(1, 4), 2 * d.int(1, 4)
    x = d.input(n, c, h, w)
    d.add("Pooling", ["data"], ["best", "mask"], pooling_param={"pool": Word("MAX"), "kernel_size": 2, "stride": 2})
    d.add("Upsample", ["best", "mask"], upsample_param={"scale": 2})
    cells = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    best, at = cells.max(-1), cells.argmax(-1)
    rows, columns = np.arange(h // 2)[:, None] * 2 + at // 2, np.arange(w // 2) * 2 + at % 2
    whole = np.where(np.kron(best, np.ones((2, 2))) == x, x, 0)
    mask = (rows * w + columns).astype(np.float32)
    d.add("Split", ["mask"], ["places", "unused"])
    return d.case("places", "out", wanted=[mask, whole])


@family("Upsample")
def upsample(d: Draw) -> Case:
    x, scale = d.input(*d.image()), d.one([None, 1, 2, 3])
    d.add("Upsample", ["data"], upsample_param={"scale": scale})
    return d.case(wanted=[np.kron(x, np.ones((scale or 2, scale or 2), np.float32))])


@family("SPP")
def pyramid(d: Draw) -> Case:
    """Of sizes that no bin is empty of, which Caffe refuses."""
    levels, kind = d.int(1, 3), d.one(["MAX", "AVE"])
    fitting = [n for n in range(4, 13) if all(-(-n // b) * b - n + 1 < 2 * -(-n // b) for b in (1, 2, 4)[:levels])]
    x = d.input(d.int(1, 2), d.int(1, 6), d.one(fitting), d.one(fitting))
    d.add("SPP", ["data"], spp_param={"pyramid_height": levels, "pool": Word(kind)})
    parts = []
    for level in range(levels):
        bins = 1 << level
        kernel = [-(-n // bins) for n in x.shape[2:]]
        pads = [(k * bins - n + 1) // 2 for n, k in zip(x.shape[2:], kernel, strict=True)]
        made = _pooled(x, kind, kernel, kernel, pads, True)
        parts.append(made if levels == 1 else made.reshape(len(x), -1))
    return d.case(wanted=[parts[0] if levels == 1 else np.concatenate(parts, 1)])


@family("Interp")
def interp(d: Draw) -> Case:
    x = d.input(*d.image(2, 7))
    h, w = x.shape[2:]
    way = d.int(0, 3)
    param: dict[str, object] = {}
    crop = d.int(0, 1) if min(h, w) > 3 else 0
    if crop:
        param["pad_beg"] = -crop
    h, w = h - crop, w - crop
    if way == 0:
        out = (d.int(1, 9), d.int(1, 9))
        param |= {"height": out[0], "width": out[1]}
    else:
        shrink, zoom = (d.int(1, 3) if way & 1 else 1), (d.int(1, 3) if way & 2 else 1)
        param |= {k: v for k, v in (("shrink_factor", shrink), ("zoom_factor", zoom)) if v > 1}
        small = [(n - 1) // shrink + 1 for n in (h, w)]
        out = (small[0] + (small[0] - 1) * (zoom - 1), small[1] + (small[1] - 1) * (zoom - 1))
    if not param:
        param = {"height": h, "width": w}
    d.add("Interp", ["data"], interp_param=param)
    part = x[:, :, crop:, crop:].astype(np.float64)
    for axis, (n, m) in enumerate(zip((h, w), out, strict=True), 2):
        at = np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 0)
        low = np.minimum(np.floor(at).astype(int), n - 1)
        share = (at - low).reshape([-1 if a == axis else 1 for a in range(4)])
        part = part.take(low, axis) * (1 - share) + part.take(np.minimum(low + 1, n - 1), axis) * share
    return d.case(wanted=[part])


@family("LRN")
def lrn(d: Draw) -> Case:
    """The sums are written out: OpenCV leaves k out, and has another default of alpha."""
    x = d.input(d.int(1, 2), d.int(1, 9), d.int(3, 8), d.int(3, 8))
    within, size = d.flag(), d.one([None, 3, 5])
    alpha, beta, k = d.one([None, 0.5, 1e-2]), d.one([None, 0.5]), d.one([None, 2.0])
    d.add("LRN", ["data"], lrn_param={
        "local_size": size, "alpha": alpha, "beta": beta, "k": None if within else k,
        "norm_region": Word("WITHIN_CHANNEL") if within else None,
    })  # fmt: skip
    side, axes = size or 5, (2, 3) if within else (1,)
    square = np.pad(x.astype(np.float64) ** 2, [(side // 2,) * 2 if a in axes else (0, 0) for a in range(4)])
    mean = np.lib.stride_tricks.sliding_window_view(square, (side,) * len(axes), axes).mean(
        tuple(range(4, 4 + len(axes)))
    )
    return d.case(wanted=[x * ((1.0 if within else k or 1.0) + (alpha or 1.0) * mean) ** -(beta or 0.75)])
