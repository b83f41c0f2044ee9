"""Layers that order, cut, join and repeat."""

from __future__ import annotations

import numpy as np

from tests.frontends.ncnn.build import Weight
from tests.frontends.ncnn.cases.draw import Case, Draw, family


@family("Permute")
def permute(d: Draw) -> Case:
    shape = d.shape(1, 4, 6)
    d.model.one("Permute", [d.input(shape)], {0: d.int(0, [0, 1, 5, 23][len(shape) - 1])})
    return d.case()


@family("Reshape")
def reshape(d: Draw) -> Case:
    shape = [d.int(1, 4) * 2 for _ in range(d.int(1, 4))]
    total = int(np.prod(shape))
    dims = d.int(1, 4)
    sizes = []
    for _ in range(dims - 1):
        sizes.append(d.one([n for n in (1, 2, 4) if total % n == 0]))
        total //= sizes[-1]
    sizes.append(total)
    order = [sizes[i] for i in d.rng.permutation(dims)]
    if d.flag():
        order[d.int(0, dims - 1)] = -1
    keys = {1: (0,), 2: (0, 1), 3: (0, 1, 2), 4: (0, 1, 11, 2)}[dims]
    d.model.one("Reshape", [d.input(shape)], dict(zip(keys, order, strict=True)))
    return d.case()


@family("Reshape expression")
def reshape_expression(d: Draw) -> Case:
    shape = [d.int(1, 3) * 2, d.int(1, 5), d.int(1, 5)]
    text = d.one(["*(0w,0h),0c", "0w,0h,//(0c,2),2", "-1,0c", "*(0w,0h),//(0c,2),2", "*(*(0w,0h),0c)"])
    d.model.one("Reshape", [d.input(shape)], {6: text})
    return d.case()


@family("Flatten", "Split", "Noop", "DeepCopy")
def plain(d: Draw, kind: str) -> Case:
    if kind == "Split":
        d.model.layer("Split", [d.input(d.shape())], outputs=d.int(2, 3))
    elif kind == "Noop":
        d.model.one("ReLU", [d.model.one("Split", [d.input(d.shape())])])
    else:
        d.model.one(kind, [d.input(d.shape())])
    return d.case()


@family("Squeeze")
def squeeze(d: Draw) -> Case:
    shape = [d.one([1, 1, 3]) for _ in range(d.int(1, 4))]
    if d.flag():
        axes = sorted({d.int(-len(shape), len(shape) - 1) % len(shape) for _ in range(d.int(1, len(shape)))})
        d.model.one("Squeeze", [d.input(shape)], {3: [a - len(shape) * d.flag() for a in axes]})
    else:
        keys = [0, 1, 2, 11][: max(len(shape), 1)]
        d.model.one("Squeeze", [d.input(shape)], {k: int(d.flag()) for k in keys})
    return d.case()


@family("ExpandDims")
def expand_dims(d: Draw) -> Case:
    shape = d.shape(1, 3)
    more = d.int(1, 4 - len(shape))
    dims = len(shape) + more
    axes = sorted(int(a) for a in d.rng.permutation(dims)[:more])
    d.model.one("ExpandDims", [d.input(shape)], {3: axes})
    return d.case()


@family("Concat")
def concat(d: Draw) -> Case:
    shape = d.shape()
    axis = d.int(0, len(shape) - 1)
    names = []
    for _ in range(d.int(2, 4)):
        shape[axis] = d.int(1, 8)
        names.append(d.input(shape))
    d.model.one("Concat", names, {0: d.one([axis, axis - len(shape)])})
    return d.case()


@family("Slice")
def slice_(d: Draw) -> Case:
    shape = d.shape()
    axis, count = d.int(0, len(shape) - 1), d.int(2, 4)
    sizes = [d.int(1, 4) for _ in range(count)]
    shape[axis] = sum(sizes)
    at = d.one([axis, axis - len(shape)])
    kind = d.int(0, 2)
    if kind == 0:
        params: dict[int, object] = {0: [*sizes[:-1], -233], 1: at}
    elif kind == 1:
        shape[axis] = count * d.int(1, 4)
        params = {0: [-233] * count, 1: at}
    else:
        ends = [int(n) for n in np.cumsum(sizes)[:-1]]
        params = {1: at, 2: [n - shape[axis] * d.flag() for n in ends]}
    d.model.layer("Slice", [d.input(shape)], params, outputs=count)
    return d.case()


@family("Crop")
def crop(d: Draw) -> Case:
    shape = [d.int(4, 9) for _ in range(d.int(1, 4))]
    dims = len(shape)
    x = d.input(shape)
    if d.flag():
        axes = sorted(int(a) for a in d.rng.permutation(dims)[: d.int(1, dims)])
        starts = [d.one([0, 1, -3, -233]) for _ in axes]
        ends = [d.one([shape[a] - 1, -1, shape[a], -233]) for a in axes]
        d.model.one("Crop", [x], {9: starts, 10: ends, 11: [a - dims * d.flag() for a in axes]})
        return d.case()
    names = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}[dims]
    keys = {"w": (0, 6, 3), "h": (1, 7, 4), "d": (13, 15, 14), "c": (2, 8, 5)}
    params: dict[int, object] = {}
    ends_too = d.flag()
    for name, n in zip(names, shape, strict=True):
        at, cut, size = keys[name]
        params[at] = d.int(0, 2)
        if ends_too:
            params[cut], params[size] = d.int(0, 1), -233
        else:
            params[size] = d.one([-233, n - 2 - int(d.flag())])
    d.model.one("Crop", [x], params)
    return d.case()


@family("Crop reference")
def crop_reference(d: Draw) -> Case:
    shape = [d.int(4, 9) for _ in range(3)]
    inner = [n - d.int(0, 3) for n in shape]
    params = {0: d.int(0, shape[2] - inner[2]), 1: d.int(0, shape[1] - inner[1]), 2: d.int(0, shape[0] - inner[0])}
    d.model.one("Crop", [d.input(shape), d.input(inner)], params)
    return d.case()


@family("CopyTo")
def copy_to(d: Draw) -> Case:
    shape = [d.int(4, 8) for _ in range(d.int(1, 4))]
    inner = [n - d.int(1, 3) for n in shape]
    starts = [d.int(0, n - m) for n, m in zip(shape, inner, strict=True)]
    d.model.one("CopyTo", [d.input(shape), d.input(inner)], {9: starts, 11: list(range(len(shape)))})
    return d.case()


@family("Flip")
def flip(d: Draw) -> Case:
    shape = d.shape()
    axes = sorted(int(a) for a in d.rng.permutation(len(shape))[: d.int(1, len(shape))])
    d.model.one("Flip", [d.input(shape)], {0: [a - len(shape) * d.flag() for a in axes]})
    return d.case()


@family("Tile", "Tile into four")
def tile(d: Draw, name: str) -> Case:
    shape = d.shape(1, 4, 5)
    if name == "Tile into four":
        d.model.one("Tile", [d.input(shape)], {2: [d.int(1, 3) for _ in range(4)]})
    elif d.flag():
        d.model.one("Tile", [d.input(shape)], {0: d.int(0, len(shape) - 1), 1: d.int(1, 3)})
    else:
        d.model.one("Tile", [d.input(shape)], {2: [d.int(1, 3) for _ in range(d.int(1, 4))]})
    return d.case()


@family("Padding")
def padding(d: Draw) -> Case:
    shape = [d.int(4, 8) for _ in range(d.int(1, 4))]
    kind = d.int(0, 2)
    deep = d.flag() and len(shape) > 2
    params: dict[int, object] = {i: d.int(0, 3) for i in range(4)} | {4: kind, 5: 0.5}
    weights = []
    if deep:
        params |= {7: d.int(0, 2), 8: d.int(0, 2)}
    elif kind == 0 and len(shape) == 3 and d.flag():
        params[6] = shape[0]
        weights = [d.plain(shape[0])]
    d.model.one("Padding", [d.input(shape)], params, weights)
    return d.case()


@family("PixelShuffle", "Reorg")
def shuffle(d: Draw, kind: str) -> Case:
    s = d.int(1, 3)
    h, w = d.int(1, 5), d.int(1, 5)
    shape = [d.int(1, 3) * s * s, h, w] if kind == "PixelShuffle" else [d.int(1, 3), h * s, w * s]
    d.model.one(kind, [d.input(shape)], {0: s, 1: int(d.flag())})
    return d.case()


@family("ShuffleChannel")
def shuffle_channel(d: Draw) -> Case:
    group = d.int(1, 4)
    d.model.one("ShuffleChannel", [d.input([group * d.int(1, 4), *d.shape(2, 2)])], {0: group, 1: int(d.flag())})
    return d.case()


@family("Diag")
def diag(d: Draw) -> Case:
    shape = d.shape(1, 2)
    most = min(shape) - 1 if len(shape) == 2 else 2
    d.model.one("Diag", [d.input(shape)], {0: d.int(-most, most)})
    return d.case()


@family("Reduction")
def reduction(d: Draw) -> Case:
    shape = d.shape(1, 4, 5)
    kind = d.int(0, 10)
    low = 0.3 if kind in (9, 6) else -1.5
    params: dict[int, object] = {0: kind, 2: d.one([1.0, 0.5]), 4: int(d.flag()), 5: 1}
    if d.flag():
        params[1] = 1
    else:
        axes = sorted(int(a) for a in d.rng.permutation(len(shape))[: d.int(1, len(shape))])
        params |= {1: 0, 3: [a - len(shape) * d.flag() for a in axes]}
    d.model.one("Reduction", [d.input(shape, low, 1.5)], params)
    return d.case(tolerance=5e-5)


@family("CumulativeSum")
def cumulative_sum(d: Draw) -> Case:
    shape = d.shape()
    d.model.one("CumulativeSum", [d.input(shape)], {0: d.int(-len(shape), len(shape) - 1)})
    return d.case(tolerance=5e-5)


@family("MemoryData")
def memory_data(d: Draw) -> Case:
    shape = d.shape(1, 4, 5)
    keys = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}[len(shape)]
    weight = Weight(d.array(shape), "plain")
    constant = d.model.one("MemoryData", [], dict(zip(keys, shape, strict=True)), [weight])
    d.model.one("BinaryOp", [d.input(shape), constant], {0: 0})
    return d.case()
