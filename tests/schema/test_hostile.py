"""Malformed files: every one ends in a model or in a FormatError, quickly and in little memory."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.schema import Record, read_net, to_json, write_net, writer
from MNN.schema.blobs import blob_to_array
from MNN.schema.versions import all_ops
from MNN.schema.weights import decode_weight
from tests.schema.samples import FILES

CORPUS = [path for path in FILES if path.name in ("convnet.w4h.mnn", "branch.f32.mnn", "sparse.s4.mnn")]


def _use(data: bytes) -> str:
    """Loads a model and decodes everything in it; says how that ended."""
    try:
        net = read_net(data)
    except FormatError:
        return "refused"
    for op in all_ops(net):
        try:
            if op.main is not None and op.main.table_name == "Convolution2D":
                decode_weight(op.main)
            elif op.main is not None and op.main.table_name == "Blob":
                blob_to_array(op.main)
        except MNNError:
            return "refused later"
    return "loaded"


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_truncated_files_are_refused(path: Path) -> None:
    data = path.read_bytes()
    for cut in np.linspace(0, len(data) - 1, 200, dtype=int).tolist():
        assert _use(data[:cut]) in ("refused", "refused later", "loaded")
    assert _use(data) == "loaded"
    assert _use(data[: len(data) // 2]) == "refused"
    for cut in range(9):
        assert _use(data[:cut]) == "refused"


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_mutated_files_load_or_are_refused(path: Path) -> None:
    original = path.read_bytes()
    rng = np.random.default_rng(1)
    ends: dict[str, int] = {}
    slowest = 0.0
    for i in range(1000):
        data = bytearray(original)
        if i % 2:
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        elif i % 4:
            at, size = int(rng.integers(len(data))), int(rng.integers(1, 64))
            data[at : at + size] = rng.bytes(size)
        else:  # a whole number, as offsets and lengths are
            at = int(rng.integers(len(data) // 4)) * 4
            number = int(rng.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, len(data), len(data) - at, 65536]))
            data[at : at + 4] = struct.pack("<I", number)
        start = time.perf_counter()
        end = _use(bytes(data))
        slowest = max(slowest, time.perf_counter() - start)
        ends[end] = ends.get(end, 0) + 1
    assert ends["loaded"] > 50
    assert ends["refused"] > 50
    assert slowest < 5


def _table(fields: list[bytes], offsets: list[int]) -> bytes:
    """Not used by writers: a vtable followed by its table, fields at chosen places."""
    vtable = struct.pack(f"<{2 + len(offsets)}H", 4 + 2 * len(offsets), 4 + sum(map(len, fields)), *offsets)
    vtable += bytes(-len(vtable) % 4)
    return vtable + struct.pack("<i", len(vtable)) + b"".join(fields)


def _bomb_of_shared_ops(size: int) -> bytes:
    """A net whose list of operators names one operator over and over."""
    count = size // 4
    op = _table([struct.pack("<i", 0)], [0, 0, 0, 0, 0, 4])
    head = struct.pack("<I", 16) + struct.pack("<6H", 12, 8, 0, 0, 0, 4) + struct.pack("<i", 12) + struct.pack("<I", 4)
    vector = struct.pack("<I", count)
    first = len(head) + 4
    target = first + 4 * count + len(op) - 8
    offsets = target - (first + 4 * np.arange(count, dtype=np.int64))
    return head + vector + offsets.astype("<u4").tobytes() + op


def _bomb_of_strings(size: int) -> bytes:
    """A net whose names are all one long string."""
    text = b"a" * (size // 2)
    count = size // 8
    head = struct.pack("<I", 24) + struct.pack("<10H", 20, 8, *([0] * 7), 4) + struct.pack("<i", 20)
    head += struct.pack("<I", 4) + struct.pack("<I", count)
    first = len(head)
    target = first + 4 * count
    offsets = target - (first + 4 * np.arange(count, dtype=np.int64))
    return head + offsets.astype("<u4").tobytes() + struct.pack("<I", len(text)) + text + b"\0"


def _deep(levels: int) -> bytes:
    attribute = Record("Attribute", key="leaf")
    for _ in range(levels):
        attribute = Record("Attribute", func=Record("NamedAttrList", attr=[attribute]))
    op = Record("Op", type="Plugin", outputIndexes=[0], main=Record("Plugin", attr=[attribute]))
    data = write_net(Record("Net", oplists=[op], tensorName=["x"]))
    assert data is not None
    return data


def test_small_files_cannot_ask_for_much(tmp_path: Path) -> None:
    """Each bomb is read in a process of its own, whose memory and time are measured."""
    bombs = {"shared": _bomb_of_shared_ops(4 << 20), "strings": _bomb_of_strings(4 << 20)}
    script = (
        "import resource, sys, time; from MNN.errors import FormatError; from MNN.schema import read_net\n"
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; start = time.perf_counter()\n"
        "try: read_net(sys.argv[1]); print('loaded', end=' ')\n"
        "except FormatError as error: print('refused:', str(error)[-90:], end=' ')\n"
        "print(time.perf_counter() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024)\n"
    )
    for name, data in bombs.items():
        path = tmp_path / f"{name}.mnn"
        path.write_bytes(data)
        run = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60, check=True
        )
        assert "add up to far more" in run.stdout, run.stdout
        seconds, megabytes = map(float, run.stdout.split()[-2:])
        assert seconds < 10
        assert megabytes < 700


def test_deep_nesting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_net(_deep(20)) is not None
    monkeypatch.setattr(writer, "MAX_DEPTH", 10_000)
    for levels in (40, 200):
        with pytest.raises(FormatError, match="nest deeper"):
            read_net(_deep(levels))


def test_errors_say_where() -> None:
    data = FILES[0].read_bytes()
    with pytest.raises(FormatError, match=r"at byte \d+, Net"):
        read_net(data[: len(data) // 2])


def test_indices_must_refer_to_tensors() -> None:
    op = Record("Op", type="Input", outputIndexes=[5])
    for net, complaint in [
        (Record("Net", oplists=[op], tensorName=["x"]), "outputIndexes"),
        (Record("Net", tensorName=["x"]), "no operators"),
        (Record("Net", oplists=[Record("Op", inputIndexes=[-2])], tensorName=["x"]), "inputIndexes"),
        (Record("Net", oplists=[Record("Op", main=Record("LoopParam", tensorNumber=1 << 30))]), "loop"),
    ]:
        data = write_net(net)
        assert data is not None
        with pytest.raises(FormatError, match=complaint):
            read_net(data)


def test_oddly_placed_vectors_are_read() -> None:
    """The format does not promise alignment: a copy shifted by one byte means the same."""
    data = FILES[0].read_bytes()
    shifted = struct.pack("<I", struct.unpack_from("<I", data)[0] + 1) + b"\0" + data[4:]
    assert to_json(read_net(shifted)) == to_json(read_net(data))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.mnn")
    for path in (tmp_path / "fifo.mnn", tmp_path, Path("/dev/zero"), tmp_path / "none.mnn", tmp_path / "a\0b"):
        with pytest.raises(MNNError, match="cannot open"):
            read_net(path)
    (tmp_path / "empty.mnn").write_bytes(b"")
    with pytest.raises(FormatError, match="too short"):
        read_net(tmp_path / "empty.mnn")
