"""What an operator's table holds: attributes, and constant operands as arrays."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from MNN.errors import FormatError, UnsupportedError
from MNN.formatting import plural
from MNN.frontends.mnn.attributes import flatten
from MNN.frontends.mnn.official.record import Data, Kernel, Official
from MNN.frontends.mnn.official.registry import official, officials
from MNN.ir.quant import QuantizedArray
from MNN.schema.external import ExternalSource
from MNN.schema.record import Record
from MNN.schema.tables import table
from MNN.schema.weights import DecodedWeight, decode_bias, decode_weight, read_parts

_MAX_EXTENT = 1 << 31

#: Fields that :func:`stored` turns into operands.
WEIGHT_FIELDS = frozenset(
    {"weight", "bias", "quanParameter", "symmetricQuan", "sparseParameter", "external", "Adata", "Bdata"}
)


def table_attributes(op: Record) -> dict[str, object]:
    """The attributes in an operator's table."""
    form = official(str(op.type))
    # a table may be Extra only as a mark (Where)
    empty = op.main is None or op.main.table_name == "Extra"
    attrs = {} if empty else flatten(op.main, _skipped_fields(form))
    if form.restore is not None and op.main is not None:
        form.restore(attrs)
    return attrs


def _skipped_fields(form: Official) -> frozenset[str]:
    """Fields of an operator's main table that are operands and no attributes."""
    if form.bias_is_number:
        return frozenset()
    return WEIGHT_FIELDS | (_operand_fields(form.table) if form.operands else frozenset())


@cache
def _operand_fields(table_name: str | None) -> frozenset[str]:
    """Fields of a table that hold operands of some operator which has it."""
    return frozenset(f for form in officials().values() if form.table == table_name for f in form.operands)


def stored(op: Record, external: ExternalSource | None) -> list[Data | None]:
    """The constant operands of an operator that lie in its table, in the order in which they follow its first input."""
    form = official(str(op.type))
    read = form.read or (vectors if form.operands else None)
    return [] if read is None or op.main is None else read(op, external)


def vectors(op: Record, external: ExternalSource | None) -> list[Data | None]:
    """Operands of one dimension, each in a field of its own."""
    main, names = op.main, official(str(op.type)).operands
    found: list[Data | None] = [main.get(name) for name in names]
    if "external" in table(main.table_name).fields and main.get("external") is not None and main.external.size >= 2:
        for i, array in enumerate(read_parts(main, ["<f4"] * len(names), external, op.externalPath)):
            if found[i] is None and array.size:
                found[i] = array
    while found and found[-1] is None:
        found.pop()
    return found


def _kernel(op: Record) -> Kernel:
    kernel = official(str(op.type)).kernel
    assert kernel is not None
    return kernel


def _positive(name: str, op: Record, *numbers: int) -> None:
    if any(not 0 < n < _MAX_EXTENT for n in numbers):
        raise FormatError(f"{op.type} '{op.name}': {name} {list(numbers)}, expected positive sizes")


def convolution(op: Record, external: ExternalSource | None) -> list[Data | None]:
    """Weights and bias of a convolution or a transposed one over two dimensions."""
    main, common = op.main, op.main.common
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
    kernel = _kernel(op)
    shape: tuple[int, ...]
    if kernel.depthwise:
        # one input channel per filter; files of some converters leave the group at 1
        first = common.inputCount or out if kernel.transposed else out
        shape = (first, decoded.size // (first * window), common.kernelY, common.kernelX)
    elif kernel.transposed:
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
    return [quantized(decoded, shape, kernel.transposed), bias]


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


def convolution_3d(op: Record, external: ExternalSource | None) -> list[Data | None]:
    """Weights and bias of those over three dimensions."""
    main, common = op.main, op.main.common
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
    transposed = _kernel(op).transposed
    kernel = [int(k) for k in common.get("kernels", ())]
    group = max(common.group, 1)
    _positive("kernel and output channels", op, *kernel, common.outputCount)
    rest = common.outputCount * math.prod(kernel)
    inner = weight.size * (group if transposed else 1) // rest
    shape = (common.outputCount, inner, *kernel)
    if transposed:
        shape = (inner, common.outputCount // group, *kernel)
    if len(kernel) != 3 or math.prod(shape) != weight.size:
        raise FormatError(f"{where}: {weight.size} weights do not have the shape {list(shape)}")
    return [weight.reshape(shape), bias if bias is not None and bias.size else None]


def inner_product(op: Record, external: ExternalSource | None) -> list[Data | None]:
    """Matrix and bias."""
    where, main = f"{op.type} '{op.name}'", op.main
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


def rotary(op: Record, external: ExternalSource | None) -> list[Data | None]:
    """The weights of the norms of queries and keys, and the epsilon of both; nothing where there are none."""
    norms = [op.main.get(name) for name in ("q_norm", "k_norm")]
    if all(norm is None for norm in norms):
        return [None] * 3
    if any(norm is not None and not norm.useRMSNorm for norm in norms):
        raise UnsupportedError(f"RoPE '{op.name}': a norm of queries or keys that is no RMS norm")
    epsilons = [0.0 if norm is None else norm.epsilon for norm in norms]
    return [*(None if norm is None else norm.get("gamma") for norm in norms), np.array(epsilons, np.float32)]
