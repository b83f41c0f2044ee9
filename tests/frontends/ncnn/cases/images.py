"""Convolutions, pooling, resizing, boxes."""

from __future__ import annotations

import numpy as np

from tests.frontends.ncnn.build import Weight
from tests.frontends.ncnn.cases.draw import Case, Draw, family


def _activation(d: Draw) -> dict[int, object]:
    kind = d.int(0, 6)
    numbers = {2: [0.2], 3: [-0.5, 0.8], 6: [1 / 6, 0.5]}.get(kind)
    return {9: kind} | ({10: numbers} if numbers else {})


def _window(d: Draw, count: int, strides: int = 3) -> tuple[list[int], list[int], list[int]]:
    """Kernel, dilation and stride along (w, h, d)."""
    return (
        [d.int(1, 3) for _ in range(count)],
        [d.int(1, 2) for _ in range(count)],
        [d.int(1, strides) for _ in range(count)],
    )


def _sizes(p: dict[int, object], kernel: list[int], dilation: list[int], stride: list[int]) -> None:
    for ids, numbers in (((1, 11, 21), kernel), ((2, 12, 22), dilation), ((3, 13, 23), stride)):
        p |= dict(zip(ids, numbers, strict=False))


def _pads(d: Draw, p: dict[int, object], count: int) -> None:
    if d.int(0, 2) == 0:
        p[4] = d.one([-233, -234])
        return
    for key in [4, 15, 14, 16, 24, 17][: 2 * count]:
        p[key] = d.int(0, 2)


@family(
    "Convolution", "ConvolutionDepthWise", "Convolution1D", "ConvolutionDepthWise1D", "Convolution3D",
    "ConvolutionDepthWise3D",
)  # fmt: skip
def convolution(d: Draw, kind: str) -> Case:
    count = 1 if "1D" in kind else 3 if "3D" in kind else 2
    group = d.int(1, 5) if "DepthWise" in kind else 1
    per, each = (1, 1) if "DepthWise" in kind and d.flag() else (d.int(1, 4), d.int(1, 4))
    kernel, dilation, stride = _window(d, count)
    inputs, outputs = group * per, group * each
    p: dict[int, object] = {0: outputs, 5: int(d.flag())}
    _pads(d, p, count)
    if p[4] == -234 and count == 3:  # ncnn puts the odd one of the depth at the end
        p[4] = -233
    if p[4] in (-233, -234):  # ncnn shifts windows that lie apart
        stride = [min(s, k) for s, k in zip(stride, kernel, strict=True)]
    _sizes(p, kernel, dilation, stride)
    size = outputs * per * int(np.prod(kernel))
    p |= {6: size} | ({7: group} if "DepthWise" in kind else {}) | _activation(d)
    described = d.flag()
    if d.int(0, 4) == 0:
        p[18], described = 0.5, True
    spatial = [(k - 1) * di + 1 + d.int(0, 6) for k, di in zip(kernel, dilation, strict=True)][::-1]
    weights = [d.weight(size)] + ([d.plain(outputs)] if p[5] else [])
    d.model.one(kind, [d.input([inputs, *spatial], described=described)], p, weights)
    return d.case(tolerance=1e-4)


@family("Convolution of a line")
def convolution_line(d: Draw) -> Case:
    inputs, outputs = d.int(1, 8), d.int(1, 8)
    d.model.one(
        "Convolution", [d.input([inputs])], {0: outputs, 1: 1, 6: inputs * outputs}, [d.weight(inputs * outputs)]
    )
    return d.case()


@family(
    "Deconvolution", "DeconvolutionDepthWise", "Deconvolution1D", "DeconvolutionDepthWise1D", "Deconvolution3D",
    "DeconvolutionDepthWise3D",
)  # fmt: skip
def deconvolution(d: Draw, kind: str) -> Case:
    count = 1 if "1D" in kind else 3 if "3D" in kind else 2
    group = d.int(1, 4) if "DepthWise" in kind else 1
    per, each = (1, 1) if "DepthWise" in kind and d.flag() else (d.int(1, 4), d.int(1, 4))
    kernel, dilation, stride = _window(d, count)
    inputs, outputs = group * per, group * each
    p: dict[int, object] = {0: outputs, 5: int(d.flag())}
    _sizes(p, kernel, dilation, stride)
    spatial = [d.int(3, 6) for _ in range(count)]
    whole = [(n - 1) * s + (k - 1) * di + 1 for n, s, k, di in zip(spatial, stride, kernel, dilation, strict=True)]
    how = d.int(0, 2)
    if how == 0:
        for key in [4, 15, 14, 16, 24, 17][: 2 * count]:
            p[key] = d.int(0, 1)
    elif how == 1:
        p[4] = d.one([-233, -234])
        p |= dict(zip((25, 26, 27) if count == 3 else (20, 21), [n - d.int(0, 2) for n in whole], strict=False))
    if how == 2:
        p |= dict(zip((18, 19, 20), [d.int(0, s - 1) for s in stride], strict=False))
    size = outputs * per * int(np.prod(kernel))
    p |= {6: size} | ({7: group} if "DepthWise" in kind else {}) | _activation(d)
    weights = [d.weight(size)] + ([d.plain(outputs)] if p[5] else [])
    d.model.one(kind, [d.input([inputs, *spatial[::-1]])], p, weights)
    return d.case(tolerance=1e-4)


@family("Unfold")
def unfold(d: Draw) -> Case:
    kernel, dilation, stride = _window(d, 2)
    p: dict[int, object] = {}
    _pads(d, p, 2)
    stride = [min(s, k) for s, k in zip(stride, kernel, strict=True)]
    _sizes(p, kernel, dilation, stride)
    d.model.one("Unfold", [d.input([d.int(1, 4), d.int(5, 9), d.int(5, 9)])], p)
    return d.case()


@family("Fold")
def fold(d: Draw) -> Case:
    kernel, dilation, stride = _window(d, 2)
    p: dict[int, object] = {}
    _sizes(p, kernel, dilation, stride)
    for key in (4, 15, 14, 16):
        p[key] = d.int(0, 1)
    width, height = d.int(6, 9), d.int(6, 9)
    p |= {20: width, 21: height}
    across = (width + p[4] + p[15] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1  # type: ignore[operator]
    down = (height + p[14] + p[16] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1  # type: ignore[operator]
    d.model.one("Fold", [d.input([d.int(1, 3) * kernel[0] * kernel[1], across * down])], p)
    return d.case()


@family("Pooling", "Pooling1D", "Pooling3D")
def pooling(d: Draw, kind: str) -> Case:
    count = {"Pooling": 2, "Pooling1D": 1, "Pooling3D": 3}[kind]
    shape = [d.int(1, 6), *(d.int(5, 9) for _ in range(count))]
    p: dict[int, object] = {0: d.int(0, 1)}
    how = d.int(0, 5)
    if how == 0:
        p[4] = 1
    elif how == 1:
        p |= {7: 1} | dict(zip((8, 18, 28), [d.int(1, 5) for _ in range(count)], strict=False))
    else:
        kernel = [d.int(1, 3) for _ in range(count)]
        p |= dict(zip((1, 11, 21), kernel, strict=False)) | dict(
            zip((2, 12, 22), [d.int(1, 3) for _ in kernel], strict=False)
        )
        p |= {5: d.int(0, 3), 6: int(d.flag())}
        if p[5] in (0, 1):
            for key, k in zip((3, 14, 13, 15, 23, 16), [kernel[i // 2] for i in range(2 * count)], strict=False):
                p[key] = d.int(0, k // 2)
    d.model.one(kind, [d.input(shape)], p)
    return d.case()


@family("StatisticsPooling")
def statistics(d: Draw) -> Case:
    d.model.one("StatisticsPooling", [d.input([d.int(1, 6), d.int(2, 6), d.int(2, 6)])], {0: int(d.flag())})
    return d.case(tolerance=5e-5)


@family("Interp")
def interp(d: Draw) -> Case:
    dims = d.int(1, 3)
    shape = [d.int(4, 9) for _ in range(dims)]
    p: dict[int, object] = {0: d.int(1, 3), 6: int(d.flag())}
    names = [d.input(shape)]
    how = d.int(0, 2)
    if how == 0 and dims == 3:
        p |= {1: d.one([2.0, 0.5, 1.5]), 2: d.one([2.0, 3.0, 0.75])}
    elif how == 1 and dims == 3:
        p[5] = 1
        names.append(d.input([1, d.int(2, 12), d.int(2, 12)]))
    else:
        p |= {3: d.int(2, 12), 4: d.int(2, 12)}
    d.model.one("Interp", names, p)
    return d.case(tolerance=1e-4)


@family("Interp scaled")
def scaled_interp(d: Draw) -> Case:
    """Sizes that scales do not divide; of inputs that tell their sizes, and of open ones."""
    shape, more = [2, d.int(3, 9), d.int(3, 9)], {"described": d.flag()}
    p = {0: d.int(1, 3), 1: d.one([1.5, 0.7, 2.3]), 2: d.one([1.1, 0.75, 2.6]), 6: int(d.flag())}
    d.model.one("Interp", [d.input(shape, **more)], p)
    return d.case(tolerance=1e-4)


@family("Interp as long")
def interp_as_long(d: Draw) -> Case:
    """Scales that leave both axes as long, where the nearest pixel is the pixel itself."""
    shape, more = [2, d.int(5, 9), d.int(5, 9)], {"described": d.flag()}
    d.model.one("Interp", [d.input(shape, **more)], {0: 1, 1: 1.1, 2: 1.05, 6: int(d.flag())})
    return d.case(tolerance=1e-4)


@family("Interp rows")
def interp_rows(d: Draw) -> Case:
    """Of a matrix, whose rows lie by the scale."""
    p = {0: d.int(2, 3), 1: d.one([1.0, 0.5]), 2: d.one([1.5, 2.3, 0.7]), 6: 0}
    d.model.one("Interp", [d.input([d.int(1, 4), d.one([5, 7, 9])])], p)
    return d.case(tolerance=1e-4)


@family("GridSample")
def grid_sample(d: Draw) -> Case:
    flat = d.int(0, 3) > 0
    mode = d.int(1, 3) if flat else d.int(1, 2)
    shape = [d.int(1, 3), *(d.int(4, 7) for _ in range(2 if flat else 3))]
    out = [d.int(2, 6) for _ in range(len(shape) - 1)]
    first = d.flag()
    grid = [len(out), *out] if first else [*out, len(out)]
    p = {0: mode, 1: d.int(1, 3), 2: int(d.flag()), 3: int(first)}
    d.model.one("GridSample", [d.input(shape), d.input(grid, -0.97, 0.97)], p)
    return d.case(tolerance=5e-4)


@family("DeformableConv2D")
def deformable(d: Draw) -> Case:
    kernel, _, stride = _window(d, 2)
    inputs, outputs = d.int(1, 4), d.int(1, 5)
    p: dict[int, object] = {0: outputs, 5: 1}
    _sizes(p, kernel, [1, 1], stride)
    size = inputs * outputs * kernel[0] * kernel[1]
    p |= {4: 1, 6: size} | _activation(d)
    h, w = d.int(5, 8), d.int(5, 8)
    oh, ow = (h + 2 - kernel[1]) // stride[1] + 1, (w + 2 - kernel[0]) // stride[0] + 1
    taps = kernel[0] * kernel[1]
    names = [d.input([inputs, h, w]), d.input([2 * taps, oh, ow])]
    if d.flag():
        names.append(d.input([taps, oh, ow]))
    d.model.one("DeformableConv2D", names, p, [d.weight(size, "float"), d.plain(outputs)])
    return d.case(tolerance=1e-4)


@family("PriorBox")
def prior_box(d: Draw) -> Case:
    image = d.input([3, d.int(20, 40), d.int(20, 40)])
    x = d.input([2, d.int(2, 5), d.int(2, 5)])
    count = d.int(1, 2)
    p: dict[int, object] = {0: [float(v) for v in d.array([count], 4, 8)], 9: -233, 10: -233}
    if d.flag():
        p[1] = [float(v) for v in d.array([count], 9, 14)]
    p |= {2: [2.0, 3.0][: d.int(1, 2)], 7: int(d.flag()), 8: int(d.flag()), 13: 0.5}
    if d.flag():
        p |= {11: 8.0, 12: 6.0}
    d.model.one("PriorBox", [x, image], p)
    return d.case()


@family("DetectionOutput")
def detection_output(d: Draw) -> Case:
    count, classes = d.int(8, 20), d.int(2, 4)
    priors = 0.2 + 0.5 * d.rng.random((count, 4)).astype(np.float32)
    priors[:, 2:] = priors[:, :2] + 0.2
    both = np.stack([priors.reshape(-1), np.tile(np.float32([0.1, 0.1, 0.2, 0.2]), count)])
    scores = d.rng.permutation(np.linspace(0.02, 0.48, count * classes)).astype(np.float32)
    names = [d.input([count * 4]), d.model.input(scores), d.model.input(both)]
    p = {0: classes, 1: 0.45, 2: 100, 3: 50, 4: 0.2}
    d.model.one("DetectionOutput", names, p)
    return d.case()


@family("YoloDetectionOutput", "Yolov3DetectionOutput")
def yolo(d: Draw, kind: str) -> Case:
    classes, boxes, maps = d.int(2, 4), d.int(2, 3), d.int(1, 2)
    third = kind.startswith("Yolov3")
    names = [d.input([boxes * (5 + classes), d.int(2, 5), d.int(2, 5)]) for _ in range(maps)]
    count = boxes * maps if third else boxes
    p: dict[int, object] = {0: classes, 1: boxes, 2: 0.3, 3: 0.45, 4: [float(v) for v in d.array([2 * count], 0.5, 2)]}
    if third:
        p |= {
            4: [float(v) for v in d.array([2 * count], 10, 60)],
            5: [float(i) for i in range(count)],
            6: [32.0, 16.0][:maps],
        }
    d.model.one(kind, names, p)
    return d.case(tolerance=1e-4)


@family("ROIAlign")
def regions(d: Draw) -> Case:
    x = d.input([d.int(1, 4), 8, 9])
    low = d.array([2], 0, 3)  # inside of the image: beyond it ncnn reads what lies there
    box = np.concatenate([low, low + d.array([2], 2, 4)])
    p = {0: d.int(1, 3), 1: d.int(1, 3), 2: d.one([1.0, 0.5]), 3: d.int(0, 2), 4: int(d.flag()), 5: 1}
    d.model.one("ROIAlign", [x, d.model.input(box)], p)
    return d.case(tolerance=1e-4)


@family("Spectrogram")
def spectrogram(d: Draw) -> Case:
    length = d.one([8, 16, 20])
    p: dict[int, object] = {0: length, 1: d.int(0, 2), 2: d.int(2, length), 3: length - d.one([0, 4]), 4: d.int(0, 2)}
    p |= {5: int(d.flag()), 6: d.int(0, 2), 7: d.int(0, 2), 8: int(d.flag())}
    d.model.one("Spectrogram", [d.input([d.int(40, 80)])], p)
    return d.case(tolerance=1e-4)


@family("weights of a table")
def mixed(d: Draw) -> Case:
    """Several layers whose weights follow each other in different ways of storage, none of whole words."""
    x = d.input([3, 6, 7])
    for kind in d.rng.permutation(["float", "half", "table"]):
        size = 3 * 3 * 3
        x = d.model.one(
            "Convolution", [x], {0: 3, 1: 3, 11: 1, 4: 1, 14: 0, 6: size}, [Weight(d.array([size], -1, 1), str(kind))]
        )
    return d.case(tolerance=1e-4)
