"""The official form of the operators of ``ops/elementwise``."""

from __future__ import annotations

from MNN.frontends.mnn.official.advice import NARROW
from MNN.frontends.mnn.official.record import Layout, Official
from MNN.frontends.mnn.official.rules import arithmetic, exported

_COMPARISONS = frozenset({"GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOTEQUAL"})

OPERATORS: dict[str, Official] = {
    "AbsVal": Official(rule=arithmetic.unary("ABS"), tidies=True),
    "BinaryOp": Official(
        table="BinaryOp",
        layout=Layout.TOGETHER_FITTED,
        rule=arithmetic.compare,
        tidies=True,
        gives_truth=lambda node: node.attrs.get("opType") in _COMPARISONS,
    ),
    "BitCast": Official(advice="work on the numbers themselves: the bits of a tensor cannot be read there"),
    "BitwiseNot": Official(rule=exported.bitwise_not),
    "Bnll": Official(rule=arithmetic.unary("BNLL"), tidies=True),
    "Cast": Official(
        table="CastParam",
        layout=Layout.AS_GIVEN,
        gives_truth=lambda node: node.attrs.get("dstT") == "DT_BOOL",
        advice=NARROW,
    ),
    "CastLike": Official(advice=NARROW),
    "Dropout": Official(layout=Layout.AS_GIVEN),
    "DropoutTraining": Official(advice="export the model in evaluation mode"),
    "ELU": Official(table="ELU", layout=Layout.AS_GIVEN),
    "Eltwise": Official(table="Eltwise", layout=Layout.TOGETHER),
    "IsInf": Official(rule=exported.is_inf),
    "IsNaN": Official(rule=arithmetic.differs_from_itself),
    "Moments": Official(table="MomentsParam", layout=Layout.PACKED_FIRST, bias_is_number=True),
    "Not": Official(rule=arithmetic.equals_zero),
    "PReLU": Official(
        table="PRelu", layout=Layout.PACKED_FIRST, operands=("slope",), fillers=(0.0,), count="slopeCount"
    ),
    "ReLU": Official(table="Relu", layout=Layout.AS_GIVEN),
    "ReLU6": Official(table="Relu6", layout=Layout.AS_GIVEN),
    "Remainder": Official(rule=arithmetic.remainder),
    "Selu": Official(table="Selu", layout=Layout.AS_GIVEN),
    "Sigmoid": Official(layout=Layout.AS_GIVEN),
    "TanH": Official(layout=Layout.AS_GIVEN),
    "Threshold": Official(table="ELU"),
    "UnaryOp": Official(table="UnaryOp", layout=Layout.AS_GIVEN),
}
