"""The official form of the operators of ``ops/elementwise``."""

from __future__ import annotations

from MNN.frontends.mnn.official import legal_exported, legal_math
from MNN.frontends.mnn.official.advice import NARROW
from MNN.frontends.mnn.official.record import Layout, Official

OPERATORS: dict[str, Official] = {
    "AbsVal": Official(rule=legal_math.unary("ABS"), tidies=True),
    "BinaryOp": Official(table="BinaryOp", layout=Layout.TOGETHER, rule=legal_math.compare, tidies=True),
    "BitCast": Official(advice="work on the numbers themselves: the bits of a tensor cannot be read there"),
    "BitwiseNot": Official(rule=legal_exported.bitwise_not),
    "Bnll": Official(rule=legal_math.unary("BNLL"), tidies=True),
    "Cast": Official(table="CastParam", layout=Layout.AS_GIVEN, advice=NARROW),
    "CastLike": Official(advice=NARROW),
    "Dropout": Official(layout=Layout.AS_GIVEN),
    "DropoutTraining": Official(advice="export the model in evaluation mode"),
    "ELU": Official(table="ELU", layout=Layout.AS_GIVEN),
    "Eltwise": Official(table="Eltwise", layout=Layout.TOGETHER),
    "IsInf": Official(rule=legal_exported.is_inf),
    "IsNaN": Official(rule=legal_math.differs_from_itself),
    "Moments": Official(table="MomentsParam", layout=Layout.PACKED_FIRST),
    "Not": Official(rule=legal_math.equals_zero),
    "PReLU": Official(table="PRelu", layout=Layout.PACKED_FIRST, operands=("slope",), fillers=(0.0,)),
    "ReLU": Official(table="Relu", layout=Layout.AS_GIVEN),
    "ReLU6": Official(table="Relu6", layout=Layout.AS_GIVEN),
    "Remainder": Official(rule=legal_math.remainder),
    "Selu": Official(table="Selu", layout=Layout.AS_GIVEN),
    "Sigmoid": Official(layout=Layout.AS_GIVEN),
    "TanH": Official(layout=Layout.AS_GIVEN),
    "Threshold": Official(table="ELU"),
    "UnaryOp": Official(table="UnaryOp", layout=Layout.AS_GIVEN),
}
