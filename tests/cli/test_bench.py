"""``mnn bench``: the table and its JSON form. (What the times are is no test.)"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from MNN.backends.cpu.measuring import machine
from MNN.cache.entries import Cache

KEYS = [
    "model", "threads", "precision", "batch", "min_ms", "median_ms", "p90_ms", "p99_ms", "overhead_us", "load_ms",
    "first_ms", "arena_mb", "peak_mb", "gflops", "error", "reference",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _quick_machine(tmp_path, monkeypatch):
    """A cache of its own, with a machine in it: measuring one takes seconds."""
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "_RUN_NS", 2e4)
    monkeypatch.setattr(machine, "_TRIES", 1)
    monkeypatch.setattr(machine, "_ROUNDS", 1)
    monkeypatch.setattr(machine, "_MOST_BYTES", 4 << 20)
    monkeypatch.setattr(Cache, "_off_everywhere", False)


def test_models_and_threads(mnn, digits, converted):
    arguments = ["--threads", "1,2", "--precision", "high", "--runs", 3, "--shape", "image=4x1x8x8"]
    result = mnn("bench", digits, converted, *arguments, "--json", "out.json", "--no-cache")
    assert result.code == 0, result
    rows = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert [list(row) for row in rows] == [KEYS] * 4
    assert [(r["model"], r["threads"]) for r in rows] == [
        ("digits.onnx", 1), ("digits.onnx", 2), ("digits.mnn", 1), ("digits.mnn", 2),
    ]  # fmt: skip
    for row in rows:
        assert row["precision"] == "high"
        assert 0 < row["min_ms"] <= row["median_ms"] <= row["p90_ms"] <= row["p99_ms"]
        assert row["batch"] is None
        assert row["error"] is None
        assert 0 < row["load_ms"] < row["first_ms"]
        assert 0 < row["arena_mb"] < 1
        assert 10 < row["peak_mb"] < 2000
        assert row["gflops"] > 0
    # multiplications and additions of three convolutions, one depthwise convolution and a matrix, at least
    flops = rows[0]["gflops"] * 1e9 * rows[0]["min_ms"] / 1e3
    assert 2e6 < flops < 4e6 or 2e6 < flops / 4 < 4e6
    for text in ("threads", "min", "median", "load", "first", "arena", "peak", "GFLOP/s", "digits.mnn"):
        assert text in result.out


def test_batches_precisions_and_the_error(mnn, digits):
    arguments = ["--batch", "1,3", "--precision", "high,normal", "--runs", 1, "--check", "--json", "out.json"]
    result = mnn("bench", digits, *arguments)
    assert result.code == 0, result
    rows = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert [(r["precision"], r["batch"]) for r in rows] == [("high", 1), ("high", 3), ("normal", 1), ("normal", 3)]
    for row in rows:
        assert row["reference"] == "float64"
        assert 0 < row["error"] < 1e-4
    for text in ("precision", "batch", "error", "float64"):
        assert text in result.out


def test_profile(mnn, digits):
    result = mnn("bench", digits, "--profile", "--runs", 2, "--top", 4, "--threads", "1,2", "--json", "out.json")
    assert result.code == 0, result
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert found["machine"]["one"]["compute"]["f32"] > 0
    assert [p["settings"]["threads"] for p in found["profiles"]] == [1, 2]
    first = found["profiles"][0]
    commands = first["commands"]
    assert [c["number"] for c in commands] == list(range(len(commands)))
    assert any(c["kernel"] == "contract" and c["flops"] > 0 and c["bytes"] > 0 for c in commands)
    assert all(c["bound_ns"] > 0 and c["bound_by"] for c in commands)
    assert first["sum_ns"] > 0
    for text in (
        "slowest commands",
        "more not shown",
        "by kernel",
        "by operator",
        "% of roof",
        "total",
        "without clocks",
    ):
        assert text in result.out


def test_machine(mnn):
    result = mnn("bench", "--machine", "--json", "out.json")
    assert result.code == 0, result
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert set(found["one"]["read"]) >= {"L1", "L2", "DRAM"}
    for text in ("f32 multiply-adds", "reading DRAM", "GB/s", "1 thread"):
        assert text in result.out


def test_assembly(mnn, digits):
    result = mnn("bench", digits, "--profile", "--runs", 1, "--json", "out.json")
    assert result.code == 0, result
    commands = json.loads(Path("out.json").read_text(encoding="utf-8"))["profiles"][0]["commands"]
    chosen = next(c for c in commands if c["kernel"] == "contract")
    result = mnn("bench", digits, "--asm", chosen["number"])
    assert result.code == 0, result
    for text in (
        "define void @kernel",
        "---- assembly",
        "ret",
        "hottest loop",
        "multiply-add",
        "spilled",
        chosen["detail"],
    ):
        assert text in result.out
    by_name = mnn("bench", digits, "--asm", "'/features/features.6/MaxPool")
    assert by_name.code == 0, by_name
    assert "WindowSpec(" in by_name.out


def test_made_up_integers_fit_small_tables(mnn, tmp_path):
    table = numpy_helper.from_array(np.arange(8, dtype=np.float32).reshape(2, 4), "table")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 6])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("Relu", ["rows"], ["out"])]
    graph = helper.make_graph(nodes, "g", [ids], [out], [table])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(tmp_path / "small.onnx"))
    result = mnn("bench", "small.onnx", "--runs", 1, "--check")
    assert result.code == 0, result


def test_mistakes(refused, digits, converted):
    assert "no such file: none.mnn" in refused("bench", digits, "none.mnn")
    assert "--threads takes numbers" in refused("bench", digits, "--threads", "1,x")
    assert "high, normal, low" in refused("bench", digits, "--precision", "exact")
    message = refused("bench", digits, converted, "--shape", "picture=1x1x8x8")
    assert "picture" in message
    assert "image" in message
    message = refused("bench", converted, "--shape", "image=1x1x9x9")
    assert "[1, 1, 9, 9]" in message
    assert "digits.mnn" in message
    folder = Path("folder.html")
    folder.mkdir()
    for option in ("--json", "--html"):  # before a minute of measuring
        message = refused("bench", converted, "--runs", 10**9, option, "none/out.html")
        assert "there is no folder none; make it first" in message
        assert "cannot write folder.html: a folder" in refused("bench", converted, option, folder)
    assert "write to page.html" in refused("bench", converted, "--html", "page.txt")
    assert "--profile or --html needs a model file" in refused("bench", "--machine", "--profile")
    assert "one of them at a time" in refused("bench", digits, "--profile", "--tune")
    assert "--asm takes one model" in refused("bench", digits, "--asm", "0", "--threads", "1,2")
    message = refused("bench", digits, "--asm", "999")
    assert "no command of that number" in message
    message = refused("bench", digits, "--asm", "nosuchkernel")
    assert "no kernel has this" in message
    assert "choose one by number" in message
    assert "--batch takes numbers" in refused("bench", digits, "--batch", "0")


def test_tuning(mnn, digits):
    result = mnn("bench", digits, "--tune", "--runs", 1, "--json", "out.json")
    assert result.code == 0, result
    (found,) = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert found["before_ns"] > 0
    for entry in found["signatures"]:
        assert entry["chosen"] in entry["times"]
        assert len(entry["times"]) > 1
    assert ("choices changed" if found["signatures"] else "only one way") in result.out
