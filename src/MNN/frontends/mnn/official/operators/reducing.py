"""The official form of the operators of ``ops/reducing``."""

from __future__ import annotations

from MNN.frontends.mnn.official.record import Layout, Official

OPERATORS: dict[str, Official] = {
    "ArgMax": Official(table="ArgMax"),
    "ArgMin": Official(table="ArgMax"),
    "BatchNorm": Official(
        table="BatchNorm",
        layout=Layout.PACKED_FIRST,
        operands=("slopeData", "biasData", "meanData", "varData"),
        fillers=(1.0, 0.0, 0.0, 1.0),
    ),
    "BatchNormTraining": Official(advice="export the model in evaluation mode (model.eval())"),
    "CumProd": Official(
        table="CumSum", advice="take the exponent of a CumSum of logarithms, where all numbers are positive"
    ),
    "CumSum": Official(table="CumSum"),
    "GroupNorm": Official(table="GroupNorm", operands=("gamma", "beta"), fillers=(1.0, 0.0)),
    "InstanceNorm": Official(
        table="BatchNorm", layout=Layout.PACKED_FIRST, operands=("slopeData", "biasData"), fillers=(1.0, 0.0)
    ),
    "LRN": Official(table="LRN", layout=Layout.PACKED_FIRST),
    "LayerNorm": Official(table="LayerNorm", operands=("gamma", "beta"), fillers=(1.0, 0.0)),
    "Normalize": Official(table="Normalize", operands=("scale",)),
    "Reduction": Official(table="ReductionParam"),
    "Scale": Official(
        table="Scale", layout=Layout.PACKED_FIRST, operands=("scaleData", "biasData"), fillers=(1.0, 0.0)
    ),
    "Softmax": Official(table="Axis"),
}
