"""Well-known networks as their authors wrote them for Caffe, with fewer and random weights: layers in place, groups,
branches, batch normalisation in two layers, skips that are cropped, anchors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.frontends.caffe.build import Word
from tests.frontends.caffe.cases.draw import Case, Draw

Network = Callable[["Builder"], Case]
NETWORKS: dict[str, Network] = {}


def network(make: Network) -> Network:
    """Enters a network under its function's name."""
    NETWORKS[make.__name__] = make
    return make


class Builder(Draw):
    """Layers with weights that keep numbers near one; every method gives the name of the blob that it makes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.channels: dict[str, int] = {}

    def start(self, channels: int, height: int, width: int) -> str:
        self.input(1, channels, height, width)
        self.channels["data"] = channels
        return "data"

    def conv(
        self, x: str, name: str, outputs: int, size: int, stride: int = 1, pad: int = 0, group: int = 1,
        bias: bool = True, relu: bool = True, dilation: int = 1,
    ) -> str:  # fmt: skip
        inner = self.channels[x] // group
        weight = self.rng.standard_normal((outputs, inner, size, size)) * (2 / (inner * size * size)) ** 0.5
        blobs = [weight.astype(np.float32)] + ([self.array(outputs, low=-0.1, high=0.1)] if bias else [])
        self.add("Convolution", [x], [name], *blobs, convolution_param={
            "num_output": outputs, "kernel_size": size, "stride": stride, "pad": pad or None, "bias_term": bias,
            "group": None if group == 1 else group, "dilation": None if dilation == 1 else dilation,
        })  # fmt: skip
        self.channels[name] = outputs
        return self.relu(name) if relu else name

    def relu(self, x: str, slope: float = 0.0) -> str:
        self.layers.append({
            "name": f"{x}/relu", "type": "ReLU", "bottom": [x], "top": [x],
            **({"relu_param": {"negative_slope": slope}} if slope else {}),
        })  # fmt: skip
        return x

    def norm(self, x: str) -> str:
        """BatchNorm and Scale in place."""
        count = self.channels[x]
        statistics = [
            self.array(count, low=-0.2, high=0.2) * 3,
            self.array(count, low=0.5, high=1.5) * 3,
            np.array([3.0]),
        ]
        for kind, blobs, param in (
            ("BatchNorm", statistics, {"batch_norm_param": {"use_global_stats": True}}),
            ("Scale", [self.array(count, low=0.5, high=1.5), self.array(count, low=-0.1, high=0.1)],
             {"scale_param": {"bias_term": True}}),
        ):  # fmt: skip
            self.add(kind, [x], [x], *blobs, **param)
            self.layers[-1]["name"] = f"{x}/{kind.lower()}"
        return x

    def pool(self, x: str, name: str, size: int, stride: int, pad: int = 0, kind: str = "MAX") -> str:
        self.add("Pooling", [x], [name], pooling_param={
            "pool": Word(kind), "kernel_size": size, "stride": stride, "pad": pad or None,
        })  # fmt: skip
        return self._same(x, name)

    def whole(self, x: str, name: str) -> str:
        self.add("Pooling", [x], [name], pooling_param={"pool": Word("AVE"), "global_pooling": True})
        return self._same(x, name)

    def lrn(self, x: str, name: str) -> str:
        self.add("LRN", [x], [name], lrn_param={"local_size": 5, "alpha": 1e-4, "beta": 0.75})
        return self._same(x, name)

    def dense(self, x: str, name: str, inputs: int, outputs: int, relu: bool = True) -> str:
        weight = (self.rng.standard_normal((outputs, inputs)) * (2 / inputs) ** 0.5).astype(np.float32)
        self.add("InnerProduct", [x], [name], weight, self.array(outputs), inner_product_param={"num_output": outputs})
        return self.relu(name) if relu else name

    def dropout(self, x: str) -> str:
        self.layers.append({"name": f"{x}/drop", "type": "Dropout", "bottom": [x], "top": [x]})
        return x

    def concat(self, parts: Sequence[str], name: str, axis: int | None = None) -> str:
        self.add("Concat", parts, [name], concat_param={"axis": axis})
        self.channels[name] = sum(self.channels.get(p, 0) for p in parts)
        return name

    def plus(self, x: str, y: str, name: str) -> str:
        self.add("Eltwise", [x, y], [name])
        return self._same(x, name)

    def softmax(self, x: str, name: str = "prob", **param: Any) -> str:
        self.add("Softmax", [x], [name], **param)
        return self._same(x, name)

    def deconv(self, x: str, name: str, size: int, stride: int) -> str:
        """Bilinear, one for every channel with itself."""
        count = self.channels[x]
        weight = np.zeros((count, count, size, size), np.float32)
        weight[range(count), range(count)] = self.array(size, size, low=0, high=0.5)
        self.add("Deconvolution", [x], [name], weight, convolution_param={
            "num_output": count, "kernel_size": size, "stride": stride, "bias_term": False,
        })  # fmt: skip
        return self._same(x, name)

    def _same(self, x: str, name: str) -> str:
        self.channels[name] = self.channels.get(x, 0)
        return name


@network
def alexnet(b: Builder) -> Case:
    x = b.start(3, 67, 67)
    x = b.pool(b.lrn(b.conv(x, "conv1", 16, 11, 4), "norm1"), "pool1", 3, 2)
    x = b.pool(b.lrn(b.conv(x, "conv2", 32, 5, 1, 2, 2), "norm2"), "pool2", 3, 2)
    x = b.conv(x, "conv3", 32, 3, 1, 1)
    x = b.conv(b.conv(x, "conv4", 32, 3, 1, 1, 2), "conv5", 24, 3, 1, 1, 2)
    x = b.pool(x, "pool5", 3, 2)
    x = b.dropout(b.dense(x, "fc6", 24, 40))
    b.softmax(b.dense(x, "fc8", 40, 10, relu=False))
    return b.case("prob")


@network
def vgg(b: Builder) -> Case:
    x = b.start(3, 32, 32)
    for stage, (width, depth) in enumerate(((8, 2), (12, 2), (16, 3)), 1):
        for i in range(1, depth + 1):
            x = b.conv(x, f"conv{stage}_{i}", width, 3, 1, 1)
        x = b.pool(x, f"pool{stage}", 2, 2)
    x = b.dropout(b.dense(x, "fc6", 16 * 16, 32))
    b.softmax(b.dense(x, "fc8", 32, 10, relu=False))
    return b.case("prob")


@network
def googlenet(b: Builder) -> Case:
    x = b.start(3, 48, 48)
    x = b.lrn(b.pool(b.conv(x, "conv1", 16, 7, 2, 3), "pool1", 3, 2), "norm1")
    x = b.pool(b.conv(b.conv(x, "conv2_reduce", 12, 1), "conv2", 24, 3, 1, 1), "pool2", 3, 2)
    for i in (1, 2):
        parts = [
            b.conv(x, f"inception{i}/1x1", 8, 1),
            b.conv(b.conv(x, f"inception{i}/3x3_reduce", 6, 1), f"inception{i}/3x3", 10, 3, 1, 1),
            b.conv(b.conv(x, f"inception{i}/5x5_reduce", 3, 1), f"inception{i}/5x5", 5, 5, 1, 2),
            b.conv(b.pool(x, f"inception{i}/pool", 3, 1, 1), f"inception{i}/pool_proj", 5, 1),
        ]
        x = b.concat(parts, f"inception{i}/output")
    x = b.dropout(b.pool(x, "pool5", 6, 1, kind="AVE"))
    b.softmax(b.dense(x, "classifier", 28, 10, relu=False))
    return b.case("prob")


@network
def resnet(b: Builder) -> Case:
    x = b.start(3, 40, 40)
    x = b.relu(b.norm(b.conv(x, "conv1", 12, 7, 2, 3, relu=False)))
    x = b.pool(x, "pool1", 3, 2)
    for i, (width, stride) in enumerate(((12, 1), (16, 2), (16, 1)), 2):
        side = x
        if stride == 2 or b.channels[x] != 4 * width:
            side = b.norm(b.conv(x, f"res{i}_branch1", 4 * width, 1, stride, bias=False, relu=False))
        y = b.relu(b.norm(b.conv(x, f"res{i}_branch2a", width, 1, stride, bias=False, relu=False)))
        y = b.relu(b.norm(b.conv(y, f"res{i}_branch2b", width, 3, 1, 1, bias=False, relu=False)))
        y = b.norm(b.conv(y, f"res{i}_branch2c", 4 * width, 1, bias=False, relu=False))
        x = b.relu(b.plus(side, y, f"res{i}"))
    x = b.pool(x, "pool5", 5, 1, kind="AVE")
    b.softmax(b.dense(x, "fc", 64, 10, relu=False))
    return b.case("prob")


@network
def squeezenet(b: Builder) -> Case:
    x = b.start(3, 47, 47)
    x = b.pool(b.conv(x, "conv1", 16, 3, 2), "pool1", 3, 2)
    for i, (squeeze, expand) in enumerate(((4, 12), (6, 16)), 2):
        s = b.conv(x, f"fire{i}/squeeze1x1", squeeze, 1)
        parts = [b.conv(s, f"fire{i}/expand1x1", expand, 1), b.conv(s, f"fire{i}/expand3x3", expand, 3, 1, 1)]
        x = b.pool(b.concat(parts, f"fire{i}/concat"), f"pool{i}", 3, 2)
    x = b.whole(b.conv(b.dropout(x), "conv10", 10, 1, 1, 1), "pool10")
    b.softmax(x)
    return b.case("prob")


@network
def mobilenet_ssd(b: Builder) -> Case:
    b.start(3, 64, 64)
    x = b.relu(b.norm(b.conv("data", "conv0", 8, 3, 2, 1, bias=False, relu=False)))
    taps = []
    for i, (width, stride) in enumerate(((16, 2), (16, 2), (24, 2), (24, 2)), 1):
        count = b.channels[x]
        x = b.relu(b.norm(b.conv(x, f"conv{i}/dw", count, 3, stride, 1, count, bias=False, relu=False)))
        x = b.relu(b.norm(b.conv(x, f"conv{i}", width, 1, bias=False, relu=False)))
        taps += [x] if i >= 2 else []
    classes, boxes = 5, 4
    parts: dict[str, list[str]] = {"loc": [], "conf": [], "priorbox": []}
    for k, tap in enumerate(taps):
        for kind, width in (("loc", boxes * 4), ("conf", boxes * classes)):
            made = b.conv(tap, f"{tap}_mbox_{kind}", width, 1, relu=False)
            b.add("Permute", [made], [f"{made}_perm"], permute_param={"order": [0, 2, 3, 1]})
            b.add("Flatten", [f"{made}_perm"], [f"{made}_flat"], flatten_param={"axis": 1})
            parts[kind].append(f"{made}_flat")
        b.add("PriorBox", [tap, "data"], [f"{tap}_mbox_priorbox"], prior_box_param={
            "min_size": 12.0 + 10 * k, "max_size": 22.0 + 10 * k, "aspect_ratio": 2.0, "flip": True, "clip": False,
            "variance": [0.1, 0.1, 0.2, 0.2], "offset": 0.5,
        })  # fmt: skip
        parts["priorbox"].append(f"{tap}_mbox_priorbox")
    for kind, names in parts.items():
        b.concat(names, f"mbox_{kind}", 2 if kind == "priorbox" else 1)
    b.add("Reshape", ["mbox_conf"], ["mbox_conf_reshape"], reshape_param={"shape": {"dim": [0, -1, classes]}})
    b.softmax("mbox_conf_reshape", "mbox_conf_softmax", softmax_param={"axis": 2})
    b.add("Flatten", ["mbox_conf_softmax"], ["mbox_conf_flatten"], flatten_param={"axis": 1})
    b.add("DetectionOutput", ["mbox_loc", "mbox_conf_flatten", "mbox_priorbox"], ["detection_out"],
          detection_output_param={
        "num_classes": classes, "share_location": True, "background_label_id": 0,
        "nms_param": {"nms_threshold": 0.45, "top_k": 100}, "code_type": Word("CENTER_SIZE"), "keep_top_k": 100,
        "confidence_threshold": 0.25,
    })  # fmt: skip
    return b.case("detection_out", rows=True, tolerance=1e-4)


@network
def fcn(b: Builder) -> Case:
    x = b.start(3, 50, 58)
    x = b.pool(b.conv(x, "conv1", 8, 3, 1, 30), "pool1", 2, 2)
    pool2 = b.pool(b.conv(x, "conv2", 12, 3, 1, 1), "pool2", 2, 2)
    pool3 = b.pool(b.conv(pool2, "conv3", 16, 3, 1, 1), "pool3", 2, 2)
    x = b.dropout(b.conv(pool3, "fc6", 24, 3))
    x = b.conv(x, "score_fr", 6, 1, relu=False)
    up = b.deconv(x, "upscore2", 4, 2)
    side = b.conv(pool2, "score_pool2", 6, 1, relu=False)
    b.add("Crop", [side, up], ["score_pool2c"], crop_param={"axis": 2, "offset": 1})
    b.channels["score_pool2c"] = 6
    x = b.plus(up, "score_pool2c", "fuse")
    x = b.deconv(x, "upscore", 8, 4)
    b.add("Crop", [x, "data"], ["score"], crop_param={"axis": 2, "offset": 11})
    return b.case("score")


@network
def yolov3(b: Builder) -> Case:
    """OpenCV reads the upsampling as a transposed convolution of ones, which it is."""
    x = b.start(3, 64, 64)

    def unit(x: str, name: str, width: int, size: int, stride: int = 1) -> str:
        return b.relu(b.norm(b.conv(x, name, width, size, stride, size // 2, bias=False, relu=False)), 0.1)

    x = unit(x, "layer1", 8, 3)
    taps = []
    for i, width in enumerate((12, 16, 24), 2):
        x = unit(x, f"layer{i}-down", width, 3, 2)
        x = b.plus(x, unit(unit(x, f"layer{i}-a", width // 2, 1), f"layer{i}-b", width, 3), f"layer{i}-shortcut")
        taps.append(x)
    b.conv(x, "layer82-conv", 18, 1, relu=False)
    x = unit(x, "layer84", 8, 1)
    b.add("Upsample", [x], ["layer85-upsample"], upsample_param={"scale": 2})
    b.channels["layer85-upsample"] = 8
    x = b.concat(["layer85-upsample", taps[1]], "layer86-route")
    b.conv(unit(x, "layer87", 12, 3), "layer94-conv", 18, 1, relu=False)
    return b.case("layer82-conv", "layer94-conv")


def for_opencv(case: Case) -> dict[str, Any]:
    """The network in layers that OpenCV has."""
    layers = []
    for layer in case.net["layer"]:
        if layer["type"] == "Upsample":
            made = Draw(0)
            made.add(
                "Deconvolution", layer["bottom"], layer["top"], np.ones((8, 1, 2, 2), np.float32),
                convolution_param={"num_output": 8, "group": 8, "kernel_size": 2, "stride": 2, "bias_term": False},
            )  # fmt: skip
            layer = made.layers[0]
        layers.append(layer)
    return {**case.net, "layer": layers}
