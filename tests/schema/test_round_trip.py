"""Writing, reading and the JSON form, for every table."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.schema import Record, from_json, read_net, to_json, write_net
from MNN.schema.reader import read_table
from MNN.schema.tables import table_names
from MNN.schema.versions import parse_version
from MNN.schema.writer import write_table
from tests.schema.samples import FILES, random_record


def _net(**fields: object) -> Record:
    op = Record("Op", type="Input", outputIndexes=[0], main=Record("Input"))
    return Record("Net", oplists=[op], tensorName=["x"], **fields)


@pytest.mark.parametrize("name", table_names())
def test_every_table_round_trips(name: str) -> None:
    for seed in range(6):
        record = random_record(np.random.default_rng(seed), name)
        if name == "Net":
            record.extraInfo = Record("ExtraInfo", version="3.6.1")
        data = write_table(record)
        assert data is not None
        again = read_table(data, name)
        assert again == record
        assert write_table(again) == data
        text = from_json(to_json(again), name)
        assert text == record
        assert write_table(text) == data


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_official_files_round_trip(path: Path, tmp_path: Path) -> None:
    net = read_net(path)
    write_net(net, tmp_path / "again.mnn")
    again = read_net(tmp_path / "again.mnn")
    assert again == net
    assert net.extraInfo.version == "3.6.1"
    data = (tmp_path / "again.mnn").read_bytes()
    assert write_net(again) == data
    assert write_net(from_json(to_json(net))) == data
    assert write_net(from_json(to_json(net, indent=2))) == data
    assert read_net(path.read_bytes()) == net


def test_there_are_official_files() -> None:
    assert len(FILES) == 9


def test_large_vectors_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    weight = np.arange(5000, dtype=np.float32)
    net = _net()
    net.oplists.append(Record("Op", type="Const", main=Record("Blob", dims=[5000], float32s=weight), outputIndexes=[0]))
    write_net(net, tmp_path / "a.mnn")
    read = read_net(tmp_path / "a.mnn").oplists[1].main.float32s
    assert np.array_equal(read, weight)
    assert not read.flags.owndata
    assert not read.flags.writeable
    assert read.ctypes.data % 64 == 0


def test_scalars_are_written_at_their_defaults_and_empty_vectors_left_out() -> None:
    data = write_table(Record("PRelu", slope=[]))
    assert data is not None
    again = read_table(data, "PRelu")
    assert again.has("slopeCount")
    assert not again.has("slope")


def test_a_file_over_two_gigabytes_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    net = _net()
    half = np.zeros(300_000_000, np.float32)  # never touched, so never in memory
    net.oplists += [Record("Op", type="Const", main=Record("Blob", float32s=half), outputIndexes=[0])] * 2
    with pytest.raises(MNNError, match="external data"):
        write_net(net, tmp_path / "big.mnn")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.mnn"
    write_net(_net(), target)
    before = target.read_bytes()
    broken = _net()
    broken.oplists.append("not an op")
    with pytest.raises(FormatError, match=r"oplists.*\[1\]"):
        write_net(broken, target)
    assert target.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.mnn"]
    with pytest.raises(MNNError, match="cannot write"):
        write_net(_net(), tmp_path / "missing" / "a.mnn")
    (tmp_path / "folder").mkdir()
    with pytest.raises(MNNError, match="cannot write"):
        write_net(_net(), tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["a.mnn", "folder"]


def test_a_record_that_contains_itself_is_refused() -> None:
    attribute = Record("Attribute")
    attribute.func = Record("NamedAttrList", attr=[attribute])
    with pytest.raises(FormatError, match="nest"):
        write_table(attribute)
    with pytest.raises(FormatError, match="nest"):
        to_json(attribute)


@pytest.mark.parametrize(
    ("number", "version", "name"),
    [
        (59, "2.7.2", "QuantizedRelu"),
        (59, "2.8.0", "Texture"),
        (40, "3.1.4", "MVN"),
        (40, "3.2.0", "MoE"),
        (88, None, "Split"),
        (88, "2.0.0", "Col2Im"),
        (92, "2.9.6", "StringJoin"),
        (268, "2.0.4", "ZeroGrad"),
        (268, "3.6.1", "ConvTranspose3D"),
        (516, "2.9.0", "PoolInt8"),
        (12, None, "Convolution"),
    ],
)
def test_recycled_numbers_follow_the_version(number: int, version: str | None, name: str) -> None:
    net = _net()
    info = Record("ExtraInfo", version=version) if version else None
    net.oplists.append(Record.trusted("Op", {"type": number, "outputIndexes": np.zeros(1, np.int32)}))
    net.extraInfo = info
    data = write_net(net)
    assert data is not None
    read = read_net(data)
    assert read.oplists[1].type == name
    assert write_net(read) == data
    assert write_net(from_json(to_json(read))) == data


def test_a_new_operator_in_an_old_file_is_refused() -> None:
    net = _net(extraInfo=Record("ExtraInfo", version="2.9.6"))
    net.oplists[0].type = "MoE"
    with pytest.raises(MNNError, match=r"3\.6\.1"):
        write_net(net)


def test_versions_are_read_leniently() -> None:
    assert parse_version("3.6.1") == (3, 6, 1)
    assert parse_version("2.8") == (2, 8, 0)
    assert parse_version(None) == parse_version("x") == parse_version("9" * 5000) == (0, 0, 0)
