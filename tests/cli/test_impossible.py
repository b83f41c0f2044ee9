"""Numbers that cannot be are measured again, and not shown when they stay."""

from __future__ import annotations

import dataclasses

import pytest

from MNN.backends.cpu.measuring import machine as machines
from MNN.backends.cpu.measuring.machine import Machine, Rates, higher
from MNN.backends.cpu.targets.base import host_target
from MNN.cli import bench
from MNN.cli.measuring import measure
from MNN.cli.measuring import profile as bench_profile
from MNN.cli.measuring.profile import roof
from MNN.runtime.profile.profiler import CommandProfile

COMMAND = CommandProfile(
    number=0, stage=0, origin="Convolution 'c'", operator="Convolution", kernel="contract", detail="", min_ns=1e5,
    median_ns=1e5, share=1.0, flops=10**6, bytes=10, exact=True, blocks=1, threads=1, arithmetic="f32", levels={},
    bound_ns=8e4, bound_by="f32", signature="", algorithm="implicit GEMM", reason="", rejected=(),
)  # fmt: skip


def test_timings_are_taken_again_until_the_whole_takes_longer_than_its_part():
    pairs = iter([(1.0, 2.0), (1.1, 2.0), (1.0, 0.9), (1.2, 1.5), (9.0, 9.0)])
    whole, inner = measure.timings(lambda: next(pairs), 2)
    assert (whole, inner) == ([1.0, 1.1, 1.0, 1.2], [2.0, 2.0, 0.9, 1.5])
    assert measure.overhead(whole, inner) == pytest.approx(1e5)


def test_an_overhead_that_stays_impossible_is_not_shown(capsys):
    calls = []

    def timed():
        calls.append(1)
        return 1.0, 1.5

    whole, inner = measure.timings(timed, 3)
    assert len(calls) == 3 * measure.AGAIN
    assert measure.overhead(whole, inner) is None
    numbers = dict.fromkeys([f.name for f in dataclasses.fields(measure.Row)], 1.0)
    bench._show([measure.Row(**{**numbers, "model": "m", "overhead_us": None, "error": None, "batch": None})])
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("m "))
    assert row.split()[6] == "-"


def test_shares_of_the_roof_above_one_are_not_shown():
    assert COMMAND.roofline == pytest.approx(0.8)
    assert "80%" in roof(COMMAND)
    fast = dataclasses.replace(COMMAND, bound_ns=1.25e5)
    assert fast.roofline is None
    assert roof(fast) == "-"


def test_what_must_have_been_measured_wrongly():
    fast = dataclasses.replace(COMMAND, bound_ns=1.25e5)
    assert fast.impossible
    assert not COMMAND.impossible
    for other in (
        {"algorithm": "Winograd F(2x2,3x3)"},  # does with fewer operations than are counted
        {"algorithm": "Strassen"},
        {"kernel": "chain winograd + frame"},
        {"min_ns": 100.0, "bound_ns": 125.0},  # less than clocks are worth
        {"bound_ns": 1.01e5},
    ):
        assert not dataclasses.replace(fast, **other).impossible


def _machine(rate: float) -> Machine:
    rates = Rates(1, {"f32": rate}, {"L1": 100.0, "L2": 50.0, "DRAM": 10.0})
    return Machine("m", "avx2", (), 1, {"L1": 1 << 15, "L2": 1 << 20}, rates, rates, 0.0, 0.0)


def test_the_higher_of_two_measurements_counts_and_is_remembered(tmp_path, monkeypatch):
    from MNN.cache.entries import Cache

    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Cache, "_off_everywhere", False)
    found = higher(host_target(), _machine(100.0), _machine(80.0))
    assert found.one.compute["f32"] == found.all.compute["f32"] == 100.0
    assert machines.known_machine(host_target()) == found


def test_a_machine_that_was_measured_too_low_is_measured_again(mnn, digits, tmp_path, monkeypatch):
    """Remembered as one that hardly computes anything: every command beats it."""
    low, asked = _machine(1e-6), []
    low = dataclasses.replace(low, one=Rates(1, {"f32": 1e-6}, dict.fromkeys(("L1", "L2", "DRAM"), 1e9)))

    def again(before):
        asked.append(before)
        return _machine(1e9)

    monkeypatch.setattr(bench_profile, "machine_for_profiles", lambda cache: low)
    monkeypatch.setattr(bench_profile, "measured_again", again)
    monkeypatch.setattr("MNN.runtime.profile.profiler._SURE_NS", 0)
    result = mnn("bench", digits, "--profile", "--runs", 2)
    assert result.code == 0, result
    assert asked == [low]
    shares = [int(n) for line in result.out.splitlines() for n in _percent(line)]
    assert all(n <= 100 for n in shares)


def _percent(line: str) -> list[str]:
    import re

    return re.findall(r"(\d+)% ", line)
