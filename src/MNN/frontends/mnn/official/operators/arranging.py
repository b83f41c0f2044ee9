"""The official form of the operators of ``ops/arranging``."""

from __future__ import annotations

from MNN.frontends.mnn.official import limits
from MNN.frontends.mnn.official.record import Layout, Official
from MNN.frontends.mnn.official.rules import arithmetic, exported, indexing
from MNN.schema.record import Record


def _lists_nhwc(op: Record) -> bool:
    """Whether a Reshape's sizes are those of NHWC."""
    return op.main is not None and op.main.table_name == "Reshape" and bool(op.main.dimType == "NHWC")


OPERATORS: dict[str, Official] = {
    "BatchToSpaceND": Official(table="SpaceBatch"),
    "BroadcastTo": Official(table="Axis", table_optional=True),
    "Compress": Official(advice="select with Gather or GatherND and indices that are computed outside"),
    "Concat": Official(table="Axis", layout=Layout.TOGETHER),
    "ConvertTensor": Official(
        table="TensorConvertInfo", write=limits.nothing, rule=exported.convert_tensor, tidies=True
    ),
    "Crop": Official(table="Crop", layout=Layout.PACKED_FIRST),
    "DepthToSpace": Official(table="DepthSpaceParam"),
    "ExpandDims": Official(table="ExpandDims"),
    "Fill": Official(framework_order=True),
    "Flatten": Official(table="Flatten"),
    "Gather": Official(table="Gather", rule=indexing.gather, tidies=True, given_only=True),
    "GatherV2": Official(table="GatherV2", rule=indexing.gather, tidies=True, given_only=True),
    "KeptAxes": Official(advice="convert the model for one size, or name the axes that squeeze() drops"),
    "NonMaxSuppression": Official(advice="use boxes given by corners, or do it behind the model"),
    "OneHot": Official(table="OneHotParam", rule=arithmetic.one_hot, tidies=True),
    "OnnxCol2Im": Official(advice="use a transposed convolution whose weights place the columns"),
    "Pack": Official(table="PackParam"),
    "PadAxes": Official(rule=exported.pad_axes, advice="make its pads and axes constants"),
    "PadWrap": Official(advice="join the border's slices to the tensor with Concat"),
    "Padding": Official(table="PadParam"),
    "Permute": Official(table="Permute"),
    "Range": Official(table="Range"),
    "Rank": Official(layout=Layout.SHAPE_ONLY, framework_order=True),
    "Reshape": Official(table="Reshape", reads_nhwc=_lists_nhwc),
    "ReshapeExact": Official(rule=arithmetic.reshape_exact, tidies=True),
    "ReverseSequence": Official(table="ReverseSequenceParam"),
    "ScatterElements": Official(
        table="BinaryOp", write=limits.scatter, restore=limits.scattered, advice="use add, multiply or no reduction"
    ),
    "ScatterNd": Official(
        table="BinaryOp", write=limits.scatter, restore=limits.scattered, advice="use add, multiply or no reduction"
    ),
    "Shape": Official(
        table="ShapeParam",
        layout=Layout.SHAPE_ONLY,
        table_optional=True,
        framework_order=True,
        reads_nhwc=lambda op: op.defaultDimentionFormat == "NHWC",
    ),
    "Size": Official(table="Size", table_optional=True, framework_order=True),
    "Slice": Official(table="Slice", rule=indexing.split, tidies=True),
    "SizeConditions": Official(rule=exported.size_conditions),
    "SliceTf": Official(table="SliceTf"),
    "SpaceToBatchND": Official(table="SpaceBatch"),
    "SpaceToDepth": Official(table="DepthSpaceParam"),
    "Squeeze": Official(table="SqueezeParam"),
    "StridedSlice": Official(table="StridedSliceParam"),
    "TopKV2": Official(table="TopKV2"),
    "Transpose": Official(table="Transpose"),
    "Trilu": Official(rule=exported.trilu),
    "Unique": Official(advice="find the unique values outside"),
    "Unpack": Official(table="Axis"),
    "Unsqueeze": Official(table="SqueezeParam"),
    "Where": Official(write=limits.where),
}
