"""``mnn bench``: the table and its JSON form. (What the times are is no test.)"""

from __future__ import annotations

import json
from pathlib import Path

KEYS = [
    "model", "threads", "precision", "min_ms", "median_ms", "load_ms", "first_ms", "arena_mb", "peak_mb", "gflops",
]  # fmt: skip


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
        assert 0 < row["min_ms"] <= row["median_ms"]
        assert 0 < row["load_ms"] < row["first_ms"]
        assert 0 < row["arena_mb"] < 1
        assert 10 < row["peak_mb"] < 2000
        assert row["gflops"] > 0
    # multiplications and additions of three convolutions, one depthwise convolution and a matrix, at least
    flops = rows[0]["gflops"] * 1e9 * rows[0]["min_ms"] / 1e3
    assert 2e6 < flops < 4e6 or 2e6 < flops / 4 < 4e6
    for text in ("threads", "min", "median", "load", "first", "arena", "peak", "GFLOP/s", "digits.mnn"):
        assert text in result.out


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
    assert "cannot write" in refused("bench", converted, "--runs", 1, "--json", "none/out.json")
