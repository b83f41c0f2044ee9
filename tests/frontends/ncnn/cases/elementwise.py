"""Layers that change numbers by themselves or two by two, and that normalise."""

from __future__ import annotations

from tests.frontends.ncnn.cases.draw import Case, Draw, family


@family("AbsVal", "BNLL", "Softplus", "Erf", "Swish", "Sigmoid", "TanH", "Mish")
def plain(d: Draw, kind: str) -> Case:
    d.model.one(kind, [d.input(d.shape(), -4, 4)])
    return d.case()


@family("UnaryOp")
def unary(d: Draw) -> Case:
    number = d.int(0, 27)
    bounds = {5: (0.1, 3), 6: (0.1, 3), 8: (0.1, 3), 12: (-0.9, 0.9), 13: (-0.9, 0.9), 15: (0.2, 3), 17: (0.1, 3),
              11: (-1, 1), 25: (1.1, 3), 26: (-0.9, 0.9), 27: (-0.5, 3)}  # fmt: skip
    d.model.one("UnaryOp", [d.input(d.shape(), *bounds.get(number, (-3, 3)))], {0: number})
    return d.case(tolerance=5e-5)


@family("ReLU")
def relu(d: Draw) -> Case:
    d.model.one("ReLU", [d.input(d.shape())], {0: 0.2} if d.flag() else {})
    return d.case()


@family("PReLU")
def prelu(d: Draw) -> Case:
    shape = d.shape()
    count = d.one([1, shape[0]])
    d.model.one("PReLU", [d.input(shape)], {0: count}, [d.plain(count)])
    return d.case()


@family("HardSigmoid", "HardSwish")
def hard(d: Draw, kind: str) -> Case:
    params = d.one([{}, {0: 1 / 6, 1: 0.5}, {0: 0.3, 1: 0.4}])
    d.model.one(kind, [d.input(d.shape(), -5, 5)], params)
    return d.case()


@family("ELU", "CELU", "SELU", "GELU")
def units(d: Draw, kind: str) -> Case:
    params: dict[int, object] = {0: int(d.flag())} if kind == "GELU" else d.one([{}, {0: 0.7}])
    d.model.one(kind, [d.input(d.shape(), -4, 4)], params)
    return d.case(tolerance=1e-3 if kind == "GELU" else 2e-5)


@family("GLU")
def glu(d: Draw) -> Case:
    shape = d.shape(1, 3)
    axis = d.int(0, len(shape) - 1)
    shape[axis] *= 2
    d.model.one("GLU", [d.input(shape)], {0: d.one([axis, axis - len(shape)])})
    return d.case()


@family("Clip", "Threshold", "Dropout", "Shrink")
def numbers(d: Draw, kind: str) -> Case:
    params = {
        "Clip": d.one([{0: -0.5, 1: 0.7}, {1: 0.3}]), "Threshold": {0: 0.3}, "Dropout": d.one([{}, {0: 0.5}]),
        "Shrink": d.one([{}, {0: 0.2, 1: 0.9}]),
    }[kind]  # fmt: skip
    d.model.one(kind, [d.input(d.shape())], params)
    return d.case()


@family("Exp", "Log", "Power")
def powers(d: Draw, kind: str) -> Case:
    params = {0: d.one([-1.0, 2.0]) if kind != "Power" else d.one([1.0, 2.0, 0.5, -1.5]), 1: 0.7, 2: 2.5}
    d.model.one(kind, [d.input(d.shape())], params)
    return d.case(tolerance=5e-5)


@family("BinaryOp")
def binary(d: Draw) -> Case:
    """Broadcasting in all the ways of ncnn's page on it."""
    number = d.int(0, 18)
    low, high = (0.3, 2.5) if number in (3, 6, 8, 9, 12, 13, 15, 16, 17, 18) else (-2, 2)
    shape = d.shape(most=5)
    x = d.input(shape, low, high)
    if d.int(0, 3) == 0:
        d.model.one("BinaryOp", [x], {0: number, 1: 1, 2: 0.75})
        return d.case(tolerance=5e-5)
    other = list(shape)
    kind = d.int(0, 3)
    if kind == 1:  # ones anywhere
        other = [n if d.flag() else 1 for n in shape]
    elif kind == 2:  # fewer dimensions, at the first axes
        other = shape[: d.int(1, len(shape))]
    elif kind == 3 and len(shape) > 1 and shape[-1] != shape[0]:
        other = shape[-1:]
    y = d.input(other, low, high)
    pair = [x, y] if d.flag() else [y, x]
    d.model.one("BinaryOp", pair, {0: number})
    # floors of quotients jump where these are whole
    return d.case(tolerance=5e-5)


@family("Eltwise")
def eltwise(d: Draw) -> Case:
    shape, count, kind = d.shape(), d.int(2, 4), d.int(0, 2)
    params: dict[int, object] = {0: kind}
    if kind == 1 and d.flag():
        params[1] = [float(v) for v in d.array([count])]
    d.model.one("Eltwise", [d.input(shape) for _ in range(count)], params)
    return d.case()


@family("Scale")
def scale(d: Draw) -> Case:
    shape = d.shape()
    if d.int(0, 3) == 0:
        d.model.one("Scale", [d.input(shape), d.input(shape[:1])], {0: -233})
        return d.case()
    bias = d.flag()
    weights = [d.plain(shape[0])] + ([d.plain(shape[0])] if bias else [])
    d.model.one("Scale", [d.input(shape)], {0: shape[0], 1: int(bias)}, weights)
    return d.case()


@family("Bias")
def bias(d: Draw) -> Case:
    shape = d.shape(3, 4)
    d.model.one("Bias", [d.input(shape)], {0: shape[0]}, [d.plain(shape[0])])
    return d.case()


@family("BatchNorm")
def batch_norm(d: Draw) -> Case:
    shape = d.shape()
    n = shape[0]
    weights = [d.plain(n), d.plain(n), d.plain(n, 0.2, 2), d.plain(n)]
    d.model.one("BatchNorm", [d.input(shape)], {0: n, 1: d.one([0.0, 1e-3])}, weights)
    return d.case()


@family("InstanceNorm")
def instance_norm(d: Draw) -> Case:
    shape = [d.int(1, 9), d.int(2, 6), d.int(2, 6)]
    affine = d.flag()
    weights = [d.plain(shape[0]), d.plain(shape[0])] if affine else []
    d.model.one("InstanceNorm", [d.input(shape)], {0: shape[0], 1: 1e-3, 2: int(affine)}, weights)
    return d.case(tolerance=1e-4)


@family("GroupNorm")
def group_norm(d: Draw) -> Case:
    group = d.int(1, 4)
    shape = [group * d.int(1, 4), *d.shape(1, 3, 5)]
    shape = shape if np_prod(shape) > 2 * group else [shape[0], 4]
    affine = d.flag()
    weights = [d.plain(shape[0]), d.plain(shape[0])] if affine else []
    d.model.one("GroupNorm", [d.input(shape)], {0: group, 1: shape[0], 2: 1e-2, 3: int(affine)}, weights)
    return d.case(tolerance=1e-4)


def np_prod(shape: list[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


@family("LayerNorm", "RMSNorm")
def layer_norm(d: Draw, kind: str) -> Case:
    shape = [d.int(2, 7) for _ in range(d.int(1, 4))]
    most = max(len(shape) - 1, 1)
    size = np_prod(shape[-d.int(1, most) :])
    affine = d.flag()
    weights = [d.plain(size)] * (2 if kind == "LayerNorm" else 1) if affine else []
    d.model.one(kind, [d.input(shape)], {0: size, 1: 1e-2, 2: int(affine)}, weights)
    return d.case(tolerance=1e-4)


@family("LRN")
def lrn(d: Draw) -> Case:
    region = d.int(0, 1)
    size = d.one([1, 3, 5])
    d.model.one("LRN", [d.input(d.shape(3, 3))], {0: region, 1: size, 2: 0.5, 3: 0.75, 4: d.one([1.0, 2.0])})
    return d.case(tolerance=1e-4)


@family("MVN")
def mvn(d: Draw) -> Case:
    shape = [d.int(2, 6), d.int(2, 6), d.int(2, 6)]
    d.model.one("MVN", [d.input(shape)], {0: int(d.flag()), 1: int(d.flag()), 2: 1e-2})
    return d.case(tolerance=1e-4)


@family("Normalize")
def normalize(d: Draw) -> Case:
    shape = d.shape(3, 4)
    space, channels = d.one([(0, 1), (1, 0), (1, 1)])
    shared = d.flag()
    count = 1 if shared else shape[0]
    params = {0: space, 4: channels, 1: int(shared), 2: 1e-2, 3: count, 9: d.int(0, 2)}
    d.model.one("Normalize", [d.input(shape)], params, [d.plain(count)])
    return d.case(tolerance=5e-5)


@family("Softmax")
def softmax(d: Draw) -> Case:
    shape = d.shape()
    axis = d.int(-len(shape), len(shape) - 1)
    d.model.one("Softmax", [d.input(shape, -4, 4)], {0: axis, 1: 1})
    return d.case()
