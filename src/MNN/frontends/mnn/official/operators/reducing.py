"""The official form of the operators of ``ops/reducing``."""

from __future__ import annotations

from MNN.frontends.mnn.official import legal_exported, legal_layers, legal_math
from MNN.frontends.mnn.official.record import Layout, Official

OPERATORS: dict[str, Official] = {
    "ArgMax": Official(table="ArgMax"),
    "ArgMin": Official(table="ArgMax"),
    "BatchNorm": Official(
        table="BatchNorm",
        layout=Layout.PACKED_FIRST,
        operands=("slopeData", "biasData", "meanData", "varData"),
        fillers=(1.0, 0.0, 0.0, 1.0),
        rule=legal_layers.batch_norm,
        tidies=True,
    ),
    "BatchNormTraining": Official(advice="export the model in evaluation mode (model.eval())"),
    "CumProd": Official(
        table="CumSum", advice="take the exponent of a CumSum of logarithms, where all numbers are positive"
    ),
    "CumSum": Official(table="CumSum"),
    "GroupNorm": Official(
        table="GroupNorm", operands=("gamma", "beta"), fillers=(1.0, 0.0), rule=legal_layers.group_norm
    ),
    "Hardmax": Official(rule=legal_exported.hardmax),
    "InstanceNorm": Official(
        table="BatchNorm",
        layout=Layout.PACKED_FIRST,
        operands=("slopeData", "biasData"),
        fillers=(1.0, 0.0),
        rule=legal_layers.instance_norm,
    ),
    "LRN": Official(table="LRN", layout=Layout.PACKED_FIRST),
    "LayerNorm": Official(
        table="LayerNorm", operands=("gamma", "beta"), fillers=(1.0, 0.0), rule=legal_layers.layer_norm
    ),
    "LayerNormalization": Official(rule=legal_exported.with_statistics),
    "LogSoftmax": Official(rule=legal_math.log_softmax),
    "LpNormalization": Official(rule=legal_exported.lp_normalization),
    "Normalize": Official(table="Normalize", operands=("scale",)),
    "Reduction": Official(table="ReductionParam", rule=legal_math.reduction, tidies=True),
    "Scale": Official(
        table="Scale", layout=Layout.PACKED_FIRST, operands=("scaleData", "biasData"), fillers=(1.0, 0.0)
    ),
    "Softmax": Official(table="Axis"),
}
