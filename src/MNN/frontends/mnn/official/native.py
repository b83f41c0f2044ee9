"""One node as the operator that the official engine has for it, or None when it has none with this meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.mnn.attributes import fill, is_default
from MNN.frontends.mnn.official.registry import official, officials
from MNN.frontends.mnn.official.tables import CONVOLUTIONS, DECONVOLUTIONS
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.base import operators
from MNN.schema.record import Record
from MNN.schema.tables import enum
from MNN.schema.weight_encode import encode_fp16, encode_quantized

#: Attributes that only say which integer type a result has; the official engine has one.
_NOTED = frozenset({"outputDataType"})
#: Element types that the official engine does not compute with, and those it has instead.
_OFFICIAL_TYPES = {
    **dict.fromkeys(("DT_INT64", "DT_INT16", "DT_UINT16", "DT_UINT32", "DT_UINT64"), "DT_INT32"),
    **dict.fromkeys(("DT_DOUBLE", "DT_HALF", "DT_BFLOAT16"), "DT_FLOAT"),
}
_FLOATS = (DType.F32, DType.F16, DType.BF16)


@dataclass
class Written:
    """An operator's record (without tensor indexes), the inputs it still takes as tensors, and notes for our reader."""

    record: Record
    inputs: list[Value | None]
    note: dict[str, Any] = field(default_factory=dict)


def native(node: Node, fp16: bool) -> Written | None:
    """The official operator for ``node``, or None."""
    known = operators().get(node.op)
    if known is None or not known.in_mnn or node.op not in enum("OpType").values:
        return None
    handler = _HANDLERS.get(node.op, _plain)
    try:
        written = handler(node, fp16)
    except FormatError:  # a value that the table cannot hold
        return None
    if written is not None:
        while written.inputs and written.inputs[-1] is None:
            written.inputs.pop()
        if None in written.inputs:  # an operand left out between others crashes the official engine
            return None
    return written


def _attributes(node: Node, main: Record | None) -> dict[str, Any] | None:
    """Fills ``main``; returns attributes for the notes, or None when some would be lost."""
    known = operators()[node.op]
    attrs = {k: v for k, v in node.attrs.items() if v is not None}
    noted: dict[str, Any] = {k: v for k, v in attrs.items() if isinstance(v, str) and v in _OFFICIAL_TYPES}
    attrs.update({k: _OFFICIAL_TYPES[v] for k, v in noted.items()})
    left = attrs if main is None else fill(main, attrs)
    for key, value in left.items():
        if key in _NOTED:
            noted[key] = node.attrs[key]
        elif not _same(value, known.attributes.get(key)):
            return None
    return noted


def _same(value: object, default: object) -> bool:
    if isinstance(value, (list, tuple, np.ndarray)) or isinstance(default, (list, tuple, np.ndarray)):
        return default is not None and np.array_equal(np.asarray(value), np.asarray(default))
    return value == default


def _plain(node: Node, fp16: bool) -> Written | None:
    table_name = official(node.op).table
    needed = table_name is not None and not (
        official(node.op).table_optional
        and all(is_default(table_name, k, v) or k in _NOTED for k, v in node.attrs.items())
    )
    main = Record(table_name) if table_name is not None and needed else None
    noted = _attributes(node, main)
    if noted is None:
        return None
    record = Record("Op", type=node.op, main=main)
    return Written(record, list(node.inputs), {"attrs": noted} if noted else {})


def _numbers(value: Value | None) -> np.ndarray | None:
    """A float constant as f32, or None when it is no constant, or one that f32 cannot hold."""
    if value is None or value.data is None:
        return None
    array = value.array()
    return array.astype(np.float32) if DType.of(array) in _FLOATS else None


def _operand_note(value: Value) -> list[Any]:
    dtype = DType.F32 if isinstance(value.data, QuantizedArray) else DType.of(value.data)
    assert value.data is not None
    return [value.name, dtype.value, [int(d) for d in value.data.shape]]


# -- convolutions -----------------------------------------------------------------------------------------------------


def _convolution(node: Node, fp16: bool) -> Written | None:
    main = Record(official(node.op).table or "")
    attrs = {k: v for k, v in node.attrs.items() if v is not None}
    probe = Node(node.op, node.name, node.inputs, node.outputs, attrs)
    noted = _attributes(probe, main)
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    if noted is None or weight is None:
        return None
    shape = weight.data.shape if weight.data is not None else weight.shape
    if shape is None or any(not isinstance(d, int) for d in shape):
        return None
    sizes = [int(d) for d in shape]
    common, kind = main.common, node.op
    note: dict[str, Any] = {"attrs": noted} if noted else {}
    transposed = kind in DECONVOLUTIONS or kind == "ConvTranspose3D"
    group = max(common.group, 1)
    if kind in ("ConvolutionDepthwise", "DeconvolutionDepthwise"):
        group = sizes[0]
    incoming, outgoing = (sizes[0], sizes[1] * group) if transposed else (sizes[1] * group, sizes[0])
    common.group, common.inputCount, common.outputCount = group, incoming, outgoing
    if kind in CONVOLUTIONS or kind in DECONVOLUTIONS:
        if len(sizes) != 4:
            return None
        common.kernelY, common.kernelX = sizes[2:]
        pads = common.get("pads")
        if pads is not None and pads.size == 4:
            common.padY, common.padX = int(pads[0]), int(pads[1])
        if 1 < group == incoming == outgoing and not kind.endswith("Depthwise"):
            note["op"] = kind
            kind = f"{kind}Depthwise"
    elif len(sizes) == 5:
        common.kernels = sizes[2:]
    record = Record("Op", type=kind, main=main)
    tail = list(node.inputs[2:])
    shaped = [tail.pop()] if common.hasOutputShape and tail else []
    bias = tail[0] if tail else None
    if not _store_weight(main, weight, fp16) or (bias is not None and _numbers(bias) is None):
        main.weight = None
        if main.table_name == "Convolution2D":
            main.quanParameter = None
        return Written(record, list(node.inputs), note) if kind in CONVOLUTIONS else None
    stored = _numbers(bias)
    main.bias = np.zeros(outgoing, np.float32) if stored is None else stored
    if main.bias.size != outgoing:
        if main.bias.size != 1:
            return None
        main.bias = np.full(outgoing, main.bias[0], np.float32)
    note["operands"] = [_operand_note(weight), *([_operand_note(bias)] if bias is not None else [])]
    return Written(record, [node.inputs[0], *shaped], note)


def _store_weight(main: Record, weight: Value, fp16: bool) -> bool:
    if isinstance(weight.data, QuantizedArray):
        if main.table_name != "Convolution2D":
            main.weight = weight.data.dequantize().reshape(-1)
        else:
            main.quanParameter = quantized_table(weight.data)
        return True
    numbers = _numbers(weight)
    if numbers is None:
        return False
    if fp16 and main.table_name == "Convolution2D":
        main.quanParameter = encode_fp16(numbers)
    else:
        main.weight = numbers.reshape(-1)
    return True


def quantized_table(weight: QuantizedArray) -> Record:
    """A compressed weight as IDSTQuan: rows of one scale each, channel-major, then block."""
    rows, blocks = weight.scale.shape
    values = weight.values.reshape(rows * blocks, -1)
    scale = weight.scale.reshape(-1)
    if weight.offset is None:
        return encode_quantized(values, scale, weight.bits)
    low = float(-(1 << (weight.bits - 1)))
    least = weight.offset.reshape(-1) + np.float32(low) * scale
    return encode_quantized(values, np.stack([least, scale], 1).reshape(-1), weight.bits, asymmetric=True)


# -- other operators with weights --------------------------------------------------------------------------------------


def _vectors(node: Node, fp16: bool) -> Written | None:
    names, fillers = official(node.op).operands, official(node.op).fillers
    main = Record(official(node.op).table or "")
    noted = _attributes(node, main)
    values = node.inputs[1 : 1 + len(names)]
    if noted is None or len(node.inputs) > 1 + len(names):
        return None
    note: dict[str, Any] = {"attrs": noted} if noted else {}
    count = 0
    for name, value in zip(names, values, strict=False):
        numbers = _numbers(value)
        if value is not None and numbers is None:
            return None
        if numbers is not None:
            setattr(main, name, numbers.reshape(-1))
            count = max(count, numbers.size)
    given = [i for i, v in enumerate(values) if v is not None]
    if given and given != list(range(len(given))):
        return None  # a later operand without an earlier one
    if fillers and count:
        for name, filler in zip(names, fillers, strict=True):
            if getattr(main, name) is None:
                setattr(main, name, np.full(count, filler, np.float32))
    elif node.op in ("Scale", "BatchNorm", "InstanceNorm", "PReLU"):
        return None
    if node.op in ("Scale", "BatchNorm", "InstanceNorm"):
        main.channels = count
    elif node.op == "PReLU":
        main.slopeCount = count
    note["operands"] = [_operand_note(v) for v in values if v is not None]
    return Written(Record("Op", type=node.op, main=main), [node.inputs[0]], note)


def _inner_product(node: Node, fp16: bool) -> Written | None:
    main = Record("InnerProduct")
    noted = _attributes(node, main)
    weight = _numbers(node.inputs[1] if len(node.inputs) > 1 else None)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if noted is None or weight is None or weight.ndim != 2 or (bias is not None and _numbers(bias) is None):
        return None
    main.outputCount = weight.shape[1 if main.transpose else 0]
    main.weight, main.weightSize = weight.reshape(-1), weight.size
    numbers = _numbers(bias)
    main.bias = np.zeros(main.outputCount, np.float32) if numbers is None else numbers.reshape(-1)
    main.biasTerm = 1
    assert node.inputs[1] is not None
    operands = [_operand_note(node.inputs[1]), *([_operand_note(bias)] if bias is not None else [])]
    return Written(Record("Op", type=node.op, main=main), [node.inputs[0]], {"operands": operands})


def _scatter(node: Node, fp16: bool) -> Written | None:
    """A reduction is named by a binary operation; -1 stands for none."""
    kind = node.attrs.get("opType", "NONE")
    if kind in ("MINIMUM", "MAXIMUM"):  # taken, and not honoured there
        return None
    attrs = {**node.attrs, "opType": -1 if kind == "NONE" else kind}
    return _plain(Node(node.op, node.name, node.inputs, node.outputs, attrs), fp16)


def _where(node: Node, fp16: bool) -> Written | None:
    """An empty Extra table asks for as many rows as there are hits, not as there are elements."""
    written = _plain(node, fp16)
    if written is not None:
        written.record.main = Record("Extra")
    return written


def _pooling(node: Node, fp16: bool) -> Written | None:
    """A last window that begins in the padding counts there and not here."""
    x, attrs = node.inputs[0] if node.inputs else None, node.attrs
    pads = attrs.get("pads")
    known = x is not None and x.shape is not None and len(x.shape) == 4 and not attrs.get("isGlobal")
    if known and attrs.get("ceilModel", True) and isinstance(pads, (list, tuple)) and len(pads) == 4:
        assert x is not None
        assert x.shape is not None
        for axis, letter in ((0, "Y"), (1, "X")):
            size, kernel, stride = x.shape[2 + axis], attrs.get(f"kernel{letter}"), attrs.get(f"stride{letter}")
            begin, end = int(pads[axis]), int(pads[axis + 2])
            if not (isinstance(size, int) and isinstance(kernel, int) and isinstance(stride, int) and stride > 0):
                continue
            if -(-(size + begin + end - kernel) // stride) * stride >= size + begin:
                return None
    return _plain(node, fp16)


def _grid_sample(node: Node, fp16: bool) -> Written | None:
    """Reflection is taken, and not honoured there."""
    return None if node.attrs.get("paddingMode") == "REFLECTION" else _plain(node, fp16)


def _roi_align(node: Node, fp16: bool) -> Written | None:
    """The maximum is taken over other points there."""
    return None if node.attrs.get("poolType") == "MAXPOOL" else _plain(node, fp16)


def _nothing(node: Node, fp16: bool) -> None:
    """Operators that crash the official engine, give another sign, or mean something else in files written here."""
    return None


_HANDLERS: dict[str, Callable[[Node, bool], Written | None]] = {
    **dict.fromkeys((*CONVOLUTIONS, *DECONVOLUTIONS, "Convolution3D", "ConvTranspose3D"), _convolution),
    **dict.fromkeys((op for op, told in officials().items() if told.operands), _vectors),
    "InnerProduct": _inner_product,
    "ConvertTensor": _nothing,
    "CumProd": _nothing,
    "Det": _nothing,
    "GridSample": _grid_sample,
    "Pooling": _pooling,
    "ROIAlign": _roi_align,
    "ScatterElements": _scatter,
    "ScatterNd": _scatter,
    "Where": _where,
}
