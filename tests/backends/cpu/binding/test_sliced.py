"""Batches in slices: every thread computes some of them alone, in memory of its own."""

from __future__ import annotations

import pathlib
import time

import numpy as np
import pytest

import MNN
from MNN.backends.base.program import Buffer, Ref, Slices
from MNN.backends.cpu import batch_slices as slices
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.binding.direct import Direct
from MNN.backends.cpu.binding.sliced import Move, SlicedProgram
from MNN.backends.cpu.native_loop.native import Command, NativeProgram, RunContext
from MNN.backends.cpu.native_loop.pool import usable_threads
from MNN.errors import RunError
from MNN.frontends.mnn import write_mnn
from MNN.runtime.config import Config
from MNN.runtime.profile.profiler import profile, touched_by
from MNN.runtime.session import Session
from MNN.runtime.storage.background import finish
from tests.backends.cpu.native_loop.natives import address
from tests.hostile.checked import CheckedProgram
from tests.runtime.models import convolutions

BATCH = 12
DATA = np.random.default_rng(3).standard_normal((BATCH, 3, 40, 40)).astype(np.float32)


@pytest.fixture(params=[1, 2, 4])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Pictures of a slice."""
    return cut(monkeypatch, request.param)


@pytest.fixture
def in_twos(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, 2)


def cut(monkeypatch: pytest.MonkeyPatch, size: int) -> int:
    monkeypatch.setattr(slices, "best_size", lambda prims, batch, *rest: min(size, batch))
    return size


def one_by_one() -> np.ndarray:
    session = Session(convolutions(), Config(cache=False))
    return np.concatenate([session.run({"x": DATA[i : i + 1]})["y"] for i in range(BATCH)])


def bound_of(session: Session) -> BoundProgram:
    (plan,) = session.plans_used()
    assert isinstance(plan.bound, BoundProgram)
    return plan.bound


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_every_picture_is_computed(threads: int, size: int, workers: str) -> None:
    session = Session(convolutions(), Config(threads=threads, cache=False))
    want = one_by_one()
    for data in (DATA, DATA[::-1], DATA.copy(), DATA.astype(np.float64).astype(np.float32)):
        expected = want[::-1] if data.base is DATA else want
        np.testing.assert_allclose(session.run({"x": data})["y"], expected, atol=1e-5 * np.abs(want).max())
    found = bound_of(session).program
    assert found.slices is not None
    assert (found.slices.count, found.slices.hands) == (BATCH // size, min(usable_threads(threads), BATCH // size))
    assert found.arena_bytes >= found.slices.hands * found.slices.nbytes + DATA.nbytes


@pytest.mark.usefixtures("in_twos")
def test_kernels_stay_within_their_slices() -> None:
    session = Session(convolutions(), Config(threads=2, cache=False))
    want = session.run({"x": DATA})["y"]
    bound = bound_of(session)
    checked = CheckedProgram(bound.program, bound.library, 2)
    np.testing.assert_array_equal(checked.run([DATA], 2)[0], want)


@pytest.mark.usefixtures("in_twos")
def test_inputs_are_read_in_place_and_not_looked_at_afterwards() -> None:
    session = Session(convolutions(), Config(threads=2, cache=False))
    given = DATA.copy()
    want = session.run({"x": given})["y"]
    bound = bound_of(session)
    assert isinstance(bound._direct_inputs[0], Direct)
    bound.run([given + 1], 2)
    np.testing.assert_array_equal(bound._inputs[0], given)  # the arena still holds what came first
    del given
    bound.native.run(2)
    np.testing.assert_array_equal(bound.read()[0], want)


def test_the_first_slice_alone_uses_the_arena(size: int) -> None:
    session = Session(convolutions(), Config(cache=False))
    want = session.run({"x": DATA})["y"]
    bound = bound_of(session)
    bound.run([DATA + 1], 1)  # in place
    bound._outputs[0][...] = 0
    assert isinstance(bound.native, SlicedProgram)
    bound.native.first().run()
    np.testing.assert_array_equal(bound.read()[0][:size], want[:size])
    assert not bound.read()[0][size:].any()


@pytest.mark.usefixtures("in_twos")
@pytest.mark.parametrize("threads", [1, 2])
def test_profiles_count_every_slice_once(threads: int) -> None:
    session = Session(convolutions(), Config(threads=threads, cache=False))
    found = profile(session, {"x": DATA}, 3, traced=True)
    program = bound_of(session).program
    assert len(found.commands) == len(program.commands)
    assert sum(c.flops for c in found.commands) == program.flops
    assert sum(c.blocks for c in found.commands) == program.times * sum(c.blocks for c in program.commands)
    assert all(0 < c.min_ns < 1e9 for c in found.commands)
    assert {s.thread for s in found.spans} == {0}
    one = Session(convolutions(), Config(cache=False))
    one.run({"x": DATA[:1]})
    assert bound_of(one).program.flops * BATCH == program.flops


@pytest.mark.usefixtures("in_twos")
def test_where_a_kernel_does_not_say_how_much_a_slice_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(convolutions(), Config(cache=False))
    session.run({"x": DATA})
    program = bound_of(session).program
    reads = next(c for c in program.commands if program.inputs[0].place.buffer in c.buffers())
    monkeypatch.setattr(type(reads.kernel), "traffic", lambda *args: None)
    (access,) = (a for a in touched_by(reads, 0, program.slice_bytes())[0] if a.nbytes == DATA.nbytes // 6)
    assert isinstance(reads.args[access.slot], Ref)
    assert reads.args[access.slot].buffer is program.inputs[0].place.buffer  # type: ignore[union-attr]


@pytest.mark.usefixtures("in_twos")
def test_a_profile_leaves_no_clocks_behind() -> None:
    session = Session(convolutions(), Config(cache=False))
    want = session.run({"x": DATA})["y"]
    native = bound_of(session).native
    times = native.profile(1)
    assert times.shape == (len(native),)
    np.testing.assert_array_equal(session.run({"x": DATA})["y"], want)
    assert isinstance(native, SlicedProgram)
    assert not native.first().context.words[7]


@pytest.mark.usefixtures("in_twos")
def test_stored_programs_keep_their_slices(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "m.mnn"
    write_mnn(convolutions(), path)
    time.sleep(0.08)  # old enough to be told from a later one
    found = []
    for _ in range(2):
        model = MNN.load(path, threads=2)
        found.append(model.run({"x": DATA})["y"])
        finish()
    np.testing.assert_array_equal(found[1], found[0])
    last_run = model._last_run
    assert last_run is not None
    assert isinstance(last_run._bound.program.slices, Slices)


def counting(count: int, hands: int) -> tuple[SlicedProgram, list[NativeProgram], np.ndarray]:
    """Adds one to a word per slice, then reports an error; every thread's own program."""
    out, buffer = np.zeros(count, np.int64), Buffer(8 * count)
    made: list[tuple[NativeProgram, list[Move]]] = []
    for _ in range(hands):
        context = RunContext()
        rows = [
            Command(address("count"), [out.ctypes.data, 1000], 1, 1, "node 'first'"),
            Command(address("fail"), [context.error_address], 1, 1, "node 'last'"),
        ]
        program = NativeProgram(rows, scratch_bytes=16, context=context, keep=out)
        made.append((program, [Move(program.args(0).ctypes.data, buffer, out.ctypes.data, 0, 8)]))
    return SlicedProgram(made, count), [program for program, _ in made], out


@pytest.mark.parametrize(("count", "hands", "threads"), [(1, 1, 1), (7, 1, 2), (7, 2, 2), (100, 3, 3), (100, 2, 5)])
def test_every_slice_runs_once_and_errors_name_the_node(count: int, hands: int, threads: int) -> None:
    program, own, out = counting(count, hands)
    for _ in range(2):
        with pytest.raises(RunError, match="node 'last': an index in the data is out of range"):
            program.run(threads)
    assert out.max() <= 2
    assert 2 <= out.sum() <= 2 * hands
    for one in own:
        one.set_blocks(1, 0, 1)
    out[:] = 0
    for turn in range(1, 20):
        program.run(threads)
        assert (out == turn).all()
