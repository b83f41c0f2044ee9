"""Networks of all ages as lists of layers in the form of today.

Caffe has had three forms: layers in a ``layer`` message inside of a ``layers`` entry (V0, lower-case types), ``layers``
(V1, types are an enumeration), ``layer`` (types are texts). What becomes of the older ones follows upgrade_proto.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.errors import FormatError
from MNN.frontends.caffe.message import Field, Message

MAX_LAYERS = 1 << 16
_SOFTMAX_LOSS = "SoftmaxWithLoss"
_V1_NAMES = {
    "ABSVAL": "AbsVal", "ARGMAX": "ArgMax", "BNLL": "BNLL", "ELU": "ELU", "EXP": "Exp", "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output", "IM2COL": "Im2col", "LRN": "LRN", "MVN": "MVN", "PRELU": "PReLU", "RELU": "ReLU",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss", "SOFTMAX_LOSS": _SOFTMAX_LOSS, "TANH": "TanH",
}  # fmt: skip
"""V1 types whose names are not those of today with capitals (``INNER_PRODUCT`` is InnerProduct)."""
_V0_NAMES = {
    "accuracy": "Accuracy", "bnll": "BNLL", "concat": "Concat", "conv": "Convolution", "data": "Data",
    "dropout": "Dropout", "euclidean_loss": "EuclideanLoss", "flatten": "Flatten", "hdf5_data": "HDF5Data",
    "hdf5_output": "HDF5Output", "im2col": "Im2col", "images": "ImageData", "infogain_loss": "InfogainLoss",
    "innerproduct": "InnerProduct", "lrn": "LRN", "multinomial_logistic_loss": "MultinomialLogisticLoss",
    "padding": "padding", "pool": "Pooling", "relu": "ReLU", "sigmoid": "Sigmoid", "softmax": "Softmax",
    "softmax_loss": _SOFTMAX_LOSS, "split": "Split", "tanh": "TanH", "window_data": "WindowData",
}  # fmt: skip
_V0_FIELDS = {
    "conv": ("convolution_param", {
        "num_output": "num_output", "biasterm": "bias_term", "weight_filler": "weight_filler",
        "bias_filler": "bias_filler", "pad": "pad", "kernelsize": "kernel_size", "group": "group", "stride": "stride",
    }),
    "innerproduct": ("inner_product_param", {
        "num_output": "num_output", "biasterm": "bias_term", "weight_filler": "weight_filler",
        "bias_filler": "bias_filler",
    }),
    "pool": ("pooling_param", {"pad": "pad", "kernelsize": "kernel_size", "stride": "stride", "pool": "pool"}),
    "dropout": ("dropout_param", {"dropout_ratio": "dropout_ratio"}),
    "lrn": ("lrn_param", {"local_size": "local_size", "alpha": "alpha", "beta": "beta", "k": "k"}),
    "concat": ("concat_param", {"concat_dim": "concat_dim"}),
    "data": ("data_param", {"batchsize": "batch_size", "source": "source"}),
    "images": ("image_data_param", {"batchsize": "batch_size", "source": "source"}),
}  # fmt: skip
"""V0 types with the message that their fields go to today, and what the fields are called there."""
_V0_TRANSFORM = {"scale": "scale", "meanfile": "mean_file", "cropsize": "crop_size", "mirror": "mirror"}


@dataclass
class Layer:
    """One layer as it is written today. ``message`` holds its parameters (``convolution_param``), ``blobs`` its
    weights where the file has them."""

    name: str
    type: str
    bottoms: list[str]
    tops: list[str]
    message: Message
    blobs: list[Message]


@dataclass(frozen=True)
class State:
    """What rules of layers are about. Networks are read as for tests."""

    level: int = 0
    stages: tuple[str, ...] = ()
    phase: str = "TEST"

    def meets(self, rule: Message) -> bool:
        """Whether a NetStateRule holds."""
        return not (
            (rule.has("phase") and rule.text("phase") != self.phase)
            or (rule.has("min_level") and self.level < rule.integer("min_level"))
            or (rule.has("max_level") and self.level > rule.integer("max_level"))
            or any(stage not in self.stages for stage in rule.texts("stage"))
            or any(stage in self.stages for stage in rule.texts("not_stage"))
        )

    def includes(self, layer: Layer) -> bool:
        """Whether a layer is part of the network. Raises :class:`FormatError` for one that is included and excluded."""
        include, exclude = layer.message.messages("include"), layer.message.messages("exclude")
        if include and exclude:
            raise FormatError(f"{layer.type} '{layer.name}' has rules to include and to exclude it; only one may be")
        if include:
            return any(self.meets(rule) for rule in include)
        return not any(self.meets(rule) for rule in exclude)


def state_of(net: Message) -> State:
    """The level and the stages that a network asks for."""
    given = net.message("state")
    return State(given.integer("level", 0), tuple(given.texts("stage")))


def layers_of(net: Message) -> list[Layer]:
    """All layers of a network, those for training too, inputs first. Raises :class:`FormatError` for mixed forms."""
    new, old = net.messages("layer"), net.messages("layers")
    if new and old:
        raise FormatError(
            f"{net.where} has both 'layer' and 'layers' entries, which are of two ages; write one of them"
        )
    if len(new) + len(old) > MAX_LAYERS:
        raise FormatError(f"{net.where} has {len(new) + len(old)} layers; networks have at most {MAX_LAYERS}")
    if any(m.has("layer") for m in old):
        found = _without_padding([_of_v0(m) for m in old])
    else:
        found = [_of_v1(m) for m in old] + [_layer(m, m.text("type")) for m in new]
    return _inputs(net) + found


def _layer(message: Message, kind: str) -> Layer:
    name = message.text("name")
    message.where = f"{kind} '{name}'"
    for field, values in message.fields.items():
        for value in values:
            if isinstance(value, Message):
                value.where = f"{message.where}, {field}"
    return Layer(name, kind, message.texts("bottom"), message.texts("top"), message, message.messages("blobs"))


def _inputs(net: Message) -> list[Layer]:
    """``input``, ``input_shape`` and ``input_dim`` as a layer; nothing where an old caffemodel names inputs alone."""
    names = net.texts("input")
    shapes: Sequence[Sequence[int]] = [m.integers("dim") for m in net.messages("input_shape")]
    if not shapes:
        sizes = net.integers("input_dim")
        shapes = [sizes[i : i + 4] for i in range(0, len(sizes), 4)]
    if not names:
        return []
    message = Message("Input 'input'")
    message.add("input_param", _shaped(shapes))
    return [Layer("input", "Input", [], names, message, [])]


def _shaped(shapes: Sequence[Sequence[int]]) -> Message:
    param = Message("Input 'input', input_param")
    for shape in shapes:
        inner = Message(f"{param.where}, shape")
        for size in shape:
            inner.add("dim", size)
        param.add("shape", inner)
    return param


def _of_v1(message: Message) -> Layer:
    given = message.text("type", "NONE")
    words = given.split("_")
    return _layer(message, _V1_NAMES.get(given, "".join(w.capitalize() for w in words)))


def _of_v0(message: Message) -> Layer:
    """The parameters of a V0 layer lie in one message; today every type has a message of its own."""
    old = message.message("layer")
    kind = old.text("type")
    if kind not in _V0_NAMES:
        raise FormatError(f"layer '{old.text('name')}': no layers of the oldest form have the type '{kind}'")
    made = Message("")
    _move(old, made, {"name": "name", "blobs": "blobs", "pad": "padding"})
    _move(message, made, {"bottom": "bottom", "top": "top"})
    target, names = _V0_FIELDS.get(kind, ("", {}))
    for param, fields in ((target, names), ("transform_param", _V0_TRANSFORM)):
        inner = Message("")
        _move(old, inner, fields)
        if inner.fields:
            made.add(param, inner)
    return _layer(made, _V0_NAMES[kind])


def _move(source: Message, target: Message, names: dict[str, str]) -> None:
    for name, new in names.items():
        for value in source.fields.get(name, ()):
            target.add(new, value)


def _without_padding(layers: list[Layer]) -> list[Layer]:
    """Layers of the oldest form that only pad are part of the convolution or pooling that follows them."""
    pads: dict[str, tuple[str, Field]] = {}
    kept = []
    for layer in layers:
        if layer.type == "padding":
            if len(layer.bottoms) != 1 or len(layer.tops) != 1:
                raise FormatError(f"layer '{layer.name}' pads {len(layer.bottoms)} blobs, expected one")
            pads[layer.tops[0]] = (layer.bottoms[0], layer.message.integer("padding", 0))
            continue
        padded = [b for b in layer.bottoms if b in pads]
        if padded:
            key = {"Convolution": "convolution_param", "Pooling": "pooling_param"}.get(layer.type)
            if key is None or len(layer.bottoms) != 1:
                raise FormatError(f"{layer.type} '{layer.name}' reads padding; only convolutions and poolings may")
            source, amount = pads[padded[0]]
            layer.bottoms = [source]
            param = layer.message.message(key)
            if not layer.message.has(key):
                layer.message.add(key, param)
            param.fields["pad"] = [amount]
        for top in layer.tops:
            pads.pop(top, None)
        kept.append(layer)
    return kept
