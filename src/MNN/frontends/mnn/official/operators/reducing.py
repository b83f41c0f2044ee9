"""The official form of the operators of ``ops/reducing``."""

from __future__ import annotations

from MNN.frontends.mnn.official import limits
from MNN.frontends.mnn.official.record import Layout, Official
from MNN.frontends.mnn.official.rules import arithmetic, exported, normalization

OPERATORS: dict[str, Official] = {
    "ArgMax": Official(table="ArgMax"),
    "ArgMin": Official(table="ArgMax"),
    "BatchNorm": Official(
        table="BatchNorm",
        layout=Layout.PACKED_FIRST,
        operands=("slopeData", "biasData", "meanData", "varData"),
        fillers=(1.0, 0.0, 0.0, 1.0),
        count="channels",
        rule=normalization.batch_norm,
        tidies=True,
    ),
    "BatchNormTraining": Official(advice="export the model in evaluation mode (model.eval())"),
    "CumProd": Official(
        table="CumSum",
        write=limits.nothing,
        advice="take the exponent of a CumSum of logarithms, where all numbers are positive",
    ),
    "CumSum": Official(table="CumSum"),
    "GroupNorm": Official(
        table="GroupNorm", operands=("gamma", "beta"), fillers=(1.0, 0.0), rule=normalization.group_norm
    ),
    "Hardmax": Official(rule=exported.hardmax),
    "InstanceNorm": Official(
        table="BatchNorm",
        layout=Layout.PACKED_FIRST,
        operands=("slopeData", "biasData"),
        fillers=(1.0, 0.0),
        count="channels",
        rule=normalization.instance_norm,
    ),
    "LRN": Official(table="LRN", layout=Layout.PACKED_FIRST, bias_is_number=True),
    "LayerNorm": Official(
        table="LayerNorm", operands=("gamma", "beta"), fillers=(1.0, 0.0), rule=normalization.layer_norm
    ),
    "LayerNormalization": Official(rule=exported.with_statistics),
    "LogSoftmax": Official(rule=arithmetic.log_softmax),
    "LpNormalization": Official(rule=exported.lp_normalization),
    "Normalize": Official(table="Normalize", operands=("scale",)),
    "Reduction": Official(table="ReductionParam", rule=arithmetic.reduction, tidies=True),
    "Scale": Official(
        table="Scale",
        layout=Layout.PACKED_FIRST,
        operands=("scaleData", "biasData"),
        fillers=(1.0, 0.0),
        count="channels",
    ),
    "Softmax": Official(table="Axis"),
}
