"""The parts of the benchmark that need no other engine: data, references, tables."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.architectures.catalog import ARCHITECTURES, select
from benchmarks.driver import Measurement
from benchmarks.models import find
from benchmarks.peers.catalog import PEERS
from benchmarks.records import Record, Row, combined, load, machine, save
from benchmarks.reference import error, reference
from benchmarks.report import BEGIN, END, markdown, publish
from benchmarks.settings import SETTINGS, engines_of
from benchmarks.setup_peers import REPOSITORY, work_folder
from benchmarks.summary import newest, scaling, summary
from benchmarks.tables import machines, small_table, threads
from tests.models.runners import onnxruntime_runner

DIGITS = REPOSITORY / "src" / "MNN" / "assets" / "digits.onnx"


def record(
    model: str, ours: float, when: float = 1.0, threads: int = 1, settings: tuple[str, ...] = ("high",)
) -> Record:
    """Ours, a peer at 2 ms with an error of 1e-6, one at 1 ms that is wrong, and one that fails."""
    rows = (
        Row.of(Measurement("mnn-high", "0", rounds_ms=[[ours, 3 * ours], [2 * ours]], overhead_ms=0.05), 2e-6),
        Row.of(Measurement("onnxruntime", "1.0", rounds_ms=[[2.0, 3.0], [2.5]]), 1e-6),
        Row.of(Measurement("openvino", "2.0", rounds_ms=[[1.0], [1.0]]), float("inf")),
        Row.of(Measurement("ncnn", note="pnnx fails"), None),
    )
    return Record(model, threads, 1, settings, when, machine(), rows)


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


def test_large_batches_are_checked_by_row(tmp_path: Path) -> None:
    whole = find(str(DIGITS), tmp_path, shapes={"image": (4, 1, 8, 8)})
    assert whole.rows is None
    some = dataclasses.replace(whole, rows=(0, 3))
    expected = reference(some, tmp_path)
    assert np.allclose(expected["probability"], reference(whole, tmp_path)["probability"][[0, 3]], 1e-12)
    found = dict(onnxruntime_runner(DIGITS)(whole.feeds))
    assert 0 < error(found, expected, some.rows) < 1e-5
    swapped = {"probability": found["probability"][[3, 1, 2, 0]]}
    assert error(swapped, expected, some.rows) > 1e-2


def test_sound_is_realistic() -> None:
    wave = ARCHITECTURES["wav2vec_encoder"].feeds(1, batch=2)["samples"]
    assert wave.shape == (2, 16000)
    assert (wave.dtype, round(float(wave.std()), 3)) == (np.float32, 1.0)
    spectrum = np.abs(np.fft.rfft(wave[0]))
    assert spectrum[:2500].sum() > 2 * spectrum[2500:].sum()  # 1 s: bins are Hz


def test_rows_hold_minimum_median_and_spread() -> None:
    row = record("resnet18", 1.0).rows[0]
    assert (row.min_ms, row.median_ms, row.spread, row.overhead_ms) == (1.0, 2.0, 2.0, 0.05)


def test_records_survive_the_disk_and_newer_ones_win(tmp_path: Path) -> None:
    first, second = record("resnet18", 4.0, 1.0), record("resnet18", 1.0, 2.0)
    assert save(first, tmp_path / "a") != save(record("bert_base", 1.0), tmp_path / "a")
    save(second, tmp_path / "b")
    found = load([tmp_path / "b", tmp_path / "a"])
    assert [r.when for r in found] == [1.0, 1.0, 2.0]
    assert newest(found)["high", 1, 1, "resnet18"] == second
    assert load([tmp_path / "none"]) == []


def test_a_processor_is_named_once() -> None:
    first = record("resnet18", 1.0)
    second = dataclasses.replace(first, machine={**first.machine, "python": "3.99.0", "commit": "abc"})
    text = machines([first, second, first])
    assert text.count("Processor: ") == 1
    assert f"Python {first.machine['python']} and 3.99.0." in text


def test_of_several_runs_each_engine_counts_with_its_least_time() -> None:
    slow = record("resnet18", 3.0, when=1.0)
    quick = dataclasses.replace(
        record("resnet18", 1.5, when=2.0),
        machine={**slow.machine, "commit": "abc"},
        settings=("low",),
        rows=tuple(dataclasses.replace(r, min_ms=r.min_ms and 1.5 * r.min_ms, first_ms=7.0) for r in slow.rows),
    )
    cold = tuple(dataclasses.replace(r, first_ms=9.0) for r in slow.rows)
    slow = dataclasses.replace(slow, machine={**slow.machine, "commit": "def"}, rows=cold)
    other = record("resnet50", 9.0)
    both, alone = combined([slow, quick, other])
    assert [r.min_ms for r in both.rows] == [r.min_ms for r in slow.rows]
    assert {r.first_ms for r in both.rows if r.min_ms} == {7.0}, "of what else a run costs, the least counts too"
    cheap = dataclasses.replace(
        quick, rows=tuple(dataclasses.replace(r, min_ms=0.1, first_ms=5.0) for r in quick.rows[:1])
    )
    beside, _ = combined([slow, quick, other], [cheap])
    assert [(r.min_ms, r.first_ms) for r in beside.rows[:2]] == [(both.rows[0].min_ms, 5.0), (both.rows[1].min_ms, 7.0)]
    assert both.settings == (*slow.settings, "low")
    assert (both.when, both.machine["runs"], both.machine["commit"]) == (2.0, 2, "abc, def")
    assert (alone.rows, alone.machine["runs"]) == (other.rows, 1)
    assert "several runs (up to 2)" in markdown([both, alone])
    assert "several runs" not in markdown([alone])
    assert "at commit abc, def" in markdown([both])


def test_ratios_leave_out_wrong_results_and_judge_errors() -> None:
    lines = summary([record("resnet18", 1.0), record("bert_base", 4.0), record("densenet121", 2.0)])
    assert [(line.kind, line.mean) for line in lines] == [("main", pytest.approx(1.0)), ("further", pytest.approx(1.0))]
    main = lines[0]
    assert (main.lowest.record.model, main.lowest.ratio, main.lowest.best.engine) == ("bert_base", 0.5, "onnxruntime")
    assert [s.in_bounds for s in main.standings] == [True, True]
    failed = record("resnet50", 1.0)
    failed = dataclasses.replace(failed, rows=(Row.of(Measurement("mnn-high", note="fails"), None), *failed.rows[1:]))
    assert summary([record("resnet18", 1.0), failed])[0].missing == ("resnet50",)
    high, low = SETTINGS["high"], SETTINGS["low"]
    assert (high.in_bounds(3e-5, 1e-5), high.in_bounds(5e-5, 1e-5), high.in_bounds(2e-5, None)) == (True, False, False)
    assert (low.in_bounds(0.1, None), low.in_bounds(float("inf"), None)) == (None, False)


def test_scaling_compares_one_thread_with_two() -> None:
    records = [record("resnet18", 3.0), record("resnet18", 2.0, threads=2)]
    assert scaling(records) == [("high", "resnet18", 3.0, 1.5)]
    peers = [(engine, up) for engine in SETTINGS["high"].peers for *_, up in scaling(records, engine)]
    assert peers
    text = threads(records)
    assert "| resnet18 | 1.50 | " + " | ".join(f"{up:.2f}" for _, up in peers) + " |" in text
    assert all(PEERS[engine].label in text for engine, _ in peers)


def test_settings_name_engines_that_exist_and_keep_ours() -> None:
    everything = engines_of(list(SETTINGS.values()), None)
    assert len({p.name for p in everything}) == len(everything)
    chosen = engines_of([SETTINGS["high"], SETTINGS["low"]], {"openvino"})
    assert [p.name for p in chosen] == ["mnn-high", "mnn-low", "openvino", "openvino-default"]


def test_report_marks_the_fastest_and_explains_what_is_missing() -> None:
    text = markdown([record("resnet18", 1.5), record("densenet121", 4.0), record("resnet18", 1.0, threads=2)])
    assert "| resnet18 | 1.5 (2e-06) | 2 (1e-06) | **1** (wrong) | - [1] |" in text
    assert "[1] ncnn: pnnx fails" in text
    assert "## `high`, 2 threads, batch 1" in text
    assert "| resnet18 | 1.50 |" in text  # two threads
    assert "API adds" in text


def test_a_report_says_by_which_clock_it_was_measured() -> None:
    usual = record("resnet18", 1.0)
    other = dataclasses.replace(usual, machine={**usual.machine, "clock": "processor"})
    assert "Times on this page are of the processor" in markdown([other])
    assert "## Start" not in markdown([other])
    assert "met by the 1 measured" in markdown([other])
    assert "Times on this page are of the processor" not in markdown([usual])


def test_the_small_table_has_a_row_for_each_setting() -> None:
    records = [record("resnet18", 1.0), record("resnet50", 4.0), record("resnet18", 0.5, threads=2)]
    rows = small_table(summary([*records, record("densenet121", 9.0)])).splitlines()
    assert rows[0] == "| setting | 1 thread: mean | lowest | 2 threads: mean | lowest | largest error |"
    assert rows[2] == "| `high` | **1.00** | 0.50 | **4.00** | 4.00 | 2e-06 |"
    assert rows[-1].startswith("`high`: against ONNX Runtime, OpenVINO f32, ncnn")


@pytest.mark.parametrize("page", ["", "-amx", "-avx2"])
def test_published_pages_are_those_of_their_numbers(page: str) -> None:
    """The tables can be made again from the published records, and say what these say."""
    docs = REPOSITORY / "docs"
    records = load([docs / f"benchmarks{page}.json"])
    assert (docs / f"benchmarks{page}.md").read_text(encoding="utf-8") == markdown(records, "images/", page)
    assert small_table(summary(records)) in (REPOSITORY / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["", "other"])
def test_publishing_replaces_what_is_between_the_marks(tmp_path: Path, page: str) -> None:
    pytest.importorskip("matplotlib")
    readme, name = tmp_path / "README.md", f"-{page}" if page else ""
    begin, end = BEGIN.format(name), END.format(name)
    readme.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    for _ in range(2):
        publish([record("resnet18", 1.0)], tmp_path, page)
    text = readme.read_text()
    assert text.startswith(f"before\n{begin}\n")
    assert text.endswith(f"{end}\nafter\n")
    assert "old" not in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (tmp_path / link).is_file()
    docs = tmp_path / "docs"
    assert (docs / f"benchmarks{name}.json").is_file()
    for link in re.findall(r"\]\(([^)]+)\)", (docs / f"benchmarks{name}.md").read_text()):
        assert (docs / link).is_file()
    readme.write_text("no marks")
    with pytest.raises(SystemExit, match="no marks"):
        publish([record("resnet18", 1.0)], tmp_path)


def test_work_folder_stays_out_of_the_repository() -> None:
    with pytest.raises(SystemExit, match="inside the repository"):
        work_folder(REPOSITORY / "benchmarks" / "work")
