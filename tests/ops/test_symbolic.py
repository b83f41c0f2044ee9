"""Arithmetic on named sizes against plain integers."""

from __future__ import annotations

import pickle
import random

import pytest

from MNN.ir import symbolic
from MNN.ir.symbolic import add, ceil_divide, evaluate, floor_divide, lower_bound, maximum, multiply, parse, subtract
from MNN.ops.core.sizes import combine

NAMES = ("a", "b", "c")
KINDS = ("ADD", "SUB", "MUL", "DIV", "FLOORDIV", "FLOORMOD", "MOD", "MAXIMUM", "MINIMUM")
COMPARED = ("EQUAL", "NOTEQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")


def _halved(size: symbolic.Size, times: int) -> symbolic.Size:
    for _ in range(times):
        size = add(floor_divide(add(size, -1), 2), 1)
    return size


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (multiply("batch", 2), "batch*2"),
        (floor_divide("height", 32), "height//32"),
        (_halved("height", 5), "(height + 31)//32"),
        (subtract(add("past", "seq"), "past"), "seq"),
        (symbolic.exact_quotient(multiply("batch", "seq", 8), multiply("batch", 4)), "seq*2"),
        (floor_divide(add(multiply("h", 2), 3), 2), "h + 1"),
        (multiply(4, ceil_divide("h", 4)), "(h + 3)//4*4"),
        (maximum(add("a", "b"), "a"), "a + b"),
        (maximum(subtract("seq", 1), 0), "max(seq - 1, 0)"),
    ],
)
def test_canonical_form(found: symbolic.Size, text: str) -> None:
    assert found == text
    assert type(parse(text)) is type(found)


@pytest.mark.parametrize("text", ["/x/y.0", "a b", "(((", "max(a", "a//0", "x" * 300, "", "-" * 150])
def test_other_texts_are_names(text: str) -> None:
    assert parse(text) == text


def _plain(kind: str, x: int, y: int) -> int | None:
    """The meaning for what is not negative; None where it is not asked."""
    if (kind in ("DIV", "MOD") and x < 0) or (kind in ("DIV", "MOD", "FLOORDIV", "FLOORMOD") and y <= 0):
        return None
    made = {
        "ADD": lambda: x + y, "SUB": lambda: x - y, "MUL": lambda: x * y, "DIV": lambda: x // y, "MOD": lambda: x % y,
        "FLOORDIV": lambda: x // y, "FLOORMOD": lambda: x % y, "MAXIMUM": lambda: max(x, y),
        "MINIMUM": lambda: min(x, y), "EQUAL": lambda: int(x == y), "NOTEQUAL": lambda: int(x != y),
        "GREATER": lambda: int(x > y), "GREATER_EQUAL": lambda: int(x >= y), "LESS": lambda: int(x < y),
        "LESS_EQUAL": lambda: int(x <= y),
    }  # fmt: skip
    return made[kind]()


@pytest.mark.parametrize("seed", range(200))
def test_random_expressions_have_the_value_of_their_numbers(seed: int) -> None:
    rng = random.Random(seed)
    made: list[int | str] = [*NAMES, 0, 1, 2, 3, 5]
    for _ in range(12):
        kind, x, y = rng.choice((*KINDS, *COMPARED)), rng.choice(made), rng.choice(made)
        found = combine(kind, x, y)
        if found is None:
            continue
        for _ in range(6):
            values = {n: rng.choice((0, 1, 2, 3, 7, 10, 33)) for n in NAMES}
            want = _plain(kind, evaluate(x, values), evaluate(y, values))
            assert want is None or evaluate(found, values) == want, f"{kind} of {x} and {y} is {found} with {values}"
            bound = lower_bound(found)
            assert bound is None or bound <= evaluate(found, values), f"{found} with {values} is below {bound}"
        assert pickle.loads(pickle.dumps(found)) == found
        if isinstance(found, str):
            assert parse(found) == found
            assert symbolic.names(parse(found)) == symbolic.names(found)
        if kind in KINDS:
            made.append(found)
