"""What follows from open sizes, computed and written by native code: against what evaluates formulas one by one."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.cpu.binding.size_steps import SizeSteps
from MNN.backends.cpu.native_loop.address import address_of
from MNN.backends.cpu.native_loop.functions import loop_functions
from MNN.backends.cpu.native_loop.layout import OPEN, OPENED, STEP
from MNN.ir import symbolic
from MNN.ir.symbolic import evaluate

NAMES = ("a", "b", "c")


def formulas(rng: np.random.Generator, count: int) -> list[int | str]:
    """Random sums, differences, products, quotients rounded down (of negative numbers, too), maxima and minima."""
    made: list[symbolic.Size] = [*NAMES, 1, 7, -5]
    while len(made) < count:
        x, y = (made[i] for i in rng.integers(0, len(made), 2))
        by = int(rng.integers(1, 9))
        of_two = (symbolic.add, symbolic.subtract, symbolic.multiply, symbolic.maximum, symbolic.minimum)
        made += [s for s in (of_two[rng.integers(5)](x, y), symbolic.floor_divide(x, by)) if s is not None]
    return [size for size in made if size is not None]


def test_native_code_computes_sizes() -> None:
    rng = np.random.default_rng(5)
    sizes = formulas(rng, 300)
    steps = SizeSteps(NAMES)
    written = np.zeros(len(sizes), np.int64)
    bases = rng.integers(-99, 99, len(sizes))
    texts = [str(s) if isinstance(s, str) and i % 2 else s for i, s in enumerate(sizes)]  # as they lie on disk
    rows = np.array(
        [
            OPENED.row(word=address_of(written) + 8 * i, value=steps.number_of(size), base=int(bases[i]))
            for i, size in enumerate(texts)
        ],
        np.int64,
    )
    table = np.array(steps.rows, np.int64).reshape(-1, STEP.count)
    values = np.zeros(steps.count, np.int64)
    record = np.array(
        OPEN.row(
            values=address_of(values),
            steps=address_of(table),
            step_count=len(table),
            first=len(NAMES),
            written=address_of(rows),
            written_count=len(rows),
        ),
        np.int64,
    )
    run = loop_functions().open_words()
    for numbers in rng.integers(0, 600, (20, 3)).tolist():
        at = dict(zip(NAMES, numbers, strict=True))
        wanted = [evaluate(s, at) for s in sizes]
        if max(map(abs, wanted)) >= 1 << 62:
            continue
        values[: len(NAMES)] = numbers
        run(address_of(record))
        assert (written - bases).tolist() == wanted
    assert len({tuple(row) for row in steps.rows}) == len(steps.rows)  # each is computed once


def test_what_is_no_size_of_the_program_is_refused() -> None:
    with pytest.raises(ValueError, match="not among"):
        SizeSteps(NAMES).number_of("d + 1")
    with pytest.raises(ValueError, match="not known to be positive"):
        SizeSteps(NAMES).number_of(symbolic.Function("a//b", "//", ("a", "b")))
