"""OpType values that the official schema gave to another operator later, with the version of the change (data)."""

from __future__ import annotations

from MNN.schema.tables import enum

Version = tuple[int, int, int]

#: OpType value -> (name it had before, first version with today's meaning)
RECYCLED: dict[int, tuple[str, Version]] = {
    6: ("Bias", (2, 3, 0)),
    16: ("Cubic", (2, 0, 0)),
    24: ("Embed", (2, 0, 0)),
    29: ("FloorMod", (2, 0, 0)),
    40: ("MVN", (3, 2, 0)),
    57: ("QuantizedMatMul", (2, 8, 0)),
    59: ("QuantizedRelu", (2, 8, 0)),
    60: ("QuantizedRelu6", (2, 8, 0)),
    88: ("Split", (2, 0, 0)),
    89: ("SPP", (2, 0, 0)),
    92: ("StringJoin", (3, 0, 0)),
    155: ("QuantizeLinear", (2, 8, 4)),
    156: ("DequantizeLinear", (3, 0, 2)),
    262: ("Relu6Grad", (2, 2, 2)),
    268: ("ZeroGrad", (2, 1, 2)),
    516: ("PoolInt8", (3, 3, 0)),
}
#: Old names that are not in today's enum (ZeroGrad still is, under another number).
OLD_NAMES: dict[str, int] = {name: value for value, (name, _) in RECYCLED.items() if name not in enum("OpType").values}
