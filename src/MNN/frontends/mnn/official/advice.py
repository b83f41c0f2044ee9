"""What to export instead of operators that the official engine cannot run, as data."""

from __future__ import annotations

USUAL = "run the file with this engine, or express the operator by others before exporting"

_STRINGS = "tensors of text belong in front of the model: do it in the program that feeds it"
_SEQUENCES = "stack the tensors (Concat, ConcatFromSequence with a known count) instead of keeping a sequence"
_QUANTIZED = "convert the float model, and store its weights in 8 bits when writing the file"
_RANDOM = "draw the numbers outside, and feed them as an input"
_NARROW = "use f32, f16 or 8-bit integers: the official engine has no 4-bit and 8-bit floating types"

#: By operator of the graph.
ADVICE: dict[str, str] = {
    "AveragePool": "use a pooling without dilation whose last window does not begin in the padding",
    "Bernoulli": _RANDOM,
    "BitCast": "work on the numbers themselves: the bits of a tensor cannot be read there",
    "Cast": _NARROW,
    "CastLike": _NARROW,
    "Compress": "select with Gather or GatherND and indices that are computed outside",
    "ContribAttention": "export the model before ONNX Runtime's optimiser joined its attention",
    "ContribRotaryEmbedding": "export the model before ONNX Runtime's optimiser joined its rotary embedding",
    "CumProd": "take the exponent of a CumSum of logarithms, where all numbers are positive",
    "DFT": "multiply by a constant matrix of sines and cosines, or use STFT's form as a convolution",
    "DeformConv": "replace it by GridSample and a convolution",
    "Deconvolution": "make its weights constants",
    "DeconvolutionDepthwise": "make its weights constants",
    "ConvTranspose3D": "make its weights constants",
    "Det": "compute it outside",
    "DropoutTraining": "export the model in evaluation mode",
    "BatchNormTraining": "export the model in evaluation mode (model.eval())",
    "Einsum": "write it as MatMul with transposes, or multiply and reduce",
    "GridSample": "use the padding modes 'zeros' or 'border'",
    "GroupQueryAttention": "export the attention as MatMul and Softmax, or use this engine",
    "LabelEncoder": _STRINGS,
    "LpPool": "take the power, an average pooling, and the root",
    "MaxPool": "use a max pooling without dilation and without indices",
    "MaxUnpool": "upsample with Resize or a transposed convolution",
    "Multinomial": _RANDOM,
    "NonMaxSuppression": "use boxes given by corners, or do it behind the model",
    "OnnxCol2Im": "use a transposed convolution whose weights place the columns",
    "OnnxGridSample": "use the modes 'bilinear' or 'nearest'",
    "OnnxLSTM": "use the activations sigmoid and tanh, without clipping",
    "DynamicQuantizeLSTM": "use the activations sigmoid and tanh, without clipping",
    "OnnxGRU": "use the activations sigmoid and tanh, without clipping",
    "OnnxRNN": "use the activation tanh or relu, without clipping",
    "OnnxResize": "use half_pixel, align_corners or asymmetric coordinates without antialias, on the last two axes",
    "PadAxes": "make its pads and axes constants",
    "PadWrap": "join the border's slices to the tensor with Concat",
    "Pooling": "choose pads so that no window begins behind the input's end",
    "QLinearConv": _QUANTIZED,
    "QLinearMatMul": _QUANTIZED,
    "ConvInteger": _QUANTIZED,
    "MatMulInteger": _QUANTIZED,
    "QuantizeLinear": _QUANTIZED,
    "DequantizeLinear": _QUANTIZED,
    "DynamicQuantizeLinear": _QUANTIZED,
    "ROIAlign": "use the average over the points, not their maximum",
    "Scan": "write it as a Loop, or unroll it",
    "ScatterElements": "use add, multiply or no reduction",
    "ScatterNd": "use add, multiply or no reduction",
    "Stft": "use a convolution whose weights are the windowed sines and cosines",
    "StringConcat": _STRINGS,
    "StringNormalizer": _STRINGS,
    "StringSplit": _STRINGS,
    "TfIdfVectorizer": _STRINGS,
    "TreeEnsemble": "the official engine has no decision trees: use this engine",
    "Unique": "find the unique values outside",
    "UnrolledScan": "write it as a Loop, or unroll it",
    "UnrolledLoop": "give every carried value a shape that stays the same",
}
for _name in ("At", "Construct", "Empty", "Insert", "Erase", "Length"):
    ADVICE[f"Sequence{_name}"] = _SEQUENCES
ADVICE["SplitToSequence"] = ADVICE["ConcatFromSequence"] = _SEQUENCES
for _name in ("Optional", "OptionalHasElement", "OptionalGetElement"):
    ADVICE[_name] = "decide outside whether there is a value, and export a model for either case"


def advice_for(operator: str) -> str:
    """What to do about an operator that only this engine runs."""
    return ADVICE.get(operator, USUAL)
