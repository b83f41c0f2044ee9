"""The page of ``mnn bench --html``: whole, safe with any names, alike for equal profiles; nothing is loaded."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from MNN.backends.cpu.measuring import machine
from MNN.backends.cpu.measuring.machine import Machine, Rates
from MNN.backends.cpu.measuring.trace import Span
from MNN.cache.entries import Cache
from MNN.cli.measuring.measure import Job
from MNN.cli.report import render
from MNN.cli.report.markup import nice_ticks, palette, si, tag
from MNN.formatting import nbytes
from MNN.runtime.profile.profiler import Block, CommandProfile, Profile

RATES = Rates(1, {"f32": 100.0, "bf16": 200.0}, {"L1": 200.0, "L2": 100.0, "L3": 50.0, "DRAM": 20.0})
MACHINE = Machine("A <b>chip</b>", "avx2", ("avx2",), 2, {"L1": 1 << 15, "L2": 1 << 20}, RATES, RATES, 40.0, 0.5)
JOB = Job("models/<img src=x onerror=alert(1)>.onnx", 2, "normal", 5, {}, True)
EVIL = "Convolution '</script><script>alert(1)</script>'"
VOID = ("meta", "input")


def command(number: int, **changes: object) -> CommandProfile:
    found = CommandProfile(
        number=number, stage=0, origin=EVIL, operator="Convolution", kernel="contract", detail="mr=8 nv=3",
        min_ns=1000.0 * (number + 1), median_ns=2000.0, share=0.25, flops=50_000, bytes=4_000, exact=True, blocks=4,
        threads=2, arithmetic="f32", levels={"L2": 4000}, bound_ns=500.0, bound_by="f32", signature="conv <1>",
        algorithm="implicit GEMM", reason="only way", rejected=(),
    )  # fmt: skip
    return dataclasses.replace(found, **changes)


PROFILE = Profile(
    threads=2, precision="normal", runs=5,
    commands=[command(0), command(1, kernel="map", flops=0, bound_ns=None, signature="", algorithm=""), command(2)],
    sum_ns=6000.0, native_ns=6100.0, api_ns=7000.0, api_median_ns=7500.0, arena_bytes=(4096,),
    blocks=[Block(0, 0, 2048, 0, 1, EVIL), Block(0, 2048, 2048, 1, 2, "")],
    spans=[
        Span(0, 0, 0, 500), Span(0, 0, 510, 900), Span(0, 1, 100, 950), Span(1, 0, 1000, 3000), Span(2, 1, 3000, 6000),
    ],
)  # fmt: skip


class Checker(HTMLParser):
    """Every element is closed in order; collects what is inside."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def test_page_is_whole_and_loads_nothing():
    page = render(JOB, PROFILE, MACHINE)
    seen = checked(page).seen
    assert [a["id"] for t, a in seen if t == "section"] == [
        "timeline", "roofline", "shares", "commands", "memory", "algorithms", "machine",
    ]  # fmt: skip
    for name, attributes in seen:
        assert name not in ("link", "img", "iframe")
        assert "src" not in attributes
        assert "href" not in attributes
        assert not any(a.startswith("on") for a in attributes)
    assert not re.search(r"https?://|@import|url\(", page)
    assert len([1 for t, _ in seen if t == "script"]) == 2


def test_names_cannot_become_markup():
    page = render(JOB, PROFILE, MACHINE)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<b>chip" not in page
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["0"][0] == f"0: {EVIL}"


def test_drawings_show_every_command():
    seen = checked(render(JOB, PROFILE, MACHINE)).seen
    dots = [a for t, a in seen if t == "circle"]
    assert sorted(a["data-c"] for a in dots) == ["0", "2"]
    boxes = [a for t, a in seen if t == "rect" and "data-c" in a and "data-note" not in a]
    assert [a["data-c"] for a in boxes] == ["0", "0", "1", "2"]  # two near chunks of one thread are one box
    blocks = [a for t, a in seen if t == "rect" and "data-note" in a]
    assert [a["height"] for a in blocks] == ["50.000%", "50.000%"]
    rows = [a for t, a in seen if t == "table" and a.get("id") == "kernels"]
    assert len(rows) == 1


def test_without_trace_flops_and_memory():
    bare = dataclasses.replace(
        PROFILE, spans=[], commands=[command(0, flops=0, kernel="host x", bytes=0)], arena_bytes=(0,), blocks=[]
    )
    page = render(JOB, bare, MACHINE)
    checked(page)
    assert "one after the other" in page
    assert "multiplies and adds" in page
    assert "no working memory" in page


def test_equal_profiles_give_equal_pages():
    assert render(JOB, PROFILE, MACHINE) == render(JOB, PROFILE, MACHINE)


def test_small_pieces():
    assert nice_ticks(10, 5) == [0, 2, 4, 6, 8, 10]
    assert nice_ticks(0) == [0]
    assert (nbytes(12), nbytes(4096), nbytes(3.2e6)) == ("12 B", "4.1 kB", "3.2 MB")
    assert (si(0), si(0.123456), si(12345)) == ("0", "0.123", "12,345")
    assert tag("a", "x", class_='"<', data_x=1, y=None) == '<a class="&quot;&lt;" data-x="1">x</a>'
    assert max(palette(map(str, range(30))).values()) == 7


def test_command_writes_it(mnn, digits, tmp_path, monkeypatch):
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(Cache, "_off_everywhere", False)
    monkeypatch.setattr(machine, "measure_machine", lambda *_: MACHINE)
    monkeypatch.setattr("MNN.cli.measuring.machine.measure_machine", lambda *_: MACHINE)
    result = mnn("bench", digits, "--html", "out.html", "--runs", 2, "--threads", 2)
    assert result.code == 0, result
    assert "wrote out.html" in result.out
    page = Path("out.html").read_text(encoding="utf-8")
    checked(page)
    assert "thread 0" in page
    assert "digits.onnx" in page


@pytest.mark.parametrize("arguments", [["--threads", "1,2"], ["--precision", "high,normal"]])
def test_one_setting_at_a_time(refused, digits, arguments):
    assert "--html takes one model with one setting" in refused("bench", digits, "--html", "x.html", *arguments)
