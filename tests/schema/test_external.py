"""External data: only from the model's own folder, and never half-written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.schema import Record, read_net, write_net
from MNN.schema import external as module
from MNN.schema.external import ExternalSource, ExternalWriter, open_external
from MNN.schema.offload import write_model
from MNN.schema.versions import all_ops
from MNN.schema.weights import decode_bias, decode_weight
from tests.schema.samples import DATA, FILES


@pytest.fixture(params=["by descriptor", "by name"])
def model(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's path in a folder with data beside it, for both ways of opening."""
    if request.param == "by name":
        monkeypatch.setattr(module, "_HAS_DIR_FD", False)
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.mnn.weight").write_bytes(bytes(range(64)))
    (folder / "sub" / "b.bin").write_bytes(b"12345678")
    (tmp_path / "secret").write_bytes(b"secret")
    return folder / "a.mnn"


def test_data_beside_the_model_is_read(model: Path) -> None:
    data = open_external(model, "a.mnn.weight")
    assert bytes(data.read_range(2, 3)) == b"\x02\x03\x04"
    assert data.array(4, 8, np.uint32).tolist() == [0x07060504, 0x0B0A0908]
    assert data.array(1, 4, np.uint32).tolist() == [0x04030201]
    assert bytes(open_external(model, "./sub/b.bin").read_range(0, 8)) == b"12345678"
    assert ExternalSource(model).open().size == 64
    assert bytes(data.read_range(64, 0)) == b""
    for offset, length in [(60, 5), (-1, 2), (0, -1), (1 << 63, 1)]:
        with pytest.raises(FormatError, match="incomplete"):
            data.read_range(offset, length)
    with pytest.raises(FormatError, match="whole number"):
        data.array(0, 7, np.float32)


@pytest.mark.parametrize(
    "location",
    [
        "",
        ".",
        "..",
        "../secret",
        "sub/../../secret",
        "sub/..",
        "/etc/passwd",
        "//host/share",
        "C:/x",
        "C:x",
        "..\\secret",
        "sub\\b.bin",
        "a\0b",
        "a//b",
        "sub/",
        "a.mnn.weight:stream",
        "x" * 5000,
        "sub",
        "missing",
    ],
)
def test_names_that_lead_elsewhere_are_refused(model: Path, location: str) -> None:
    with pytest.raises(MNNError, match=r"refused|cannot open"):
        open_external(model, location)


def test_links_and_devices_are_refused(model: Path) -> None:
    folder = model.parent
    os.symlink("../secret", folder / "link")
    os.symlink("a.mnn.weight", folder / "inner")
    os.symlink("..", folder / "up")
    os.link(folder.parent / "secret", folder / "hard")
    os.mkfifo(folder / "fifo")
    for location in ("link", "inner", "up/secret", "hard", "fifo"):
        with pytest.raises(MNNError, match=r"link|regular"):
            open_external(model, location)


def test_the_writer_places_the_file_at_the_end_only(tmp_path: Path) -> None:
    path = tmp_path / "m.mnn"
    with ExternalWriter(path) as writer:
        assert writer.add(np.arange(3, dtype=np.float32), np.arange(2, dtype=np.int8)) == [0, 12, 2]
        assert writer.add(np.arange(4, dtype=np.float32).reshape(2, 2).T) == [64, 16]
        assert not (tmp_path / "m.mnn.weight").exists()
    data = ExternalSource(path).open()
    assert data.array(0, 12, np.float32).tolist() == [0, 1, 2]
    assert data.array(64, 16, np.float32).tolist() == [0, 2, 1, 3]
    before = (tmp_path / "m.mnn.weight").read_bytes()
    with pytest.raises(MNNError, match="half way"):
        _fail_half_way(path)
    assert (tmp_path / "m.mnn.weight").read_bytes() == before
    assert os.listdir(tmp_path) == ["m.mnn.weight"]
    with pytest.raises(MNNError, match="not open"):
        ExternalWriter(path).add(np.ones(1))


def _fail_half_way(path: Path) -> None:
    with ExternalWriter(path) as writer:
        writer.add(np.ones(5))
        raise MNNError("half way")


@pytest.mark.parametrize("name", ["attn.ext4.mnn", "sparse.se.mnn"])
def test_official_external_files(name: str, tmp_path: Path) -> None:
    net = read_net(DATA / name)
    source = ExternalSource(DATA / name)
    convs = [op.main for op in all_ops(net) if op.main is not None and op.main.table_name == "Convolution2D"]
    assert len(convs) == 2
    for conv in convs:
        common = conv.common
        count = common.outputCount * common.inputCount * common.kernelX * common.kernelY
        weight = decode_weight(conv, source, count=count).dequantize()
        assert 0.01 < np.abs(weight).mean() < 0.3
        bias = decode_bias(conv, source)
        assert bias is not None
        assert bias.shape == (common.outputCount,)
        with pytest.raises(MNNError, match="memory"):
            decode_weight(conv)
    # With the file cut short, nothing is read past its end.
    write_net(net, tmp_path / name)
    (tmp_path / f"{name}.weight").write_bytes((DATA / f"{name}.weight").read_bytes()[:100])
    with pytest.raises(FormatError, match="incomplete"):
        decode_weight(convs[0], ExternalSource(tmp_path / name))


@pytest.mark.parametrize(
    "path", [path for path in FILES if "ext" not in path.name and "se" not in path.name.split(".")]
)
def test_weights_move_out_and_mean_the_same(path: Path, tmp_path: Path) -> None:
    net = read_net(path)
    target = tmp_path / path.name
    write_model(net, target, external=True)
    moved, source = read_net(target), ExternalSource(target)
    assert target.stat().st_size < path.stat().st_size or path.name.startswith("branch")
    assert read_net(path) == net
    checked = 0
    for old, new in zip(all_ops(net), all_ops(moved), strict=True):
        if old.main is not None and old.main.table_name == "Convolution2D" and old.main.has("common"):
            assert new.main.has("external") == (len(old.inputIndexes) == 1)
            a, b = decode_weight(old.main), decode_weight(new.main, source)
            assert np.array_equal(a.dequantize(), b.dequantize())
            assert np.array_equal(decode_bias(old.main), decode_bias(new.main, source))
            checked += 1
    assert checked
    with pytest.raises(FormatError, match="already"):
        write_model(moved, tmp_path / "twice.mnn", external=True)
    write_model(net, tmp_path / "inside.mnn")
    assert read_net(tmp_path / "inside.mnn") == net
    assert not (tmp_path / "inside.mnn.weight").exists()


def test_a_hostile_model_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(64))
    (tmp_path / "sub").mkdir()
    conv = Record("Convolution2D", external=[0, 32, 4])
    with pytest.raises(MNNError, match="refused"):
        decode_weight(conv, ExternalSource(tmp_path / "sub" / "m.mnn"), "../secret")
    conv.external = [-8, 32, 4]
    with pytest.raises(FormatError, match="negative"):
        decode_weight(conv, ExternalSource(tmp_path / "m.mnn"), "secret")
    conv.external = [1 << 62, 1 << 62, 1 << 62]
    with pytest.raises(FormatError, match="incomplete"):
        decode_bias(conv, ExternalSource(tmp_path / "m.mnn"), "secret")
