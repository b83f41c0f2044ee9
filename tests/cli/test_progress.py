"""Steps, rate and time left: on a terminal's error stream, and nowhere else."""

from __future__ import annotations

import io
import itertools
import json
import re
from dataclasses import asdict

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress

from MNN.cli.display import progress as shown
from MNN.cli.measuring import measure
from MNN.comparison import compare
from MNN.converter import convert
from MNN.runtime.config import Config
from MNN.runtime.profile.profiler import profile
from MNN.runtime.profile.tuning import Tuner
from MNN.runtime.session import Session


class Heard(list):
    """What was said: texts, steps and totals."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
        assert 0 <= done <= total
        self.append((text, done, total))

    def steps(self) -> set[int]:
        return {total for _, _, total in self if total}


def test_converting_counts_passes(digits, tmp_path):
    said = Heard()
    convert(digits, tmp_path / "a.mnn", progress=said)
    assert [text for text, _, _ in said][:1] == ["reading"]
    (total,) = said.steps()
    assert {done for _, done, count in said if count == total} == set(range(1, total + 1))
    assert all(text.startswith("pass ") for text, _, count in said if count)


def test_checks_tuning_and_profiles_count(digits, converted):
    session = Session(_graph(digits), Config())
    feeds = {"image": np.zeros((1, 1, 8, 8), np.float32)}
    said = Heard()
    found = compare(digits, converted, feeds, report_progress=said)
    assert said.steps() == {len(found.differences)}
    said = Heard()
    session.run(feeds)
    profile(session, feeds, 3, report_progress=said)
    assert said == [("profiling", i, 3) for i in range(3)]
    said = Heard()
    values = {v: feeds[v.name] for v in session.graph.inputs if not v.is_const}
    Tuner(session.graph, Config(cache=False), values, 4, said).run()
    assert said.steps() == {4}
    assert [done for text, done, _ in said if text == "whole model"] == [0, 1, 2, 3]


def _graph(path):
    from MNN.frontends import load_graph

    return load_graph(path)


@pytest.fixture
def terminal(monkeypatch):
    stream = io.StringIO()
    screen = Console(file=stream, force_terminal=True, width=80, legacy_windows=False)
    monkeypatch.setattr(shown, "progress_console", lambda: screen)
    return stream


class _Slow(Progress):
    """Drawn when asked to, by a clock of which a second goes by at every look."""

    made: list[_Slow] = []

    def __init__(self, *columns: object, **options: object) -> None:
        clock = itertools.count()
        super().__init__(*columns, get_time=lambda: float(next(clock)), auto_refresh=False, **options)
        self.made.append(self)

    def line(self) -> str:
        screen = Console(file=io.StringIO(), width=80)
        screen.print(self.get_renderable())
        return screen.file.getvalue().rstrip()


def test_a_terminal_shows_steps_rate_and_time_left(terminal, monkeypatch):
    monkeypatch.setattr(shown, "Progress", _Slow)
    with shown.progress("m.onnx") as report_progress:
        line = _Slow.made[-1].line
        report_progress("reading")
        assert re.fullmatch(r". m\.onnx: reading +0:\d\d", line())
        for i in range(20):
            report_progress("comparing", i, 45)
        assert re.fullmatch(r". m\.onnx: comparing +19/45, [0-9.]+/s, \d+:\d\d left, \d:\d\d", line())
        report_progress("comparing the rest", 1, 4)
        assert "1/4" in line()
        assert "45" not in line()
        report_progress("writing")
        assert re.fullmatch(r". m\.onnx: writing +\d:\d\d", line())
        report_progress("a text that is much too long " * 9, 3, 7)
        found = line()
        assert len(found.splitlines()) == 1
        assert cell_len(found) <= 80
        assert "3/7" in found


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(shown, "progress_console", lambda: Console(file=stream))
    with shown.progress("m.onnx") as report_progress:
        report_progress("comparing", 3, 45)
    assert stream.getvalue() == ""


def test_the_measuring_child_says_how_far_it_is(digits, monkeypatch, capsys):
    job = measure.Job(str(digits), 1, "normal", 5, {}, True)
    said = Heard()
    assert measure.measure_apart(job, said).min_ms > 0
    assert said[0] == ("first run", 0, 0)
    monkeypatch.setattr(measure, "_SELDOM_S", -1.0)
    measure.main(json.dumps(asdict(job)))
    *steps, row = capsys.readouterr().out.splitlines()
    assert json.loads(row)["min_ms"] > 0
    told = [json.loads(line.removeprefix("step ")) for line in steps]
    assert [t for t in told if t[0] == "measuring"] == [["measuring", i, 5] for i in range(5)]
