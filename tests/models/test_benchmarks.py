"""The parts of the benchmark that need no other engine: data, references, tables."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.architectures.catalog import ARCHITECTURES, select
from benchmarks.driver import Measurement, Settings
from benchmarks.models import find
from benchmarks.reference import error, reference
from benchmarks.report import Report, Row, machine, markdown
from benchmarks.setup_peers import REPOSITORY, work_folder
from tests.models.runners import onnxruntime_runner

DIGITS = REPOSITORY / "src" / "MNN" / "data" / "digits.onnx"
SETTINGS = Settings(1, "high", (), 2, 2)


def test_feeds_are_seeded_and_follow_the_extents() -> None:
    bert = ARCHITECTURES["bert_base"]
    first, again = bert.feeds(3, batch=2, sequence=5), bert.feeds(3, batch=2, sequence=5)
    assert {a.shape for a in first.values()} == {(2, 5)}
    assert all(np.array_equal(first[k], again[k]) for k in first)
    assert not np.array_equal(bert.feeds(4, batch=2, sequence=5)["input_ids"], first["input_ids"])


def test_unknown_architecture_names_the_known_ones() -> None:
    with pytest.raises(KeyError, match="mobilenet_v1"):
        select("no_such_net")


def test_reference_is_float64_and_near_float32(tmp_path: Path) -> None:
    model = find(str(DIGITS), tmp_path)
    expected = reference(model, tmp_path)
    assert expected["probability"].dtype == np.float64
    found = dict(onnxruntime_runner(DIGITS)(model.feeds))
    assert 0 < error(found, expected) < 1e-5
    assert error({"probability": found["probability"] * 1.1}, expected) == pytest.approx(0.1, rel=1e-3)
    assert error({}, expected) == np.inf
    cached = list((tmp_path / "references").iterdir())
    assert np.array_equal(reference(model, tmp_path)["probability"], expected["probability"])
    assert list((tmp_path / "references").iterdir()) == cached


def test_table_marks_the_fastest_and_explains_what_is_missing() -> None:
    fast = Measurement("onnxruntime", "1.0", rounds_ms=[[2.0, 3.0], [2.5]])
    slow = Measurement("openvino", "2.0", rounds_ms=[[4.0], [8.0]])
    none = Measurement("ncnn", note="pnnx fails")
    rows = [Row.of("net", SETTINGS, m, e) for m, e in ((fast, 1e-6), (slow, float("inf")), (none, None))]
    assert (rows[0].min_ms, rows[0].median_ms, rows[0].spread) == (2.0, 2.5, 1.25)
    text = markdown(Report(machine(), rows))
    assert "| net | **2** (1e-06) | 4 (wrong) | - [1] |" in text
    assert "[1] ncnn: pnnx fails" in text
    assert "| 1.00 (1) | 2.00 (1) | - |" in text
    json.dumps([dataclasses.asdict(r) for r in rows])


def test_work_folder_stays_out_of_the_repository() -> None:
    with pytest.raises(SystemExit, match="inside the repository"):
        work_folder(REPOSITORY / "benchmarks" / "work")
