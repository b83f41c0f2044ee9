from __future__ import annotations

import threading
import time
import timeit
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from MNN.backends.cpu.native_loop import pool
from MNN.backends.cpu.native_loop.native import BoundBuffer, Command, CopiedBuffer, NativeProgram, RunContext
from MNN.errors import MNNError, RunError
from tests.backends.cpu.native_loop.natives import address

_KEEP: list[NDArray[np.int64]] = []  # commands hold only addresses


def counting(blocks: int, grain: int, turns: int = 1) -> tuple[Command, NDArray[np.int64]]:
    """A command that adds 1 to each of ``blocks`` words, and the words (with one more that must stay 0)."""
    out = np.zeros(blocks + 1, np.int64)
    _KEEP.append(out)
    return Command(address("count"), [out.ctypes.data, turns], blocks, grain), out


def counters(program: NativeProgram, threads: int) -> list[int]:
    """How many blocks each thread has done, from the scratch memory of :func:`counting` commands."""
    return [int(program._scratch.view(np.int64)[i * program._stride // 8]) for i in range(threads)]


@pytest.fixture
def rng() -> Iterator[np.random.Generator]:
    return np.random.default_rng(20240607)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_every_block_runs_once(workers: str, rng: np.random.Generator, threads: int) -> None:
    made = [counting(int(rng.integers(0, 300)), int(rng.integers(1, 40)), int(rng.integers(1, 50))) for _ in range(40)]
    program = NativeProgram([command for command, _ in made], scratch_bytes=16)
    runs = 50
    for _ in range(runs):
        program.run(threads)
    for _, out in made:
        assert (out[:-1] == runs).all()
        assert out[-1] == 0
    program._scratch[...] = 0
    program.run(threads)
    assert sum(counters(program, threads)) == sum(len(out) - 1 for _, out in made)


def test_workers_help(workers: str) -> None:
    command, _ = counting(200, 1, turns=200_000)  # long enough for a worker to wake on a busy machine
    program = NativeProgram([command], scratch_bytes=16)
    program._prepare(2)
    for _ in range(20):
        program._scratch[...] = 0
        program.run(2)
        own, other = counters(program, 2)
        assert own + other == 200
        if other:
            break
    else:
        pytest.fail("the worker never took a block")


def test_commands_see_what_earlier_commands_wrote(workers: str) -> None:
    command, out = counting(64, 1)
    seen: list[bool] = []

    def check(args: NDArray[np.int64], begin: int, end: int) -> None:
        seen.append(bool((out[:-1] == len(seen) + 1).all()))

    rows: list[Command] = [c for _ in range(50) for c in (command, Command(check, [], 1, 1))]
    NativeProgram(rows, scratch_bytes=16).run(3)
    assert len(seen) == 50
    assert all(seen)


def test_only_as_many_threads_as_asked(workers: str) -> None:
    command, _ = counting(100, 1, turns=20_000)
    program = NativeProgram([command], scratch_bytes=16)
    program.run(4)
    program._scratch[...] = 0
    for _ in range(10):
        program.run(2)
    assert counters(program, 4)[2:] == [0, 0]


def test_one_thread_makes_no_pool(workers: str) -> None:
    command, out = counting(100, 1)
    NativeProgram([command], scratch_bytes=16).run(1)
    serial, _ = counting(5, 5)
    NativeProgram([serial], scratch_bytes=16).run(4)
    assert (out[:-1] == 1).all()
    assert pool._STATE.pool is None


def test_four_callers_at_once(workers: str, rng: np.random.Generator) -> None:
    programs = []
    for _ in range(4):
        made = [counting(int(rng.integers(1, 100)), int(rng.integers(1, 10)), 20) for _ in range(20)]
        programs.append((NativeProgram([command for command, _ in made], scratch_bytes=16), [out for _, out in made]))
    errors: list[BaseException] = []

    def work(program: NativeProgram, threads: int) -> None:
        try:
            for _ in range(100):
                program.run(threads)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    callers = [threading.Thread(target=work, args=(p, 2 + i % 3)) for i, (p, _) in enumerate(programs)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive(), "a caller hangs"
    assert not errors
    for _, outs in programs:
        assert all((out[:-1] == 100).all() for out in outs)


def test_one_program_from_several_threads(workers: str) -> None:
    command, out = counting(100, 3)
    program = NativeProgram([command], scratch_bytes=16)
    callers = [threading.Thread(target=lambda: [program.run(2) for _ in range(200)]) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    assert (out[:-1] == 600).all()


def test_a_command_may_run_another_program(workers: str) -> None:
    command, out = counting(50, 2)
    inner = NativeProgram([command], scratch_bytes=16)

    def call(args: NDArray[np.int64], begin: int, end: int) -> None:
        for _ in range(begin, end):
            inner.run(2)

    outer = NativeProgram([Command(call, [], 8, 1), Command(call, [], 3, 3)])  # the first on workers too
    outer.run(3)
    assert (out[:-1] == 11).all()


def test_a_program_cannot_run_itself() -> None:
    programs: list[NativeProgram] = []
    programs.append(NativeProgram([Command(lambda args, begin, end: programs[0].run(), [], 1, 1)]))
    with pytest.raises(RunError, match="from within"):
        programs[0].run()
    with pytest.raises(RunError, match="from within"):  # the lock was released
        programs[0].run()


def test_host_commands_get_live_arguments() -> None:
    seen: list[tuple[list[int], int, int]] = []
    program = NativeProgram([Command(lambda args, b, e: seen.append((args.tolist(), b, e)), [3, -4], 7, 7)])
    program.run()
    program.args(0)[1] = 1 << 60
    program.set_blocks(0, 2, 1)
    program.run()
    program.set_blocks(0, 0, 1)
    program.run()
    assert seen == [([3, -4], 0, 7), ([3, 1 << 60], 0, 2)]


class OopsError(Exception):
    pass


@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_stops_the_run_and_comes_out(workers: str, threads: int) -> None:
    before, out_before = counting(40, 1)
    after, out_after = counting(40, 1)
    fail = [True]

    def maybe(args: NDArray[np.int64], begin: int, end: int) -> None:
        if fail[0]:
            raise OopsError(f"{begin}")

    program = NativeProgram([before, Command(maybe, [], 4, 1), after], scratch_bytes=16)
    for method in (program.run, program.profile, lambda t: program.run_range(1, 3, t)):
        with pytest.raises(OopsError):
            method(threads)
    assert (out_before[:-1] == 2).all()
    assert not out_after.any()
    fail[0] = False
    program.run(threads)
    assert (out_after[:-1] == 1).all()


def test_keyboard_interrupt_in_a_command_comes_out() -> None:
    def interrupted(args: NDArray[np.int64], begin: int, end: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NativeProgram([Command(interrupted, [], 1, 1)]).run()


@pytest.mark.parametrize("last", [True, False])
def test_an_error_in_the_data_names_the_command(last: bool) -> None:
    context = RunContext()
    command, out = counting(10, 10)
    rows = [Command(address("fail"), [context.error_address], 1, 1, "node 'pick' (Gather)")]
    program = NativeProgram(rows if last else [*rows, command], scratch_bytes=16, context=context)
    for _ in range(2):
        with pytest.raises(RunError, match=r"node 'pick' \(Gather\): an index in the data is out of range"):
            program.run()
    assert not out.any()
    if not last:
        program.run_range(1, 2)
        assert (out[:-1] == 1).all()


def test_ranges_step_through_a_program(workers: str) -> None:
    made = [counting(30, 4) for _ in range(5)]
    program = NativeProgram([command for command, _ in made], scratch_bytes=16)
    program.run_range(1, 3, 2)
    assert [int(out[0]) for _, out in made] == [0, 1, 1, 0, 0]
    program.run_range(2, 2)
    program.run(2)
    assert [int(out[0]) for _, out in made] == [1, 2, 2, 1, 1]
    for first, last in ((-1, 2), (3, 2), (0, 6)):
        with pytest.raises(ValueError, match="outside"):
            program.run_range(first, last)


def test_what_is_lent_is_so_for_one_run() -> None:
    own, other, block = np.zeros(4, np.int64), np.zeros(5, np.int64), np.zeros(2, np.int64)
    block[1] = other.ctypes.data  # the slot, and what it may point to
    program = NativeProgram([Command(address("count"), [own.ctypes.data, 1], 3, 3)], scratch_bytes=16)
    slot = block.ctypes.data
    program.bind_io([BoundBuffer(program.args(0).ctypes.data, slot, 8, own.ctypes.data)])
    program.run()
    block[0] = slot + 8
    program.run()
    assert (block[0], program.args(0)[0]) == (0, own.ctypes.data)
    program.run()
    assert own.tolist() == [2, 2, 2, 0]
    assert other.tolist() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("nbytes", [1, 63, 64, 200])
def test_what_is_carried_is_so_once(nbytes: int) -> None:
    inside, before, behind = (np.zeros(200, np.uint8) for _ in range(3))
    before[:] = np.arange(200)
    cells = np.array([0, 0, before.ctypes.data, behind.ctypes.data])  # two slots, and what they may point to
    start = cells.ctypes.data
    program = NativeProgram([Command(lambda args, b, e: seen.append(inside.copy()), [], 1, 1)])
    taken, given = (CopiedBuffer(inside.ctypes.data, slot, nbytes) for slot in (start, start + 8))
    program.bind_io([], [taken], [given])
    seen: list[NDArray[np.uint8]] = []
    program.run()
    assert not seen[0].any()
    assert not behind.any()
    cells[:2] = start + 16, start + 24
    program.run()
    want = np.where(np.arange(200) < nbytes, before, 0)
    for found in (seen[1], behind):
        np.testing.assert_array_equal(found, want)
    assert cells[:2].tolist() == [0, 0]
    before[:] = behind[:] = 0
    program.run()
    np.testing.assert_array_equal(seen[2], want)
    assert not behind.any()


@pytest.mark.parametrize(
    ("planes", "rows", "nbytes"), [(1, 3, 5), (3, 1, 64), (2, 3, 70), (0, 2, 8), (2, 0, 8), (3, 2, 0)]
)
def test_rows_lie_apart_in_the_arena_and_side_by_side_at_the_callers(planes: int, rows: int, nbytes: int) -> None:
    inside, before = np.zeros((4, 4, 100), np.uint8), np.arange(1, 1 + planes * rows * nbytes).astype(np.uint8)
    behind = np.zeros_like(before)
    cells = np.array([0, 0, before.ctypes.data, behind.ctypes.data])
    slots = cells.ctypes.data, cells.ctypes.data + 8
    program = NativeProgram([Command(lambda args, b, e: None, [], 1, 1)])
    strides = inside.strides[1], inside.strides[0]
    taken, given = (CopiedBuffer(inside.ctypes.data, slot, nbytes, rows, planes, *strides) for slot in slots)
    program.bind_io([], [taken], [given])
    cells[:2] = slots[0] + 16, slots[0] + 24
    program.run()
    np.testing.assert_array_equal(inside[:planes, :rows, :nbytes].reshape(-1), before)
    assert inside.any(-1).sum() == planes * rows * (nbytes > 0)
    np.testing.assert_array_equal(behind, before)


def test_an_empty_program_runs() -> None:
    NativeProgram([]).run(2)
    assert NativeProgram([]).profile().shape == (0,)


@pytest.mark.parametrize("threads", [0, -1, 257, 10**6])
def test_nonsense_thread_counts_are_refused(threads: int) -> None:
    with pytest.raises(MNNError, match="number of threads"):
        NativeProgram([counting(5, 1)[0]], scratch_bytes=16).run(threads)


@pytest.mark.parametrize("grain", [1, 1000, 1 << 37])
@pytest.mark.parametrize("blocks", [(1 << 16) - 2, (1 << 16) - 1, 1 << 16, (1 << 17) - 1, 1 << 40])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_huge_block_counts_are_not_lost(workers: str, threads: int, blocks: int, grain: int) -> None:
    ranges: list[tuple[int, int]] = []
    program = NativeProgram([Command(lambda args, b, e: ranges.append((b, e)), [], blocks, grain)])
    program.run(threads)
    begins, ends = zip(*sorted(ranges), strict=True)
    assert begins == (0, *ends[:-1])
    assert ends[-1] == blocks


def test_claims_get_smaller(workers: str) -> None:
    sizes: list[int] = []
    NativeProgram([Command(lambda args, b, e: sizes.append(e - b), [], 1024, 16)]).run(2)
    assert sum(sizes) == 1024
    assert max(sizes) <= 256  # half of a share
    assert min(sizes) == 16


@pytest.mark.parametrize("threads", [1, 2])
def test_profile_tells_long_commands_from_short(workers: str, threads: int) -> None:
    long, out = counting(1, 1, turns=2_000_000)
    short, _ = counting(1, 1, turns=1)
    program = NativeProgram([short, long, short], scratch_bytes=16)
    start = time.perf_counter_ns()
    times = program.profile(threads)
    wall = time.perf_counter_ns() - start
    assert times.shape == (3,)
    assert (times >= 0).all()
    assert times[1] > 100e3  # two million stores
    assert times[1] > times[0]
    assert times.sum() < 1.2 * wall
    assert out[0] == 1


def test_profile_without_a_native_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    long, out = counting(1, 1, turns=500_000)
    program = NativeProgram([long, counting(1, 1)[0]], scratch_bytes=16)
    monkeypatch.setattr(program, "_loop", dataclasses.replace(program._loop, clock=False))
    times = program.profile()
    assert times.shape == (2,)
    assert times[0] > 50e3
    assert out[0] == 1


def test_latency_is_printed(workers: str, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = NativeProgram([counting(1, 1)[0]], scratch_bytes=16)
    shared = NativeProgram([counting(8, 4)[0]] * 100, scratch_bytes=16)
    shared.run(2)
    call = min(timeit.repeat(lambda: tiny.run(1), number=1000, repeat=5)) / 1000
    parfor = min(timeit.repeat(lambda: shared.run(2), number=10, repeat=20)) / 1000
    with capsys.disabled():
        print(f"\n[{workers}] empty run {call * 1e6:.2f} us, shared command {parfor * 1e6:.2f} us")


@pytest.mark.parametrize("threads", [1, 3])
def test_subnormal_numbers_are_zero_in_kernels_only(threads: int) -> None:
    """In every thread that runs kernels; Python, also when it is called back, keeps its own arithmetic."""
    smallest = np.finfo(np.float32).tiny
    numbers = np.full(4096, smallest)
    seen = []

    def host(args: NDArray[np.int64], begin: int, end: int) -> None:
        seen.append(np.full(3, smallest) / np.float32(2))

    commands = [Command(address("halve"), [numbers.ctypes.data], 4096, 1), Command(host, [7], 1, 1)]
    NativeProgram(commands).run(threads)
    assert not numbers.any()
    assert (seen[0] > 0).all()
    assert np.full(3, smallest)[0] / np.float32(2) > 0
