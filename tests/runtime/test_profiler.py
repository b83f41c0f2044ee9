"""Profiles: every command once, with bytes and bounds that follow from the model; traces; the model of the caches."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from MNN.backends.cpu.measuring.machine import Machine, Rates
from MNN.errors import RunError
from MNN.runtime.config import Config
from MNN.runtime.profile.profiler import Profile, details, operator_of, profile
from MNN.runtime.profile.roofline import PAGE, Access, Caches, bound, sources
from MNN.runtime.session import Session
from tests.runtime.models import branching, convolutions

RATES = Rates(1, {"f32": 100.0, "bf16": 200.0}, {"L1": 200.0, "L2": 100.0, "DRAM": 20.0})
MACHINE = Machine("p", "avx2", (), 2, {"L1": 8 * PAGE, "L2": 64 * PAGE}, RATES, RATES, 40.0, 0.5)


def profiled(graph, shape, threads=1, machine=MACHINE, traced=False) -> Profile:
    session = Session(graph, Config(threads))
    feeds = {"x": np.random.default_rng(1).standard_normal(shape, np.float32)}
    return profile(session, feeds, 3, machine, traced)


@pytest.mark.usefixtures("without_tiles")
def test_every_command_of_the_program():
    found = profiled(convolutions(), (1, 3, 32, 32))
    assert [c.number for c in found.commands] == list(range(len(found.commands)))
    assert sum(c.share for c in found.commands) == pytest.approx(1)
    for c in found.commands:
        assert 0 <= c.min_ns <= c.median_ns
        assert c.bytes == pytest.approx(sum(c.levels.values()), abs=4)
        assert c.bound_ns is not None
        assert c.bound_by in ("f32", "L1", "L2", "DRAM")
        assert c.exact
    convolution = next(c for c in found.commands if "conv1" in c.origin and c.flops)
    assert convolution.operator.startswith("Convolution")
    assert convolution.kernel == "contract"
    assert convolution.flops == 2 * 32 * 32 * 16 * 3 * 9
    padded, weights, result = 34 * 34 * 3 * 4, 27 * 16 * 4, 32 * 32 * 16 * 4
    assert convolution.bytes == padded + weights + result + 16 * 4
    assert convolution.intensity == convolution.flops / convolution.bytes
    assert found.sum_ns > 0
    assert found.native_ns > 0
    assert found.api_ns <= found.api_median_ns


def test_without_a_machine_there_is_no_bound():
    found = profiled(convolutions(), (1, 3, 16, 16), machine=None)
    assert all(c.bound_ns is None and c.roofline is None and c.levels == {} for c in found.commands)


def test_memory_blocks_lie_in_the_arena_and_do_not_meet():
    found = profiled(convolutions(), (1, 3, 32, 32))
    (arena,) = found.arena_bytes
    assert {b.origin for b in found.blocks} >= {"input"}
    for i, a in enumerate(found.blocks):
        assert 0 <= a.offset <= a.offset + a.nbytes <= arena
        for b in found.blocks[:i]:
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            assert apart or a.last < b.first or b.last < a.first, (a, b)


@pytest.mark.parametrize("threads", [1, 2])
def test_trace_covers_all_commands(threads):
    found = profiled(convolutions(), (1, 3, 64, 64), threads, traced=True)
    assert {s.command for s in found.spans} == {c.number for c in found.commands}
    assert {s.thread for s in found.spans} <= set(range(threads))
    assert min(s.begin_ns for s in found.spans) == 0
    for s in found.spans:
        assert s.begin_ns <= s.end_ns
    for thread in range(threads):
        own = [s for s in found.spans if s.thread == thread]
        assert all(a.end_ns <= b.begin_ns + 1 for a, b in itertools.pairwise(own))


def test_several_stages():
    """A model whose shapes depend on its data runs in two stages; both are profiled, numbered through."""
    found = profiled(branching(), (6, 4))
    assert {c.stage for c in found.commands} == {0, 1}
    assert len(found.arena_bytes) == 2
    assert [c.stage for c in found.commands] == sorted(c.stage for c in found.commands)


def test_nothing_to_profile():
    session = Session(convolutions(), Config(reference=True))
    with pytest.raises(RunError, match="nothing to profile"):
        profile(session, {"x": np.ones((1, 3, 8, 8), np.float32)}, 1)


def test_caches_keep_what_was_used_last():
    caches = Caches({"L1": 2 * PAGE, "L2": 4 * PAGE})
    assert caches.touch(Access("a", 0, PAGE)) == {"DRAM": PAGE}
    assert caches.touch(Access("a", 0, 100)) == {"L1": 100}
    caches.touch(Access("b", 8 * PAGE, 2 * PAGE))
    assert caches.touch(Access("a", 0, PAGE)) == {"L2": PAGE}
    assert caches.touch(Access("c", 32 * PAGE, 3 * PAGE)) == {"DRAM": 3 * PAGE}
    assert caches.touch(Access("b", 8 * PAGE, PAGE)) == {"DRAM": PAGE}
    assert caches.touch(Access("c", 33 * PAGE - 1, 2)) in ({"L1": 2}, {"L1": 1, "L2": 1}, {"L2": 2})


def test_sources_follow_the_inference_before():
    small = [[Access("a", 0, PAGE)], [Access("b", PAGE, PAGE)]]
    assert sources(small, MACHINE, 1) == [{"L1": PAGE}, {"L1": PAGE}]
    large = [[Access("a", 0, 50 * PAGE)], [Access("b", 100 * PAGE, 50 * PAGE)]]
    assert sources(large, MACHINE, 1) == [{"DRAM": 50 * PAGE}, {"DRAM": 50 * PAGE}]
    assert sources(large, MACHINE, 2) == [{"L2": 50 * PAGE}, {"L2": 50 * PAGE}]


def test_bounds():
    assert bound(1000, "f32", {"L1": 200}, RATES) == dataclasses.replace(bound(0, "f32", {}, RATES), ns=10, by="f32")
    assert bound(1000, "bf16", {}, RATES).ns == 5
    assert bound(1000, "int8", {}, RATES).by == "f32 for int8"
    slow = bound(1000, "f32", {"L1": 200, "DRAM": 400}, RATES)
    assert (slow.ns, slow.by) == (21, "DRAM")


def test_names():
    assert operator_of("Convolution 'a/b'") == "Convolution"
    assert operator_of("Convolution 'a' + UnaryOp") == "Convolution + UnaryOp"
    assert operator_of("") == "-"
    from MNN.backends.cpu.loops.transpose import TransposeSpec

    assert details(TransposeSpec(size=4, batch=1)) == "size=4 batch=1"
