"""Caffe's files cut short and damaged, in both forms: each ends in a right load or an MNNError, in time, in memory."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.frontends import load_graph
from MNN.frontends.caffe import load
from tests.frontends.caffe.build import Word, blob, caffemodel, inputs, layer, prototxt, varint
from tests.frontends.caffe.networks import Builder
from tests.frontends.caffe.test_files import oldest_net
from tests.hostile.child import CUTS, MEMORY, SECONDS
from tests.hostile.watch import watch

MUTATIONS = 1000
PROCESSES = 2
WAYS = "meaning,kernels,meaning,convert,meaning,convert,checked"


def weightless() -> bytes:
    """A description that needs no weights, so that it is run as far as it goes."""
    layers = [
        *inputs(data=(1, 4, 8, 8)),
        layer("Pooling", ["data"], ["pool"], pooling_param={"pool": Word("AVE"), "kernel_size": 3, "stride": 2}),
        layer("LRN", ["pool"], ["norm"], lrn_param={"local_size": 3, "alpha": 0.5}),
        layer("Slice", ["norm"], ["a", "b"], slice_param={"slice_point": 1}),
        layer("Power", ["a"], ["a"], name="p", power_param={"power": 2.0, "scale": 0.5, "shift": 1.0}),
        layer("Concat", ["a", "b"], ["both"]),
        layer("Permute", ["both"], ["turned"], permute_param={"order": [0, 2, 3, 1]}),
        layer("Reshape", ["turned"], ["flat"], reshape_param={"shape": {"dim": [0, -1, 4]}}),
        layer("Softmax", ["flat"], ["prob"], softmax_param={"axis": 2}),
        layer("ArgMax", ["prob"], ["best"], argmax_param={"axis": 2, "top_k": 2}),
    ]
    return prototxt({"name": "net", "layer": layers}).encode()


def weighted() -> bytes:
    """A few layers with weights, and boxes."""
    b = Builder(1)
    x = b.relu(b.norm(b.conv(b.start(3, 8, 8), "conv", 4, 3, 2, 1, relu=False)))
    b.add("PriorBox", [x, "data"], ["prior"], prior_box_param={"min_size": 3.0, "variance": [0.1] * 4})
    b.add("Flatten", [b.conv(x, "loc", 4, 1, relu=False)], ["locations"])
    b.add("Flatten", [b.conv(x, "conf", 2, 1)], ["confidences"])
    b.add("DetectionOutput", ["locations", "confidences", "prior"], ["found"], detection_output_param={
        "num_classes": 2, "code_type": Word("CENTER_SIZE"), "nms_param": {"nms_threshold": 0.4, "top_k": 9},
    })  # fmt: skip
    b.softmax(b.dense(b.pool(x, "pool", 2, 2), "fc", 16, 5))
    return caffemodel({"name": "net", "layer": b.layers})


FILES = {
    "binary": weighted,
    "oldest": lambda: caffemodel(oldest_net()),
    "text": weightless,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_refused_or_right(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(FILES[name]())
    kinds = {"cut": CUTS // len(FILES), "mutate": MUTATIONS // len(FILES)}
    commands = [
        ["tests.hostile.child", str(path), "caffe", WAYS, *(f"{k}:{i}-{n - 1}/{PROCESSES}" for k, n in kinds.items())]
        for i in range(PROCESSES)
    ]
    outcome = watch(commands)
    assert not outcome.bad, f"{len(outcome.bad)} bad cases:\n" + "\n".join(outcome.bad[:20])
    assert outcome.cases == sum(kinds.values())
    assert outcome.slowest[0] < SECONDS + 1, outcome.slowest
    assert outcome.ended["refused"] > kinds["mutate"] // 10


TEXTS = {
    "never ends": b'layer { name: "' + b"x" * (8 << 20),
    "many fields": b"layer { " + b"top: 'a' " * (1 << 20),
    "many layers": b"layer{}" * (1 << 20),
    "too large": b"# comment\n" * (2 << 20),
    "deep": b"name: 'x' " + b"layer { " * (1 << 20),
    "deeper lists": b"input_dim: " + b"[" * (1 << 20),
    "only strings": b"name: " + b"'a' " * (1 << 20),
    "a long number": b"input: 'x' input_dim: " + b"1" * (1 << 20),
    "escapes": b'name: "' + b"\\" * (1 << 20),
    "commas": b"name: 'x'" + b"," * (1 << 20),
    "spaces": b"name: " + b" \n" * (4 << 20),
    "wide": prototxt({"layer": inputs(data=[1 << 40, 1 << 40])}).encode(),
    "negative": prototxt({"layer": inputs(data=[1, -3, 4])}).encode(),
    "a blob made twice": prototxt(
        {"layer": [*inputs(data=[1, 2]), layer("Split", ["data"], ["a", "b", "a"])]}
    ).encode(),
    "a blob without a name": prototxt({"layer": [*inputs(data=[1, 2]), layer("Split", ["data"], ["a", ""])]}).encode(),
    "an input twice": prototxt({"layer": [layer("Input", [], ["a", "a"], input_param={"shape": {"dim": 2}})]}).encode(),
    "many sizes": prototxt({"layer": inputs(data=[1] * 1000)}).encode(),
}


def refused(data: bytes) -> None:
    """Ends in an error of ours within ten seconds and a gigabyte."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(MNNError):
        load(data)
    assert time.process_time() - start < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


@pytest.mark.parametrize("name", TEXTS)
def test_texts_without_end_are_refused(name: str) -> None:
    refused(TEXTS[name])


def _claims(*, dims: list[int], numbers: int = 4) -> bytes:
    """A convolution whose weights say that they have other sizes than they have."""
    made = {**blob(np.zeros(numbers, np.float32)), "shape": {"dim": dims}}
    conv = layer("Convolution", ["data"], ["y"], convolution_param={"num_output": 4, "kernel_size": 1})
    return caffemodel({"layer": [*inputs(data=(1, 1, 4, 4)), {**conv, "blobs": [made, made]}]})


BINARIES = {
    "giant blob": _claims(dims=[1 << 31, 1 << 31]),
    "overflowing blob": _claims(dims=[1 << 32, 1 << 32, 1]),
    "negative blob": _claims(dims=[-2, -2]),
    "a length beyond the end": b"\x0a\x03net" + varint(100 << 3 | 2) + varint(1 << 40) + b"\x0a\x01x",
    "a length without end": b"\xa2\x06" + b"\xff" * 20,
    "a group": b"\xa2\x06\x02\x0b\x0c",
    "many layers": (varint(100 << 3 | 2) + b"\0") * (1 << 20),
    "many sizes": caffemodel({"input": ["x"]}) + b"\x22" + varint(4 << 20) + b"\1" * (4 << 20),
    "giant outputs": caffemodel({
        "layer": [
            *inputs(data=(1, 1, 4, 4)),
            layer("Tile", ["data"], ["a"], tile_param={"axis": 1, "tiles": 1 << 30}),
            layer("InnerProduct", ["a"], ["y"], [np.zeros(4)], inner_product_param={"num_output": 1 << 31}),
        ],
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", BINARIES)
def test_binaries_that_make_no_sense_are_refused(name: str) -> None:
    refused(BINARIES[name])


def test_alternating_fields_cost_no_more_than_others() -> None:
    """Numbers that are not packed are read in runs; runs of one must not look at all that follows."""
    pair = b"\x2d\0\0\0\0" + b"\x35\0\0\0\0"
    inner = pair * (100 << 10)
    whole = varint(7 << 3 | 2) + varint(len(inner)) + inner
    data = varint(100 << 3 | 2) + varint(len(whole)) + whole
    start = time.process_time()
    with pytest.raises(MNNError):
        load_graph(data, "caffe")
    assert time.process_time() - start < SECONDS
