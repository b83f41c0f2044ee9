"""The page on AArch64 shows the inner loops that are generated now."""

from __future__ import annotations

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from benchmarks.aarch64 import A55, A76, Case, Loop, cases, inner_loop

PAGE = (Path(__file__).parents[2] / "docs" / "aarch64.md").read_text(encoding="utf-8")
ALL = list(cases())


@pytest.fixture(scope="module")
def loops() -> dict[str, Loop]:
    """Generated in a process of their own, as by the benchmark: LLVM's options for x86 would hold for them here."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return dict(zip([case.name for case in ALL], pool.map(inner_loop, ALL), strict=True))


@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name)
def test_the_table_is_that_of_the_generated_loops(case: Case, loops: dict[str, Loop]) -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {case.name} |"))
    loop = loops[case.name]
    assert line.startswith(loop.cells(case.name)), "run python -m benchmarks.aarch64 and update docs/aarch64.md"
    assert loop.spills <= loop.products // 10
    if case.cores == (A76, A55) and not case.name.startswith("i8"):
        assert all(int(share) >= 85 for share in re.findall(r"(\d+)%", line))


def test_the_table_shows_nothing_else() -> None:
    assert sum("%" in line and line.startswith("| ") for line in PAGE.splitlines()) == len(ALL)
