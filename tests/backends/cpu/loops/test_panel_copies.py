"""Columns of a matrix that are copied into panels while a program runs: some rows at a time, by one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.amx.tiles import has_tiles
from MNN.backends.cpu.loops.map_nest import MapSpec
from MNN.backends.cpu.targets import host_target
from tests.compiler.checks import check


@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_rows_takes_one_kernel(threads: int) -> None:
    """Matrices of a stack and one alone, of whole panels and cut ones, whose rows are whole eights or not."""
    rng = np.random.default_rng(threads)
    kernels: dict[tuple[int, int], set[MapSpec]] = {}
    for outer, rows, columns in (((), 264, 200), ((), 300, 192), ((), 51, 250), ((2,), 64, 160), ((3,), 35, 170)):
        left = rng.normal(size=(*outer, 900, rows)).astype(np.float32)
        right = rng.normal(size=(*outer, rows, columns)).astype(np.float32)
        program = check(lambda b, x, y: b.matmul(x, y), left, right, threads=threads, precision="high")
        moved = [c for c in program.commands if isinstance(c.kernel, MapSpec) and c.kernel.whole and c.kernel.rank > 2]
        for command in moved:  # rows are read in order, all panels of some of them
            kernels.setdefault((command.kernel.rank, command.kernel.whole), set()).add(command.kernel)
            few, panels = (command.args[f"extent{command.kernel.rank - n}"] for n in (2, 3))
            assert (few, panels) == (8 if rows % 8 == 0 else rows, columns // command.kernel.whole)
    assert kernels or has_tiles(host_target())  # tiles have panels of their own
    assert all(len(same) == 1 for same in kernels.values())  # of panels of as many columns
