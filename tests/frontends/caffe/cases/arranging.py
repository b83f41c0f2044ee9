"""Layers that move, join, cut and reduce."""

from __future__ import annotations

import numpy as np

from tests.frontends.caffe.build import Word
from tests.frontends.caffe.cases.draw import Case, Draw, family


def _shape(d: Draw, low: int = 2) -> tuple[int, ...]:
    return tuple(d.int(1, 6) for _ in range(d.int(low, 4)))


@family("Concat")
def concat(d: Draw) -> Case:
    shape = _shape(d)
    axis = d.int(0, len(shape) - 1)
    parts = []
    for i in range(d.int(1, 3)):
        sizes = list(shape)
        sizes[axis] = d.int(1, 5)
        parts.append(d.input(*sizes, name=f"in{i}"))
    written = {"axis": d.one([axis, axis - len(shape)])} if axis != 1 or d.flag() else {"concat_dim": d.one([None, 1])}
    d.add("Concat", [f"in{i}" for i in range(len(parts))], concat_param=written)
    return d.case(wanted=[np.concatenate(parts, axis)])


@family("Slice")
def slice_(d: Draw) -> Case:
    shape = list(_shape(d))
    axis, count = d.int(0, len(shape) - 1), d.int(2, 3)
    shape[axis] = count * d.int(1, 3)
    x = d.input(*shape)
    names = [f"out{i}" for i in range(count)]
    points = sorted(int(p) for p in d.rng.permutation(np.arange(1, shape[axis]))[: count - 1])
    given = points if d.flag() else None
    key = "slice_dim" if axis == 1 and d.flag() else "axis"
    d.add("Slice", ["data"], names, slice_param={key: axis, "slice_point": given})
    cuts = points if given else [shape[axis] // count * i for i in range(1, count)]
    return d.case(*names, wanted=np.split(x, cuts, axis))


@family("Flatten")
def flatten(d: Draw) -> Case:
    x = d.input(*_shape(d))
    start = d.int(0, x.ndim - 1)
    end = d.int(start, x.ndim - 1)
    written = {"axis": d.one([start, start - x.ndim]), "end_axis": d.one([end, end - x.ndim])}
    d.add("Flatten", ["data"], flatten_param=written if (start, end) != (1, x.ndim - 1) or d.flag() else {})
    return d.case(wanted=[x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])])


@family("Reshape")
def reshape(d: Draw) -> Case:
    x = d.input(*_shape(d))
    start = d.int(0, x.ndim - 1)
    count = d.int(1, x.ndim - start)
    inner = x.shape[start : start + count]
    total = int(np.prod(inner))
    dims = d.one([[-1], [total, 1], [1, -1], [0, -1], [0] * count, list(inner[::-1])])
    whole = start + count == x.ndim
    written = {"axis": None if start == 0 else start, "num_axes": None if whole and d.flag() else count}
    d.add("Reshape", ["data"], reshape_param={"shape": {"dim": dims}, **written})
    real = [inner[i] if n == 0 else n for i, n in enumerate(dims)]
    return d.case(wanted=[x.reshape(*x.shape[:start], *real, *x.shape[start + count :])])


@family("Tile")
def tile(d: Draw) -> Case:
    x = d.input(*_shape(d))
    axis, tiles = d.int(0, x.ndim - 1), d.int(1, 4)
    d.add("Tile", ["data"], tile_param={"axis": None if axis == 1 else axis, "tiles": tiles})
    return d.case(wanted=[np.tile(x, [tiles if a == axis else 1 for a in range(x.ndim)])])


@family("Crop")
def crop(d: Draw) -> Case:
    x = d.input(*d.image(3, 9))
    axis = d.int(0, 3)
    like = [d.int(1, n) if a >= axis else n for a, n in enumerate(x.shape)]
    d.input(*like, name="like")
    room = [n - m for n, m in zip(x.shape, like, strict=True)][axis:]
    if d.flag():
        given = [d.int(0, r) for r in room]
        offsets = given
    else:
        single = d.int(0, min(room))
        given, offsets = ([single] if single or d.flag() else []), [single] * len(room)
    d.add("Crop", ["data", "like"], crop_param={"axis": None if axis == 2 else axis, "offset": given or None})
    where = (slice(None),) * axis + tuple(slice(o, o + n) for o, n in zip(offsets, like[axis:], strict=True))
    return d.case(wanted=[x[where]])


@family("Permute")
def permute(d: Draw) -> Case:
    x = d.input(*_shape(d))
    order = [int(a) for a in d.rng.permutation(x.ndim)]
    rest = sorted(order[d.int(1, x.ndim) :])
    order = [a for a in order if a not in rest]
    d.add("Permute", ["data"], permute_param={"order": order})
    return d.case(wanted=[x.transpose(*order, *rest)])


@family("ShuffleChannel")
def shuffle(d: Draw) -> Case:
    group = d.int(1, 4)
    n, _, h, w = d.image()
    x = d.input(n, group * d.int(1, 3), h, w)
    d.add("ShuffleChannel", ["data"], shuffle_channel_param={"group": group})
    return d.case(wanted=[x.reshape(n, group, -1, h, w).swapaxes(1, 2).reshape(x.shape)])


@family("BatchReindex")
def batch_reindex(d: Draw) -> Case:
    x = d.input(d.int(2, 5), *_shape(d, 1))
    index = d.rng.integers(0, len(x), d.int(1, 7))
    d.fed(index, "index")
    d.add("BatchReindex", ["data", "index"])
    return d.case(wanted=[x[index]])


@family("Filter")
def filter_(d: Draw) -> Case:
    count = d.int(2, 6)
    x, y = d.input(count, *_shape(d, 1)), d.input(count, 2, name="more")
    chosen = d.rng.integers(0, 2, count)
    chosen[d.int(0, count - 1)] = 1
    d.fed(chosen.reshape(count, *d.one([(), (1,)])), "chosen")
    d.add("Filter", ["data", "more", "chosen"], ["a", "b"])
    return d.case("a", "b", wanted=[x[chosen == 1], y[chosen == 1]])


@family("ArgMax")
def arg_max(d: Draw) -> Case:
    """Numbers out of few, so that some are equal: the last one wins."""
    shape = _shape(d)
    x = d.fed(d.rng.integers(0, 4, shape).astype(np.float32), "data")
    axis, values = d.one([None, *range(len(shape))]), d.flag()
    flat = x.reshape(len(x), -1) if axis is None else np.moveaxis(x, axis, -1)
    top = d.int(1, min(flat.shape[-1], 3))
    param = {"axis": axis, "top_k": None if top == 1 else top, "out_max_val": values or None}
    d.add("ArgMax", ["data"], argmax_param=param)
    places = np.argsort(-flat[..., ::-1], -1, kind="stable")[..., :top]
    places = flat.shape[-1] - 1 - places
    best = np.take_along_axis(flat, places, -1)
    if axis is not None:
        return d.case(wanted=[np.moveaxis(best if values else places.astype(np.float32), -1, axis)])
    found = np.stack([places, best] if values else [places], 1).astype(np.float32)
    return d.case(wanted=[found.reshape(len(x), -1, top, *([1] * (len(shape) - 3)))])


@family("Reduction")
def reduction(d: Draw) -> Case:
    x, kind, factor = d.input(*_shape(d)), d.one([None, "SUM", "ASUM", "SUMSQ", "MEAN"]), d.one([None, 0.5, -2.0])
    axis = d.int(0, x.ndim - 1)
    written = {"operation": None if kind is None else Word(kind), "coeff": factor, "axis": axis or None}
    d.add("Reduction", ["data"], reduction_param=written)
    rows = x.astype(np.float64).reshape(*x.shape[:axis], -1)
    found = {"ASUM": np.abs(rows).sum(-1), "SUMSQ": (rows**2).sum(-1), "MEAN": rows.mean(-1)}.get(
        kind or "", rows.sum(-1)
    )
    return d.case(wanted=[found * (1 if factor is None else factor)])


@family("Parameter")
def parameter(d: Draw) -> Case:
    weight = d.array(*_shape(d))
    x = d.input(*weight.shape)
    d.add("Parameter", [], ["weight"], weight, parameter_param={"shape": {"dim": list(weight.shape)}})
    d.add("Eltwise", ["data", "weight"])
    return d.case(wanted=[x + weight])
