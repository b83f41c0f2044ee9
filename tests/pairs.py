"""Parameters of which every two values meet in some test, instead of all combinations.

What is wrong in a kernel is wrong for one value of a parameter or where two of them meet, seldom for three alone; the
combinations that have all pairs are far fewer (D. M. Cohen et al., "The AETG System", IEEE TSE 23, 1997).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import combinations, product

import pytest

Pair = tuple[tuple[int, int], tuple[int, int]]
"""Two columns, the lower first, each with its number."""


def pairs(**values: Sequence[object]) -> pytest.MarkDecorator:
    """``@pairs(target=TARGETS, checked=[False, True], ...)`` parametrises a test with :func:`meeting` rows."""
    columns = list(values.values())
    rows = [
        tuple(column[k] for column, k in zip(columns, row, strict=True)) for row in meeting([len(c) for c in columns])
    ]
    return pytest.mark.parametrize(tuple(values), rows, ids=_text)


def meeting(counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Few rows of numbers below ``counts`` in which every two numbers of two columns stand in one row at least.

    Greedy and the same each time: a row begins with a pair that has not met, and takes in every other column the number
    that makes the most new pairs, of these the one that was taken least.
    """
    missing: set[Pair] = set()
    for i, j in combinations(range(len(counts)), 2):
        missing |= {((i, a), (j, b)) for a, b in product(range(counts[i]), range(counts[j]))}
    taken = [[0] * count for count in counts]
    rows: list[tuple[int, ...]] = []
    while missing:
        row = dict(min(missing))
        for column in range(len(counts)):
            if column not in row:
                row[column] = max(
                    range(counts[column]), key=lambda n: (_new(row, column, n, missing), -taken[column][n])
                )
        rows.append(tuple(number for _, number in sorted(row.items())))
        missing -= set(combinations(sorted(row.items()), 2))
        for column, number in row.items():
            taken[column][number] += 1
    return rows


def _new(row: Mapping[int, int], column: int, number: int, missing: set[Pair]) -> int:
    """How many pairs have not met of those that ``number`` makes with the numbers of ``row``."""
    mine = (column, number)
    return sum(((mine, other) if mine < other else (other, mine)) in missing for other in row.items())


def _text(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return str(getattr(value, "name", None) or getattr(value, "__name__", None) or value)
