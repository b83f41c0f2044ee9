"""Writes operators whose tables hold constant operands: weights, scales, biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from MNN.frontends.mnn.official.plain import attributes, numbers_of, operand_note
from MNN.frontends.mnn.official.record import Written
from MNN.frontends.mnn.official.registry import official
from MNN.ir.graph import Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.schema.record import Record
from MNN.schema.weight_encode import encode_fp16, encode_quantized


def convolution(node: Node, fp16: bool) -> Written | None:
    """A convolution or transposed one over two or three dimensions."""
    main = Record(official(node.op).table or "")
    attrs = {k: v for k, v in node.attrs.items() if v is not None}
    probe = Node(node.op, node.name, node.inputs, node.outputs, attrs)
    noted = attributes(probe, main)
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    if noted is None or weight is None:
        return None
    shape = weight.data.shape if weight.data is not None else weight.shape
    if shape is None or any(not isinstance(d, int) for d in shape):
        return None
    sizes = [int(d) for d in shape]
    common, kind, form = main.common, node.op, official(node.op).kernel
    assert form is not None
    note: dict[str, Any] = {"attrs": noted} if noted else {}
    group = max(common.group, 1)
    if form.depthwise:
        group = sizes[0]
    incoming, outgoing = (sizes[0], sizes[1] * group) if form.transposed else (sizes[1] * group, sizes[0])
    common.group, common.inputCount, common.outputCount = group, incoming, outgoing
    if main.table_name == "Convolution2D":
        if len(sizes) != 4:
            return None
        common.kernelY, common.kernelX = sizes[2:]
        pads = common.get("pads")
        if pads is not None and pads.size == 4:
            common.padY, common.padX = int(pads[0]), int(pads[1])
        if 1 < group == incoming == outgoing and form.each_channel:
            note["op"] = kind
            kind = form.each_channel
    elif len(sizes) == 5:
        common.kernels = sizes[2:]
    record = Record("Op", type=kind, main=main)
    tail = list(node.inputs[2:])
    shaped = [tail.pop()] if common.hasOutputShape and tail else []
    bias = tail[0] if tail else None
    if not _store_weight(main, weight, fp16) or (bias is not None and numbers_of(bias) is None):
        main.weight = None
        if main.table_name == "Convolution2D":
            main.quanParameter = None
        return Written(record, list(node.inputs), note) if form.computed else None
    stored = numbers_of(bias)
    main.bias = np.zeros(outgoing, np.float32) if stored is None else stored
    if main.bias.size != outgoing:
        if main.bias.size != 1:
            return None
        main.bias = np.full(outgoing, main.bias[0], np.float32)
    note["operands"] = [operand_note(weight), *([operand_note(bias)] if bias is not None else [])]
    return Written(record, [node.inputs[0], *shaped], note)


def _store_weight(main: Record, weight: Value, fp16: bool) -> bool:
    if isinstance(weight.data, QuantizedArray):
        if main.table_name != "Convolution2D":
            main.weight = weight.data.dequantize().reshape(-1)
        else:
            main.quanParameter = quantized_table(weight.data)
        return True
    numbers = numbers_of(weight)
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


def vectors(node: Node, fp16: bool) -> Written | None:
    """An operator whose operands are of one dimension, each in a field of its own."""
    form = official(node.op)
    names, fillers = form.operands, form.fillers
    main = Record(form.table or "")
    noted = attributes(node, main)
    values = node.inputs[1 : 1 + len(names)]
    if noted is None or len(node.inputs) > 1 + len(names):
        return None
    note: dict[str, Any] = {"attrs": noted} if noted else {}
    count = 0
    for name, value in zip(names, values, strict=False):
        numbers = numbers_of(value)
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
    elif form.count:
        return None
    if form.count:
        setattr(main, form.count, count)
    note["operands"] = [operand_note(v) for v in values if v is not None]
    return Written(Record("Op", type=node.op, main=main), [node.inputs[0]], note)


def inner_product(node: Node, fp16: bool) -> Written | None:
    """A product with a constant matrix."""
    main = Record(official(node.op).table or "")
    noted = attributes(node, main)
    weight = numbers_of(node.inputs[1] if len(node.inputs) > 1 else None)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if noted is None or weight is None or weight.ndim != 2 or (bias is not None and numbers_of(bias) is None):
        return None
    main.outputCount = weight.shape[1 if main.transpose else 0]
    main.weight, main.weightSize = weight.reshape(-1), weight.size
    numbers = numbers_of(bias)
    main.bias = np.zeros(main.outputCount, np.float32) if numbers is None else numbers.reshape(-1)
    main.biasTerm = 1
    assert node.inputs[1] is not None
    operands = [operand_note(node.inputs[1]), *([operand_note(bias)] if bias is not None else [])]
    return Written(Record("Op", type=node.op, main=main), [node.inputs[0]], {"operands": operands})
