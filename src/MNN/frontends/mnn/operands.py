"""Constant operands that the format keeps inside of an operator's table: to arrays and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.formatting import plural
from MNN.frontends.mnn.official.registry import official
from MNN.frontends.mnn.official.tables import CONVOLUTIONS, DECONVOLUTIONS
from MNN.ir.quant import QuantizedArray
from MNN.schema.external import ExternalSource
from MNN.schema.record import Record
from MNN.schema.tables import table
from MNN.schema.weights import DecodedWeight, decode_bias, decode_weight, read_parts

Data = np.ndarray | QuantizedArray
_MAX_EXTENT = 1 << 31

#: Fields that :func:`stored` turns into operands.
WEIGHT_FIELDS = frozenset(
    {"weight", "bias", "quanParameter", "symmetricQuan", "sparseParameter", "external", "Adata", "Bdata"}
)


def skipped_fields(op_type: str) -> frozenset[str]:
    """Fields of the operator's main table that are operands and no attributes."""
    if op_type in ("LRN", "Moments"):  # ``bias`` is a number there
        return frozenset()
    own = official("BatchNorm" if op_type == "InstanceNorm" else op_type).operands
    return WEIGHT_FIELDS.union(own)


def stored(op: Record, external: ExternalSource | None) -> list[Data | None]:
    """The constant operands of an operator that lie in its table, in the order in which they follow its first input."""
    kind, main = str(op.type), op.main
    if main is None:
        return []
    if kind in CONVOLUTIONS or kind in DECONVOLUTIONS:
        return _convolution(op, main, external)
    if kind in ("Convolution3D", "ConvTranspose3D"):
        return _convolution_3d(op, main, external)
    if kind == "InnerProduct":
        return _inner_product(op, main)
    if official(kind).operands:
        return _vectors(kind, main, external, op.externalPath)
    return []


def _vectors(kind: str, main: Record, external: ExternalSource | None, location: str | None) -> list[Data | None]:
    names = official(kind).operands
    found: list[Data | None] = [main.get(name) for name in names]
    if "external" in table(main.table_name).fields and main.get("external") is not None and main.external.size >= 2:
        for i, array in enumerate(read_parts(main, ["<f4"] * len(names), external, location)):
            if found[i] is None and array.size:
                found[i] = array
    while found and found[-1] is None:
        found.pop()
    return found


def _positive(name: str, op: Record, *numbers: int) -> None:
    if any(not 0 < n < _MAX_EXTENT for n in numbers):
        raise FormatError(f"{op.type} '{op.name}': {name} {list(numbers)}, expected positive sizes")


def _convolution(op: Record, main: Record, external: ExternalSource | None) -> list[Data | None]:
    common = main.common
    if common is None:
        raise FormatError(f"{op.type} '{op.name}': its table has no 'common' part")
    given = len(op.get("inputIndexes", ())) - 1 - bool(common.hasOutputShape)
    place = main.get("external")
    empty = main.get("weight") is None and main.quanParameter is None and (place is None or place.size < 2)
    if given > 0 and empty:
        return []
    where = f"{op.type} '{op.name}'"
    if main.symmetricQuan is not None and main.get("weight") is None and main.quanParameter is None:
        raise UnsupportedError(f"{where}: an 8-bit convolution with its scales elsewhere")
    decoded = decode_weight(main, external, op.externalPath)
    out, group = common.outputCount, max(common.group, 1)
    _positive("kernel and output channels", op, common.kernelY, common.kernelX, out)
    window = common.kernelY * common.kernelX
    depthwise = op.type in ("ConvolutionDepthwise", "DeconvolutionDepthwise")
    shape: tuple[int, ...]
    if depthwise:
        # one input channel per filter; files of some converters leave the group at 1
        first = out if op.type == "ConvolutionDepthwise" else common.inputCount or out
        shape = (first, decoded.size // (first * window), common.kernelY, common.kernelX)
    elif op.type == "Deconvolution":
        inner = common.inputCount or decoded.size * group // (out * window)
        shape = (inner, out // group, common.kernelY, common.kernelX)
    else:
        shape = (out, decoded.size // (out * window), common.kernelY, common.kernelX)
        if common.inputCount and shape[1] * group != common.inputCount:
            raise FormatError(
                f"{where}: {decoded.size} weights for {common.inputCount} input channels in {plural(group, 'group')}, "
                f"{out} output channels and a {common.kernelY}x{common.kernelX} kernel"
            )
    if math.prod(shape) != decoded.size or not decoded.size:
        raise FormatError(f"{where}: {decoded.size} weights do not have the shape {list(shape)}")
    bias = decode_bias(main, external, op.externalPath)
    if bias is not None and bias.size not in (out,):
        if bias.size:
            raise FormatError(f"{where}: {bias.size} biases for {out} output channels")
        bias = None
    return [quantized(decoded, shape, op.type in DECONVOLUTIONS), bias]


def quantized(decoded: DecodedWeight, shape: tuple[int, ...], expand: bool = False) -> Data:
    """A decoded weight in its shape, still compressed where its rows are those of :class:`QuantizedArray`."""
    if decoded.is_float:
        return np.asarray(decoded.values, np.float32).reshape(shape)
    rows = decoded.values.shape[0] // max(decoded.blocks, 1)
    if expand or decoded.scale is None or rows != shape[0]:
        return decoded.dequantize().reshape(shape)
    values = decoded.values.reshape(rows, -1)
    scale = decoded.scale.reshape(rows, -1)
    offset = None if decoded.offset is None else decoded.offset.reshape(rows, -1)
    return QuantizedArray.of(values, scale, offset, decoded.bits, shape)


def _convolution_3d(op: Record, main: Record, external: ExternalSource | None) -> list[Data | None]:
    common = main.common
    where = f"{op.type} '{op.name}'"
    if common is None:
        raise FormatError(f"{where}: its table has no 'common' part")
    weight, bias = main.get("weight"), main.get("bias")
    place = main.get("external")
    if weight is None and place is not None and place.size >= 2:
        parts = read_parts(main, ["<f4", "<f4"], external, op.externalPath)
        weight, bias = parts[0], parts[1] if len(parts) > 1 else bias
    if weight is None:
        return []
    kernel = [int(k) for k in common.get("kernels", ())]
    group = max(common.group, 1)
    _positive("kernel and output channels", op, *kernel, common.outputCount)
    rest = common.outputCount * math.prod(kernel)
    inner = weight.size * (group if op.type == "ConvTranspose3D" else 1) // rest
    shape = (common.outputCount, inner, *kernel)
    if op.type == "ConvTranspose3D":
        shape = (inner, common.outputCount // group, *kernel)
    if len(kernel) != 3 or math.prod(shape) != weight.size:
        raise FormatError(f"{where}: {weight.size} weights do not have the shape {list(shape)}")
    return [weight.reshape(shape), bias if bias is not None and bias.size else None]


def _inner_product(op: Record, main: Record) -> list[Data | None]:
    where = f"{op.type} '{op.name}'"
    weight = main.get("weight")
    if main.quanParameter is not None:
        common = Record("Convolution2DCommon", outputCount=main.outputCount)
        weight = decode_weight(Record("Convolution2D", common=common, quanParameter=main.quanParameter)).dequantize()
    if weight is None:
        return []
    _positive("output count", op, main.outputCount)
    if weight.size % main.outputCount:
        raise FormatError(f"{where}: {weight.size} weights for {main.outputCount} outputs")
    inner = weight.size // main.outputCount
    shape = (inner, main.outputCount) if main.transpose else (main.outputCount, inner)
    bias: Any = main.get("bias")
    return [weight.reshape(shape), bias if bias is not None and bias.size else None]
