"""Hints for transposed windows, resizing, blocks, attention and recurrent layers; see
:mod:`MNN.ops.inference.infer`."""

from __future__ import annotations

from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.symbolic import Size, add, exact_quotient, floor_divide, multiply
from MNN.ops.images.resize_tables import scaled
from MNN.ops.inference.infer import Hint, Hints, Sizes, broadcast, ints, number, operand, rule, sizes
from MNN.ops.inference.shapes import listed
from MNN.ops.inference.windows import steps


@rule("Deconvolution", "DeconvolutionDepthwise", "ConvTranspose3D")
def deconvolution(h: Hints, node: Node) -> list[Hint]:
    x, weights = operand(node, 0), sizes(operand(node, 1))
    flat = node.op != "ConvTranspose3D"
    spatial = 2 if flat else 3
    known = sizes(x) or (None,) * (spatial + 2)
    if weights is None or len(weights) != spatial + 2 or len(known) != spatial + 2:
        return [(x.dtype, (known[0], *(None,) * (spatial + 1)))]
    channels = known[1] if node.op == "DeconvolutionDepthwise" else multiply(weights[1], number(node, "group", 1))
    if node.attrs.get("hasOutputShape"):
        return [(x.dtype, (known[0], channels, *(None,) * spatial))]
    strides, dilations, pads = steps(node, flat)
    both = pads * 2 if len(pads) == spatial else pads or [0] * (2 * spatial)
    extra, mode = ints(node, "outPads") or [0] * spatial, str(node.attrs.get("padMode", "CAFFE"))
    out: list[Size] = []
    for i, (size, kernel) in enumerate(zip(known[2:], weights[2:], strict=True)):
        if mode.startswith("SAME"):
            out.append(multiply(size, strides[i]))
            continue
        cut = 0 if mode == "VALID" else both[i] + both[i + spatial]
        reach = multiply(add(kernel, -1), dilations[i])
        out.append(add(multiply(add(size, -1), strides[i]), reach, 1 + extra[i] - cut))
    return [(x.dtype, (known[0], channels, *out))]


@rule("Interp", "Interp3D")
def interp(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, given = sizes(x), node.inputs[1] if len(node.inputs) > 1 else None
    if known is None:
        return [(x.dtype, None)]
    names = ("Depth", "Height", "Width")[3 - (len(known) - 2) :]
    if given is None and all(number(node, f"output{n}") for n in names):
        return [(x.dtype, (*known[:2], *(number(node, f"output{n}") for n in names)))]
    return [(x.dtype, _resized(h, known, given))]


@rule("OnnxResize")
def onnx_resize(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known = sizes(x)
    plain = not node.attrs.get("axes") and node.attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if known is None or not plain:
        scaled = {a % len(known) for a in ints(node, "axes")} if known else set()
        kept = [None if not scaled or i in scaled else d for i, d in enumerate(known or ())]
        return [(x.dtype, None if known is None else tuple(kept))]
    given = [node.inputs[i] if len(node.inputs) > i else None for i in (3, 2)]
    return [(x.dtype, _resized(h, known, next((v for v in given if v is not None), None)))]


def _resized(h: Hints, known: Sizes, given: Value | None) -> Sizes:
    """The shape that sizes (of all or the spatial axes) or constant scales lead to."""
    if given is not None and given.data is not None and given.array().dtype.kind == "f":
        factors = given.array().reshape(-1)
        if len(factors) == len(known):
            return tuple(_scaled(d, float(f)) for d, f in zip(known, factors, strict=True))
    wanted = h.ints(given)
    if wanted is not None and len(wanted) == len(known):
        return tuple(wanted)
    if wanted is not None and len(wanted) == len(known) - 2:
        return (*known[:2], *wanted)
    return (*known[:2], *(None,) * (len(known) - 2))


def _scaled(size: Size, factor: float) -> Size:
    if isinstance(size, int):
        return scaled(size, factor)
    if factor >= 1 and factor == int(factor):
        return multiply(size, int(factor))
    parts = round(1 / factor) if factor > 0 else 0
    return floor_divide(size, parts) if parts and parts & (parts - 1) == 0 and parts * factor == 1 else None


@rule("OnnxGridSample", "GridSample")
def grid_sample(h: Hints, node: Node) -> list[Hint]:
    x, grid = operand(node, 0), operand(node, 1)
    known, places = sizes(x), sizes(grid)
    if known is None or places is None or len(places) != len(known):
        return [(x.dtype, None if known is None else (*known[:2], *(None,) * (len(known) - 2)))]
    return [(x.dtype, (*known[:2], *places[1:-1]))]


@rule("DepthToSpace", "SpaceToDepth")
def blocks(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, block = sizes(x), number(node, "blockSize")
    if known is None or len(known) != 4 or block < 1:
        return [(x.dtype, known)]
    n, c, *plane = known
    if node.op == "DepthToSpace":
        return [(x.dtype, (n, exact_quotient(c, block * block), *(multiply(d, block) for d in plane)))]
    return [(x.dtype, (n, multiply(c, block * block), *(exact_quotient(d, block) for d in plane)))]


@rule("OnnxAttention")
def attention(h: Hints, node: Node) -> list[Hint]:
    """``q``, ``k``, ``v`` are ``[B, heads, S, D]`` or ``[B, S, heads * D]``; keys and values of the past come first."""
    q, k, v = (operand(node, i) for i in range(3))
    shapes = [sizes(t) for t in (q, k, v)]
    dtype = q.dtype
    if any(s is None or len(s) not in (3, 4) for s in shapes):
        return [(dtype, None)]
    (a, b, c), flat = [s for s in shapes if s is not None], len(shapes[0] or ()) == 3
    heads, groups = number(node, "q_num_heads"), number(node, "kv_num_heads")
    if flat:
        b, c = ((s[0], groups, s[1], exact_quotient(s[2], groups)) for s in (b, c))
        out: Sizes = (a[0], a[1], multiply(c[3], heads))
    else:
        out = (*a[:3], c[3])
    past = [node.inputs[i] if len(node.inputs) > i else None for i in (4, 5)]
    kept: list[Sizes] = []
    for now, before in zip((b, c), past, strict=True):
        shape = sizes(before) if before is not None else (0,) * 4
        length = add(shape[2], now[2]) if shape is not None and len(shape) == 4 else None
        kept.append((*now[:2], length, now[3]))
    rows = (a[0], heads if flat else a[1], a[1] if flat else a[2])
    return [(dtype, out), (k.dtype, kept[0]), (v.dtype, kept[1]), (dtype, (*rows, kept[0][2]))]


@rule("LSTM", "RNN", "OnnxLSTM", "OnnxGRU", "OnnxRNN", "DynamicQuantizeLSTM")
def recurrent(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, r = sizes(x), sizes(operand(node, 2))
    if known is None or len(known) != 3 or r is None or len(r) != 3:
        return [(x.dtype, (None,) * 4), (x.dtype, (None,) * 3), (x.dtype, (None,) * 3)]
    directions, hidden = r[0], r[2]
    if number(node, "layout") == 1:
        batch, steps = known[:2]
        last: Sizes = (batch, directions, hidden)
        return [(x.dtype, (batch, steps, directions, hidden)), (x.dtype, last), (x.dtype, last)]
    steps, batch = known[:2]
    last = (directions, batch, hidden)
    return [(x.dtype, (steps, directions, batch, hidden)), (x.dtype, last), (x.dtype, last)]


@rule("Compress")
def compress(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, axis = sizes(x), node.attrs.get("axis")
    if axis is None:
        return [(x.dtype, (None,))]
    if known is None:
        return [(x.dtype, None)]
    at = number(node, "axis") % max(len(known), 1)
    return [(x.dtype, tuple(None if i == at else d for i, d in enumerate(known)))]


@rule("OnnxCol2Im")
def col2im(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, image, block = sizes(x), h.ints(operand(node, 1)), h.known_ints(operand(node, 2))
    axes = operand(node, 1).shape
    if known is None or image is None or block is None or len(known) != 3:
        count = axes[0] if axes and isinstance(axes[0], int) and axes[0] <= 8 else None
        return [(x.dtype, None if known is None or count is None else (known[0], *(None,) * (1 + count)))]
    return [(x.dtype, (known[0], exact_quotient(known[1], multiply(*block)), *image))]


@rule("ROIAlign")
def roi_align(h: Hints, node: Node) -> list[Hint]:
    x, regions = operand(node, 0), sizes(operand(node, 1))
    known = sizes(x)
    if known is None or regions is None or not regions:
        return [(x.dtype, None)]
    return [(x.dtype, (regions[0], known[1], number(node, "pooledHeight", 1), number(node, "pooledWidth", 1)))]


@rule("DFT")
def transform(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, length = sizes(x), h.ints(node.inputs[1]) if len(node.inputs) > 1 else None
    given = node.inputs[2] if len(node.inputs) > 2 else None
    at = [number(node, "axis", 1)] if given is None else h.known_ints(given)
    plain = (len(node.inputs) < 2 or node.inputs[1] is None) and not node.attrs.get("onesided")
    if known is not None and plain and not at:  # whichever the axis is, its size stays
        return [(x.dtype, (*known[:-1], 2))]
    parts: Size = 1 if node.attrs.get("onesided") and node.attrs.get("inverse") else 2
    if known is None or not at or not -len(known) <= at[0] < len(known):
        return [(x.dtype, None if known is None else (*(None,) * (len(known) - 1), parts))]
    axis, onesided = at[0] % len(known), bool(node.attrs.get("onesided"))
    bins: Size = known[axis]
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        bins = length[0] if length and len(length) == 1 else None
    if onesided and node.attrs.get("inverse"):
        bins = None
    elif onesided:
        bins = add(floor_divide(bins, 2), 1)
    return [(x.dtype, (*known[:axis], bins, *known[axis + 1 : -1], parts))]


@rule("Stft")
def short_transforms(h: Hints, node: Node) -> list[Hint]:
    x, step = operand(node, 0), h.known_ints(operand(node, 1))
    known, window = sizes(x), node.inputs[2] if len(node.inputs) > 2 else None
    length = h.known_ints(node.inputs[3]) if len(node.inputs) > 3 else None
    if length is None and window is not None and window.shape is not None:
        length = [d for d in window.shape if isinstance(d, int)]
    if known is None or len(known) < 2 or not step or not length or step[0] < 1:
        return [(x.dtype, None if known is None else (known[0], None, None, 2))]
    frames = add(floor_divide(add(known[1], -length[0]), step[0]), 1)
    onesided = bool(node.attrs.get("onesided", True))
    return [(x.dtype, (known[0], frames, length[0] // 2 + 1 if onesided else length[0], 2))]


@rule("Det")
def determinant(h: Hints, node: Node) -> list[Hint]:
    known = sizes(operand(node, 0))
    return [(operand(node, 0).dtype, None if known is None else known[:-2])]


@rule("DynamicQuantizeLinear")
def dynamic_quantize(h: Hints, node: Node) -> list[Hint]:
    return [(DType.U8, sizes(operand(node, 0))), (DType.F32, ()), (DType.U8, ())]


@rule("LayerNormalization")
def layer_normalization(h: Hints, node: Node) -> list[Hint]:
    """The result, the mean and the inverse of the deviation of what is normalised together."""
    x, count = operand(node, 0), max(len(ints(node, "axis")), 1)
    known = sizes(x)
    if known is None:
        return [(x.dtype, None)] * 3
    one = (*known[: len(known) - count], *(1,) * count)
    return [(x.dtype, known), (DType.F32, one), (DType.F32, one)]


@rule("DropoutTraining")
def dropout(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    return [(x.dtype, sizes(x)), (DType.BOOL, sizes(x))]


@rule("BatchNormTraining")
def batch_normalization(h: Hints, node: Node) -> list[Hint]:
    x, parts = operand(node, 0), [operand(node, i) for i in (3, 4)]
    return [(x.dtype, sizes(x)), *((v.dtype, sizes(v)) for v in parts)]


@rule("DeformConv")
def deformed(h: Hints, node: Node) -> list[Hint]:
    x, shapes = operand(node, 0), [sizes(operand(node, i)) for i in range(3)]
    if any(s is None or len(s) != 4 for s in shapes):
        return [(x.dtype, (None,) * 4)]
    known, weights, offset = (s for s in shapes if s is not None)
    return [(x.dtype, (known[0], weights[0], *offset[2:]))]


@rule("AffineGrid")
def affine_grid(h: Hints, node: Node) -> list[Hint]:
    x, size = operand(node, 0), listed(h, operand(node, 1))
    return [(x.dtype, None if not size else (size[0], *size[2:], len(size) - 2))]


@rule("SequenceLength")
def length(h: Hints, node: Node) -> list[Hint]:
    return [(DType.I64, ())]


@rule("OptionalHasElement")
def presence(h: Hints, node: Node) -> list[Hint]:
    return [(DType.BOOL, ())]


@rule("StringConcat")
def joined_texts(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    return [(x.dtype, broadcast([sizes(operand(node, i)) for i in range(2)]))]


@rule("StringSplit")
def texts_apart(h: Hints, node: Node) -> list[Hint]:
    x, known = operand(node, 0), sizes(operand(node, 0))
    return [(x.dtype, None if known is None else (*known, None)), (DType.I64, known)]


@rule("StringNormalizer")
def plain_texts(h: Hints, node: Node) -> list[Hint]:
    x, known = operand(node, 0), sizes(operand(node, 0))
    return [(x.dtype, None if known is None else (*known[:-1], None))]


@rule("ImageDecoder")
def picture(h: Hints, node: Node) -> list[Hint]:
    return [(DType.U8, (None, None, 1 if node.attrs.get("pixelFormat") == "Grayscale" else 3))]


@rule("RegexFullMatch")
def matches(h: Hints, node: Node) -> list[Hint]:
    return [(DType.BOOL, sizes(operand(node, 0)))]


@rule("TreeEnsemble")
def forest(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    known, targets = sizes(x), number(node, "n_targets", 0) or None
    return [(None, (known[0], targets) if known is not None and len(known) == 2 else None)]
