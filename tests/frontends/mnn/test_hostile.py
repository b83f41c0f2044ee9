"""Damaged and malicious files: a right answer or an MNNError, never anything else."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.frontends import load_graph
from MNN.frontends.mnn import extras as side
from MNN.frontends.mnn import graph_of, net_of
from MNN.ir.verify import verify
from MNN.schema import Record, read_net, write_net
from MNN.schema.writer import write_table
from tests.frontends.mnn.graphs import small_net
from tests.frontends.mnn.test_foreign import _if


def _files() -> dict[str, bytes]:
    written = write_net(net_of(small_net()[0]))
    foreign = write_net(_if())
    assert written is not None
    assert foreign is not None
    return {"written": written, "foreign": foreign}


@pytest.mark.parametrize("name", ["written", "foreign"])
def test_flipped_bytes_and_cuts_end_in_a_graph_or_an_error(name: str) -> None:
    data, chance = _files()[name], random.Random(11)
    loaded = 0
    for _ in range(1500):
        damaged = bytearray(data)
        if chance.random() < 0.1:
            del damaged[chance.randrange(len(damaged)) :]
        for _ in range(chance.randrange(4)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        try:
            verify(load_graph(bytes(damaged), "mnn"), "load")
            loaded += 1
        except MNNError:
            pass
    assert loaded > 100


def _noted(text: str) -> Record:
    net = net_of(small_net()[0])
    buffer = write_table(Record("Extra", attr=[Record("Attribute", key=side.KEY, s=text)]))
    assert buffer is not None
    net.extraInfo.buffer = np.frombuffer(buffer, np.int8)
    data = write_net(net)
    assert data is not None
    return read_net(data)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", "null", '{"graphs": []}', '{"graphs": {"": []}}', '{"graphs": {"": {"dtypes": {"x": "f31"}}}}',
        '{"graphs": {"": {"dtypes": {"x": ["f32"]}}}}', '{"graphs": {"": {"shapes": {"x": [-1]}}}}',
        '{"graphs": {"": {"shapes": {"x": [true]}}}}', '{"graphs": {"": {"shapes": {"x": [1e9]}}}}',
        '{"graphs": {"": {"shapes": {"x": 3}}}}', '{"graphs": {"": {"nodes": {"conv": {"op": "If"}}}}}',
        '{"graphs": {"": {"nodes": {"conv": {"op": []}}}}}',
        '{"graphs": {"": {"nodes": {"conv": {"operands": [[]]}}}}}',
        '{"graphs": {"": {"nodes": {"conv": {"operands": [["w", "f32", [1, 1]]]}}}}}',
        '{"graphs": {"": {"nodes": {"conv": {"operands": [["w", "i8", [4, 3, 3, 3]]]}}}}}',
        '{"graphs": {"": {"nodes": {"conv": {"operands": [["w", "f32", ["n"]]]}}}}}',
        '{"graphs": {"": {"nodes": {"conv": {"attrs": {"pads": [[1]]}}}}}}',
        '{"graphs": {"": {"nodes": {"conv": 3}}}}', "[" * 100000,
    ],
)  # fmt: skip
def test_malformed_notes_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        graph_of(_noted(text))


def test_someone_elses_metadata_is_left_alone() -> None:
    net = net_of(small_net()[0])
    net.extraInfo.buffer = np.arange(100, dtype=np.int8)
    assert graph_of(net).inputs[0].shape == ("x_0", 3, 8, 8)


def test_a_size_in_the_notes_allocates_nothing() -> None:
    huge = json.dumps({"graphs": {"": {"shapes": {"x": [1 << 47, 1 << 47]}}}})
    assert graph_of(_noted(huge)).inputs[0].shape == (1 << 47, 1 << 47)
