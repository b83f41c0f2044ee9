"""Products of matrices, and rows of tables."""

from __future__ import annotations

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.operators.quantized import rounded
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value


def _inner_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    found = {"weight": r.tagged(p.integer(2))}
    if p.flag(1):
        found["bias"] = r.plain(p.integer(0))
    if p.integer(8):
        found |= {"scales": r.plain(p.integer(0)), "input_scale": r.plain(1)}
    return found


@ncnn_layer("InnerProduct", weights=_inner_weights)
def inner_product(ctx: Context, node: NcnnNode) -> Value:
    """``[O, K]`` times everything in a line, or times each row of a matrix ``[h, K]``."""
    p, x = node.params, node.input(0)
    outputs = p.integer(0)
    width, rest = divmod(p.integer(2), max(outputs, 1))
    if rest or width < 1:
        raise node.malformed(f"{p.integer(2)} weights for {outputs} outputs")
    dims = ctx.dims(node, x)
    last = ctx.extent(x, dims)
    rows = dims == 2 and (last == width or (last is None and ctx.extent(x, 1) != 1))
    if node.has_weight("scales"):
        x = rounded(ctx, x, float(node.weight("input_scale", [1])[0]))
    x = ctx.floats(x)
    flat = x if rows or dims == 1 else ctx.reshape(x, [width])
    out = ctx.op("MatMul", flat, matrix(ctx, node, outputs, width), _bias(ctx, node, outputs), transposeB=True)
    return ctx.activated(node, out)


def _bias(ctx: Context, node: NcnnNode, count: int) -> Value | None:
    return ctx.const(node.weight("bias", [count])) if node.has_weight("bias") else None


def matrix(ctx: Context, node: NcnnNode, rows: int, cols: int) -> Value:
    weight = node.weight("weight", (rows, cols))
    if weight.dtype != np.int8 and not node.has_weight("scales"):
        return ctx.const(weight)
    if not node.has_weight("scales"):
        raise node.malformed("8-bit weights without scales")
    scales = node.weight("scales", [rows])
    if weight.dtype != np.int8:
        scaled = weight * scales[:, None]
        weight = np.clip(np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5)), -127, 127).astype(np.int8)
    return ctx.dequantized(np.ascontiguousarray(weight), scales)


def _embed_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    found = {"weight": r.tagged(p.integer(3))}
    if p.flag(2):
        found["bias"] = r.plain(p.integer(0))
    return found | ({"scale": r.plain(1)} if p.flag(18) else {})


@ncnn_layer("Embed", weights=_embed_weights)
def embed(ctx: Context, node: NcnnNode) -> Value:
    """Rows of a table; numbers beyond its ends take the first or the last."""
    p = node.params
    width, count = p.integer(0), p.integer(1)
    table = ctx.const(node.weight("weight", (count, width)))
    words = ctx.op("Cast", node.input(0), dstT="DT_INT32")
    low = ctx.op("BinaryOp", words, ctx.const(np.int32(0)), opType="MAXIMUM")
    places = ctx.op("BinaryOp", low, ctx.const(np.int32(count - 1)), opType="MINIMUM")
    rows = ctx.floats(ctx.op("GatherV2", table, places, ctx.const(np.int32(0))))
    if node.has_weight("scale"):
        scale = float(node.weight("scale", [1])[0])
        rows = ctx.binary("MUL", rows, 1 / scale if scale else 0.0)
    bias = _bias(ctx, node, width)
    return rows if bias is None else ctx.binary("ADD", rows, bias)


@ncnn_layer("MatMul")
def matmul(ctx: Context, node: NcnnNode) -> Value:
    """By numpy's rules for vectors and batches; parameter 0 swaps the last axes of the second operand."""
    x, y = (ctx.op("Squeeze", node.input(i), squeezeDims=[0]) for i in (0, 1))
    lines = ctx.dims(node, node.input(0)) == 1 and ctx.dims(node, node.input(1)) == 1
    swapped = node.params.flag(0) and ctx.dims(node, node.input(1)) > 1
    out = ctx.op("MatMul", x, y, transposeB=swapped)
    return ctx.op("Reshape", out, ctx.const([1, 1])) if lines else ctx.op("Unsqueeze", out, squeezeDims=[0])


@ncnn_layer("Einsum")
def einsum(ctx: Context, node: NcnnNode) -> Value:
    """The equation is a list of characters' numbers."""
    codes = node.params.ints(0)
    if not all(32 < c < 127 for c in codes) or len(codes) > 256:
        raise node.malformed("its equation is no text")
    text = "".join(map(chr, codes))
    trace = text == "ii"
    plain = [ctx.op("Squeeze", v, squeezeDims=[0]) for v in node.inputs]
    out = ctx.op("Einsum", *plain, equation="ii->" if trace else text)
    return ctx.op("Reshape", out, ctx.const([1, 1])) if trace else ctx.op("Unsqueeze", out, squeezeDims=[0])


# -- Gemm --------------------------------------------------------------------------------------------------------------

_BLOCKS = (32, 64, 128)


def block_format(term: int) -> tuple[int, int, bool] | None:
    """Bits, numbers in a block, and whether inputs are scaled, of weights in blocks; None for other terms."""
    bits, kind, size = term // 100, term % 100 // 10, term % 10
    if bits not in (4, 6, 8) or kind > 1 or size > 2:
        return None
    return bits, _BLOCKS[size], kind == 1


def unpacked(codes: np.ndarray, bits: int, cols: int) -> np.ndarray:
    """Signed integers of ``bits`` bits ``[rows, cols]``, packed from the lowest bit of each byte on."""
    raw = np.unpackbits(codes.view(np.uint8), axis=1, bitorder="little")[:, : cols * bits]
    places = np.left_shift(np.int16(1), np.arange(bits, dtype=np.int16))
    values = (raw.reshape(len(codes), cols, bits) * places).sum(2, dtype=np.int16)
    signed: np.ndarray = np.where(values >= 1 << (bits - 1), values - (1 << bits), values).astype(np.int8)
    return signed


def _gemm_weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    m, n, k, term = p.integer(7), p.integer(8), p.integer(9), p.integer(18)
    block = block_format(term)
    found: dict[str, np.ndarray] = {}
    if p.flag(4):
        found["a"] = r.tagged(m * k)
    if p.flag(5):
        found["b"] = r.tagged(n * (-(-k * block[0] // 8) if block else k))
    if p.flag(6) and p.integer(10) != -1:
        sizes = {0: 1, 1: m, 2: m, 3: m * n, 4: n}
        found["c"] = r.tagged(sizes.get(p.integer(10), 0))
    if block:
        found["block_scales"] = r.plain(n * -(-k // block[1]))
        if block[2]:
            found["input_scales"] = r.plain(k)
    elif term:
        if p.flag(4):
            found["a_scales"] = r.plain(m)
        if p.flag(5):
            found["b_scale"] = r.plain(1)
    return found


@ncnn_layer("Gemm", weights=_gemm_weights)
def gemm(ctx: Context, node: NcnnNode) -> Value:
    """``alpha * (A @ B + beta * C)``; what is constant lies in the file. 8-bit weights are multiplied by floats as they
    are, which ncnn rounds to 8 bits first."""
    p = node.params
    left = list(node.inputs)
    a, swap_a = _operand(ctx, node, "a", left), p.flag(2)
    b, swap_b = _operand(ctx, node, "b", left), p.flag(3)
    if node.has_weight("input_scales"):
        a = ctx.binary("MUL", a, ctx.const(node.weights("input_scales")))
    out = ctx.op("MatMul", a, b, transposeA=swap_a, transposeB=swap_b)
    c = _added(ctx, node, out, left)
    if c is not None:
        out = ctx.binary("ADD", out, ctx.affine(c, p.real(1, 1.0), 0))
    out = ctx.affine(out, p.real(0, 1.0), 0)
    if p.flag(14):
        out = ctx.op("Permute", out, dims=[1, 0])
    # a column of matrices of one number: parameter 11
    return ctx.op("Unsqueeze", out, squeezeDims=[0, 2] if p.flag(11) else [0])


def _operand(ctx: Context, node: NcnnNode, name: str, left: list[Value]) -> Value:
    """A constant or the next operand, as a matrix; constants that need not be swapped stay in 8 bits."""
    p = node.params
    if not node.has_weight(name):
        if not left:
            raise node.malformed(f"operand {name.upper()} is missing")
        x = ctx.floats(left.pop(0))
        dims = ctx.dims(node, x)
        if dims == 3:  # rows that lie apart
            return ctx.op("Squeeze", x, squeezeDims=[0, 2])
        return ctx.op("Squeeze", ctx.expect(node, x, 2), squeezeDims=[0])
    rows, cols = (p.integer(7), p.integer(9)) if name == "a" else (p.integer(9), p.integer(8))
    swapped = p.flag(2 if name == "a" else 3)
    shape = (cols, rows) if swapped else (rows, cols)
    block = block_format(p.integer(18))
    if block and name == "b":
        numbers = unpacked(node.weights("b").reshape(p.integer(8), -1), block[0], p.integer(9))
        return ctx.compressed(numbers, node.weights("block_scales").reshape(p.integer(8), -1))
    weight = node.weight(name, shape)
    if weight.dtype != np.int8:
        return ctx.const(weight)
    scales = node.weights("a_scales" if name == "a" else "b_scale")
    if name == "b" and swapped:
        return ctx.compressed(weight, scales)
    line = scales if scales.size == 1 or not swapped else scales[None, :]
    column = line[:, None] if scales.size > 1 and not swapped else line
    return ctx.const((weight / column).astype(np.float32))


def _added(ctx: Context, node: NcnnNode, out: Value, left: list[Value]) -> Value | None:
    p = node.params
    if node.has_weight("c"):
        m, n = p.integer(7), p.integer(8)
        shapes = {0: (1, 1), 1: (m, 1), 2: (m, 1), 3: (m, n), 4: (1, n)}
        return ctx.const(node.weight("c", shapes[p.integer(10)]))
    if not left or p.flag(6):
        return None
    c = left.pop(0)
    if ctx.dims(node, c) == 1:
        size, (rows, columns) = ctx.extent(c, 1), out.shape or (None, None)
        if size is not None and size != 1 and size == rows and size != columns:
            return ctx.op("Reshape", c, ctx.const([-1, 1]))
        return ctx.op("Reshape", c, ctx.const([1, -1]))
    return ctx.op("Squeeze", c, squeezeDims=[0])
