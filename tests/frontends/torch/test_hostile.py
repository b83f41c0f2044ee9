"""Files that are damaged, or that want something of whoever opens them: a clear error, soon, in little memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import FormatError, MNNError
from MNN.frontends import load_graph
from tests.frontends.torch.peer import written

MUTATIONS = int(os.environ.get("MNN_TORCH_MUTATIONS", "40"))
SECONDS = 10.0
FILES = ("shared.pt2", "attention-core.pt2", "scripted-traced.pt", "shared.pt")


def original(name: str) -> bytes:
    return (written("program_cases") / f"cases-{name}").read_bytes()


def refused(data: bytes) -> MNNError | None:
    """The error of a file, soon; None where it still is a model."""
    start = time.perf_counter()
    try:
        load_graph(data, "torch")
    except MNNError as error:
        return error
    finally:
        assert time.perf_counter() - start < SECONDS
    return None


@pytest.mark.parametrize("name", FILES)
def test_cut_files_are_refused(name: str) -> None:
    data = original(name)
    for part in range(20):
        assert refused(data[: len(data) * part // 20]) is not None


@pytest.mark.parametrize("name", FILES)
def test_mutations_end_in_errors_of_ours(name: str) -> None:
    data = original(name)
    rng = np.random.default_rng(0)
    for _ in range(MUTATIONS):
        damaged = bytearray(data)
        for at in rng.integers(0, len(data), int(rng.integers(1, 30))):
            damaged[at] = int(rng.integers(256))
        refused(bytes(damaged))


def repacked(data: bytes, change: Callable[[str, bytes], bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """The archive with parts changed, well formed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", method) as target:
        for info in source.infolist():
            target.writestr(info.filename, change(info.filename, source.read(info)))
    return out.getvalue()


@pytest.mark.parametrize("name", FILES)
def test_mutations_within_parts_end_in_errors_of_ours(name: str) -> None:
    """Checksums are right, so that what is inside is reached."""
    data = original(name)
    rng = np.random.default_rng(1)

    def damage(part: str, content: bytes) -> bytes:
        if not part.endswith((".json", ".py", ".pkl")) or not content:
            return content
        changed = bytearray(content)
        for at in rng.integers(0, len(content), int(rng.integers(0, 3))):
            changed[at] = int(rng.integers(32, 127)) if part.endswith((".json", ".py")) else int(rng.integers(256))
        return bytes(changed)

    for _ in range(MUTATIONS):
        refused(repacked(data, damage))


class Calls:
    """Pickles as a call of ``os.system``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"echo hello > {self.path}",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_pickles_that_call_something_are_refused(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "called"
    bad = pickle.dumps(Calls(marker), protocol)
    data = repacked(original("shared.pt"), lambda n, c: bad if n.endswith("data.pkl") else c)
    with pytest.raises(FormatError, match=r"to be called|which PyTorch's files do not have"):
        load_graph(data, "torch")
    assert not marker.exists()


def test_code_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "called"
    line = f"    __import__('os').system('echo hello > {marker}')\n    return x"

    def change(name: str, content: bytes) -> bytes:
        if b"class Shared(" not in content:
            return content
        head = content.decode().split(") -> Tensor:")[0]
        return f"{head}) -> Tensor:\n{line}\n".encode()

    with pytest.raises(MNNError):
        load_graph(repacked(original("shared-traced.pt"), change), "torch")
    assert not marker.exists()


def test_bombs_are_refused() -> None:
    def zeros(name: str, content: bytes) -> bytes:
        return bytes(300 << 20) if name.endswith("model.json") else content

    assert "expected" in str(refused(repacked(original("shared.pt2"), zeros, zipfile.ZIP_DEFLATED)))

    def nested(name: str, content: bytes) -> bytes:
        return b"[" * 200_000 if name.endswith("model.json") else content

    assert "damaged" in str(refused(repacked(original("shared.pt2"), nested)))

    def deep(name: str, content: bytes) -> bytes:
        return b"x = " + b"(" * 5000 + b")" * 5000 if name.endswith(".py") else content

    assert refused(repacked(original("shared.pt"), deep)) is not None


def test_values_that_two_nodes_make_are_refused() -> None:
    def twice(name: str, content: bytes) -> bytes:
        if not name.endswith("model.json"):
            return content
        program = json.loads(content)
        nodes = program["graph_module"]["graph"]["nodes"]
        nodes.insert(1, nodes[0])
        return json.dumps(program).encode()

    assert "made twice" in str(refused(repacked(original("shared.pt2"), twice)))


def test_tensors_do_not_reach_beyond_their_memory() -> None:
    def change(name: str, content: bytes) -> bytes:
        return content.replace(b'"as_int": 6}', b'"as_int": 9999}') if name.endswith("config.json") else content

    assert "beyond" in str(refused(repacked(original("shared.pt2"), change)))


@pytest.mark.parametrize(
    "line",
    [
        "    while True:\n      pass\n    return x",
        "    y = [0]\n    for i in range(60):\n      y = torch.add(y, y)\n    return x",
        "    y = torch.mul([0], 100000000000)\n    return x",
        "    y = torch.pow(10, 100000000000)\n    return x",
        "    for i in range(100000000000):\n      pass\n    return x",
        "    return (self).forward(x, )",
        "    y = torch.eye(1000000000)\n    return x",
        "    return undefined",
        "    return x.__class__",
    ],
)
def test_programs_that_would_take_everything_are_refused(line: str) -> None:
    def change(name: str, content: bytes) -> bytes:
        if b"class Shared(" not in content:
            return content
        head = content.decode().split(") -> Tensor:")[0]
        return f"{head}) -> Tensor:\n{line}\n".encode()

    assert refused(repacked(original("shared-traced.pt"), change)) is not None
