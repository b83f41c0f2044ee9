"""The official form of the operators of ``ops/images``."""

from __future__ import annotations

from MNN.frontends.mnn.official import limits
from MNN.frontends.mnn.official.record import Layout, Official

OPERATORS: dict[str, Official] = {
    "AveragePool": Official(advice="use a pooling without dilation whose last window does not begin in the padding"),
    "DeformConv": Official(advice="replace it by GridSample and a convolution"),
    "DetectionOutput": Official(table="DetectionOutput", layout=Layout.PACKED),
    "GridSample": Official(
        table="GridSample",
        layout=Layout.PACKED_FIRST,
        write=limits.grid_sample,
        advice="use the padding modes 'zeros' or 'border'",
    ),
    "Interp": Official(table="Interp", layout=Layout.PACKED_FIRST, framework_order=True),
    "Interp3D": Official(table="Interp", layout=Layout.PACKED_FIRST, framework_order=True),
    "LpPool": Official(advice="take the power, an average pooling, and the root"),
    "MaxPool": Official(advice="use a max pooling without dilation and without indices"),
    "MaxUnpool": Official(advice="upsample with Resize or a transposed convolution"),
    "OnnxGridSample": Official(advice="use the modes 'bilinear' or 'nearest'"),
    "OnnxResize": Official(
        advice="use half_pixel, align_corners or asymmetric coordinates without antialias, on the last two axes"
    ),
    "Pooling": Official(
        table="Pool",
        layout=Layout.PACKED_FIRST,
        write=limits.pooling,
        advice="choose pads so that no window begins behind the input's end",
    ),
    "Pooling3D": Official(table="Pool3D", layout=Layout.PACKED_FIRST),
    "PositionSensitivePooling": Official(advice="run the network up to its regions there, and pool outside of it"),
    "PriorBox": Official(table="PriorBox", layout=Layout.PACKED),
    "ROIAlign": Official(
        table="RoiParameters",
        layout=Layout.PACKED_FIRST,
        write=limits.roi_align,
        advice="use the average over the points, not their maximum",
    ),
    "ROIPooling": Official(table="RoiParameters", layout=Layout.PACKED_FIRST),
    "RegionProposal": Official(advice="run the network up to its scores there, and choose regions outside of it"),
    "SsdDetectionOutput": Official(
        advice="use one sample, shared locations of the type CENTER_SIZE and the background as class 0"
    ),
}
