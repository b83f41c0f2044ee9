from __future__ import annotations

import pathlib

import pytest

from MNN.backends.cpu.codegen import toolchain
from MNN.backends.cpu.codegen.library import Library
from MNN.backends.cpu.native_loop import functions as loop
from MNN.backends.cpu.native_loop.layout import FRAME, FRAME_BYTES, LINE, POOL, SLOT, SLOT_BYTES
from MNN.backends.cpu.native_loop.loop_ir import PARTS, LoopSpec
from MNN.backends.cpu.targets.base import host_target, named_target, target_names
from MNN.cache.entries import Cache
from MNN.errors import UnsupportedError


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", target_names())
def test_every_target_has_the_loop(name: str, part: str) -> None:
    target = named_target(name)
    assert len(Library(target).object(LoopSpec(part))[1]) > 200
    text = toolchain.assembly(LoopSpec(part).emit(target), target)
    assert ("pause" if target.family == "x86" else "isb") in text
    if target.family == "aarch64":
        assert "pmccntr" not in text.lower()  # traps in user code


def test_a_second_process_compiles_nothing(tmp_path: pathlib.Path) -> None:
    cache = Cache(tmp_path)
    specs = [LoopSpec(part) for part in PARTS]
    first, second = Library(host_target(), cache), Library(host_target(), cache)
    objects = [first.object(spec) for spec in specs]
    assert first.compiled == len(PARTS)
    assert [second.object(spec) for spec in specs] == objects
    assert second.compiled == 0


def test_keys_differ_by_part() -> None:
    assert len({LoopSpec(part).key() for part in PARTS}) == len(PARTS)


def test_unknown_processors_are_refused() -> None:
    import dataclasses

    with pytest.raises(UnsupportedError, match="riscv"):
        LoopSpec("run").emit(dataclasses.replace(host_target(), family="riscv"))


def test_words_do_not_overlap() -> None:
    for words in (POOL, SLOT, FRAME):
        assert len(set(words.values())) == len(words)
        assert all(offset % 8 == 0 for offset in words.values())
    assert max(FRAME.values()) + 8 <= FRAME_BYTES
    # Words that workers write are alone on their lines; the description of a command is in one line of the cache.
    for name in ("busy", "done", "active"):
        assert [n for n in POOL if POOL[n] // LINE == POOL[name] // LINE] == [name]
    assert [n for n in SLOT if SLOT[n] // LINE == SLOT["share"] // LINE] == ["share"]
    assert SLOT["share"] < SLOT_BYTES
    assert [n for n in POOL if POOL[n] < LINE] == [n for n in POOL if POOL[n] < 64]


def test_the_clock_agrees_with_the_systems() -> None:
    if not loop.loop_functions().clock:
        pytest.skip("no native clock on this processor")
    first = loop.clock_tick_ns()
    loop.clock_tick_ns.cache_clear()
    assert loop.clock_tick_ns() == pytest.approx(first, rel=0.02)
    assert 0.05 < first < 1000
