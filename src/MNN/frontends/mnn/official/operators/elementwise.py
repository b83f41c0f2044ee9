"""The official form of the operators of ``ops/elementwise``."""

from __future__ import annotations

from MNN.frontends.mnn.official.advice import NARROW
from MNN.frontends.mnn.official.record import Layout, Official

OPERATORS: dict[str, Official] = {
    "BinaryOp": Official(table="BinaryOp", layout=Layout.TOGETHER),
    "BitCast": Official(advice="work on the numbers themselves: the bits of a tensor cannot be read there"),
    "Cast": Official(table="CastParam", layout=Layout.AS_GIVEN, advice=NARROW),
    "CastLike": Official(advice=NARROW),
    "Dropout": Official(layout=Layout.AS_GIVEN),
    "DropoutTraining": Official(advice="export the model in evaluation mode"),
    "ELU": Official(table="ELU", layout=Layout.AS_GIVEN),
    "Eltwise": Official(table="Eltwise", layout=Layout.TOGETHER),
    "Moments": Official(table="MomentsParam", layout=Layout.PACKED_FIRST),
    "PReLU": Official(table="PRelu", layout=Layout.PACKED_FIRST, operands=("slope",), fillers=(0.0,)),
    "ReLU": Official(table="Relu", layout=Layout.AS_GIVEN),
    "ReLU6": Official(table="Relu6", layout=Layout.AS_GIVEN),
    "Selu": Official(table="Selu", layout=Layout.AS_GIVEN),
    "Sigmoid": Official(layout=Layout.AS_GIVEN),
    "TanH": Official(layout=Layout.AS_GIVEN),
    "Threshold": Official(table="ELU"),
    "UnaryOp": Official(table="UnaryOp", layout=Layout.AS_GIVEN),
}
