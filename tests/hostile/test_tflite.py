"""TensorFlow Lite files cut short and damaged: each ends in a right load or an MNNError, in time, in memory, alive."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.frontends import load_graph
from MNN.frontends.tflite import flexbuffers
from tests.frontends.tflite.build import Graph, Model, record
from tests.frontends.tflite.cases import FAMILIES, Draw
from tests.hostile.child import CUTS, SECONDS
from tests.hostile.watch import watch

MUTATIONS = 1000
PROCESSES = 2
WAYS = "meaning,kernels,meaning,convert,meaning,convert,checked"
MODELS = ("CONV_2D quantised", "UNIDIRECTIONAL_SEQUENCE_LSTM", "WHILE", "DENSIFY", "STRIDED_SLICE")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_damaged_files_are_refused_or_right(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(FAMILIES[name](Draw(2)).model.finish())
    count = MUTATIONS // len(MODELS)
    kinds = {"cut": CUTS // len(MODELS), "mutate": count}
    commands = [
        ["tests.hostile.child", str(path), "tflite", WAYS, *(f"{k}:{i}-{n - 1}/{PROCESSES}" for k, n in kinds.items())]
        for i in range(PROCESSES)
    ]
    outcome = watch(commands)
    assert not outcome.bad, f"{len(outcome.bad)} bad cases:\n" + "\n".join(outcome.bad[:20])
    assert outcome.cases == sum(kinds.values())
    assert outcome.slowest[0] < SECONDS + 1, outcome.slowest
    assert outcome.ended["refused"] > count // 10


def _calls_itself(g: Graph) -> None:
    g.outputs = [g.made("CALL", [g.input([1])], [1], "FLOAT32", "CallOptions", subgraph=0)]


def _beyond(g: Graph) -> None:
    g.outputs = [g.made("CALL", [g.input([1])], [1], "FLOAT32", "CallOptions", subgraph=7)]


def _made_twice(g: Graph) -> None:
    x = g.input([1])
    g.op("EXP", [x], [x])
    g.outputs = [x]


def _short_constant(g: Graph) -> None:
    g.outputs = [g.made("ADD", [g.input([4]), g.tensor([4], data=bytes(12))], [4], "FLOAT32", "AddOptions")]


def _sparse_bomb(g: Graph) -> None:
    levels = [record("DimensionMetadata", format="DENSE", dense_size=1 << 20) for _ in range(2)]
    sparsity = record("SparsityParameters", traversal_order=np.array([0, 1]), dim_metadata=levels)
    g.outputs = [
        g.made("DENSIFY", [g.tensor([1 << 20, 1 << 20], data=bytes(4), sparsity=sparsity)], [1 << 20, 1 << 20])
    ]


def _doubling(g: Graph) -> None:
    """Thirty subgraphs, each of which runs the next one twice."""
    model = g.model
    inner = [model.subgraph(f"s{i}")[1] for i in range(30)]
    for i, graph in enumerate([g, *inner]):
        x = graph.input([1])
        for _ in range(2):
            last = i == len(inner)
            x = graph.made("EXP", [x], [1]) if last else graph.made(
                "CALL", [x], [1], "FLOAT32", "CallOptions", subgraph=i + 1
            )  # fmt: skip
        graph.outputs = [x]


@pytest.mark.parametrize("make", [_calls_itself, _beyond, _made_twice, _short_constant, _sparse_bomb, _doubling])
def test_what_makes_no_sense_is_refused(make: Callable[[Graph], None]) -> None:
    model = Model()
    make(model.graph)
    with pytest.raises(FormatError):
        load_graph(model.finish())


def test_newer_operators_are_named() -> None:
    model = Model()
    g = model.graph
    g.outputs = [g.made("EXP", [g.input([1])], [1])]
    data = bytearray(model.finish())
    newer = (9999).to_bytes(4, "little")
    old = (47).to_bytes(4, "little")  # EXP, in the field that has four bytes
    assert data.count(old) >= 1
    data = bytearray(bytes(data).replace(old, newer))
    with pytest.raises(MNNError, match="number 9999"):
        load_graph(bytes(data))


@pytest.mark.parametrize("seed", range(200))
def test_damaged_options_are_refused_or_read(seed: int) -> None:
    """FlexBuffers: no exception but ours, whatever the bytes are."""
    whole = bytes.fromhex("6100620063000301020301070a0d03030101020304040424062401")
    rng = np.random.default_rng(seed)
    data = bytearray(whole)
    for _ in range(int(rng.integers(1, 4))):
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
    with contextlib.suppress(FormatError):
        flexbuffers.read(bytes(data[: int(rng.integers(len(data) + 1))]), "options")
