"""Plans for ranges of sizes: what is left open, what is refused, and that formulas say what they should."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.open_words import OpenSizes
from MNN.compiler.lower import Stage
from MNN.compiler.open.errors import NotOpenError
from MNN.compiler.open.plan import MOST_OPEN, TOPS, Reach, range_for, range_of_units
from MNN.compiler.open.stages import TracedStage, agree
from MNN.ir import prims as p
from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.size_functions import compiled
from MNN.ir.symbolic import evaluate, parse
from MNN.ir.traced import OpenSize, Trace, room_of, size_of
from MNN.ops.core.builder import Builder
from MNN.ops.core.common import numbers


def traces() -> list[Trace]:
    return [Trace({"s0": n}, {"s0": 40}) for n in (13, 3, 31)]


def traced_stage(trace: Trace, *prims: Prim) -> TracedStage:
    return TracedStage(Stage(list(prims), {}, {}, 1, None), trace)


def result(prim: Prim, shape: tuple[int, ...]) -> Prim:
    prim.outputs = [Tensor(DType.F32, shape, producer=prim)]
    return prim


def test_compiled_formulas_are_the_sizes() -> None:
    """Random sums and differences of products, quotients, maxima and minima, against what evaluates them one by one."""
    rng = np.random.default_rng(2)
    made: list[symbolic.Size] = ["a", "b", 1, 7]
    while len(made) < 400:
        x, y = (made[i] for i in rng.integers(0, len(made), 2))
        by = int(rng.integers(1, 9))
        size = [
            symbolic.add(x, y), symbolic.multiply(x, y), symbolic.maximum(x, y), symbolic.minimum(x, y),
            symbolic.floor_divide(x, by), symbolic.subtract(x, y),
        ][rng.integers(6)]  # fmt: skip
        if size is not None:
            made.append(size)
    sizes = [s for s in made if s is not None]
    for a, b in rng.integers(0, 600, (20, 2)).tolist():
        wanted = tuple(evaluate(s, {"a": a, "b": b}) for s in sizes)
        assert compiled(sizes, ["a", "b"])(a, b) == wanted
        texts = [str(s) if isinstance(s, str) else s for s in sizes]
        assert compiled(texts, ["a", "b"])(a, b) == wanted  # as they lie on disk


def test_every_size_has_one_range_and_samples_lie_within() -> None:
    for number in range(3):
        for size in (*range(3, 700), 1000, 5000, TOPS[-1] - 200):
            found = range_for(size, number)
            if found is None:
                assert size < 3 + 4 * number  # planned alone
                continue
            assert found.least <= size <= found.most < found.room
            assert {found.least, found.most} <= set(found.tried)
            assert found.tried[-1] == max(found.tried)
    tried = [range_for(300, number).tried for number in range(3)]  # type: ignore[union-attr]
    assert all(len(set(same)) == 3 for same in zip(*tried, strict=True))


@pytest.mark.parametrize("reach", ["all", "most", "near", "windows"])
@pytest.mark.parametrize("number", range(MOST_OPEN))
def test_sizes_that_people_choose_end_a_range(reach: Reach, number: int) -> None:
    """Powers of two share no memory with larger sizes, whichever of the open sizes they are."""
    for size in TOPS[1:]:
        found = range_for(size, number, reach)
        assert found is not None
        assert size <= found.most <= max(size, 512) + 64
        assert found.least < found.tried[0] < found.most


@pytest.mark.parametrize("size", [0, 1, 2, 2 * TOPS[-1]])
def test_sizes_that_are_planned_alone(size: int) -> None:
    assert range_for(size) is None


@pytest.mark.parametrize("size", [3, 5, 13, 31, 32, 40, 128, 300, 512, 521, 5000, 16384])
def test_sizes_tried_of_several_open_ones(size: int) -> None:
    """They lie within their range, the largest last, and no two open sizes are tried at the same."""
    ranges = [r for number in range(100) if (r := range_for(size, number)) is not None]
    for found in ranges:
        middle, least, most = found.tried
        assert (least, most) == (found.least, found.most)
        assert 3 <= least < middle < most < found.room
        assert least <= size <= most
    for same in zip(*[r.tried for r in ranges], strict=True):
        assert len(set(same)) == len(same)


@pytest.mark.parametrize("units", [3, 7, 11, 12, 20, 40, 96])
def test_units_tried_of_several_open_ones(units: int) -> None:
    ranges = [r for number in range(100) if (r := range_of_units(units, number)) is not None]
    assert ranges
    for found in ranges:
        middle, least, most = found.tried
        assert (least, most) == (found.least, found.most)
        assert 3 <= least < middle < most < found.room
        assert least <= units <= most
    for same in zip(*[r.tried for r in ranges], strict=True):
        assert len(set(same)) == len(same)


def test_open_sizes_are_keys_of_their_own() -> None:
    trace = Trace({"a": 12, "b": 12}, {"a": 40, "b": 60})
    a, b = trace.size("a"), trace.size("b")
    assert a == b == 12
    assert len({a, b, 12}) == 3
    assert [room_of(n) for n in (a, b, a * 2 + b, 12)] == [40, 60, 140, 12]
    assert size_of((a + 15) // 16 * 3) == parse("((a + 15)//16)*3")
    assert isinstance(max(a, 3), OpenSize)


def test_a_comparison_is_noted_once_and_as_it_was_asked() -> None:
    """Of two open sizes, neither may be noted as the plain number that it is in this trace."""
    trace = Trace({"a": 12, "b": 20}, {"a": 40, "b": 60})
    a, b = trace.size("a"), trace.size("b")
    assert a < b
    assert b > a
    assert not a >= b
    assert a != b
    assert trace.compared == {("<", "a", "b"): True, ("==", "a", "b"): False}
    assert a < 12.5  # no size, and nothing that a plan depends on unseen: sizes are whole
    assert sorted([(-b, 0), (-a, 1)]) == [(-b, 0), (-a, 1)]
    assert {key[1:] for key in trace.compared if not {key[1], key[2]} & {"a", "b"}} == {("-a", "-b")}


def test_equal_sizes_of_a_trace_are_one_object() -> None:
    one, other = traces()[:2]
    n = one.size("s0")
    assert (n * 2 + 4) // 2 is n + 2
    assert one.size("s0") is n
    assert other.size("s0") is not n


def test_what_was_compared_holds_for_another_trace_or_not() -> None:
    first, second, third = traces()  # 13, 3, 31
    assert first.size("s0") < 20
    assert second.repeats(first.compared)
    assert second.compared == first.compared
    assert not third.repeats(first.compared)
    assert third.compared == {}
    assert not second.repeats({("<", None, 3): True})


def test_a_lost_size_is_found_by_its_numbers() -> None:
    found = []
    for s in traces():
        n = s.size("s0")
        x = Tensor(DType.F32, (n, 4))
        first = result(p.Map([x]), (n, 4))
        found.append(traced_stage(s, first, result(p.Map([first.outputs[0]]), (int(n), 4))))
    agree(found)
    assert size_of(found[0].stage.prims[1].outputs[0].shape[0]) == "s0"


def test_a_number_that_is_no_formula_is_refused() -> None:
    found = [traced_stage(s, result(p.Map([]), (int(s.numbers["s0"]) ** 2 % 11, 4))) for s in traces()]
    with pytest.raises(NotOpenError, match="no known size"):
        agree(found)


def test_other_primitives_and_host_calls_are_refused() -> None:
    one, two, three = traces()
    kinds = [result(p.Map([]), (4,)), result(p.Reduce([]), (4,)), result(p.Map([]), (4,))]
    with pytest.raises(NotOpenError, match="another primitive"):
        agree([traced_stage(s, prim) for s, prim in zip((one, two, three), kinds, strict=True)])
    with pytest.raises(NotOpenError, match="in Python"):
        agree([traced_stage(s, result(p.Host([]), (4,))) for s in traces()])


def constant(trace: Trace, data: np.ndarray) -> TracedStage:
    n = trace.size("s0")
    prim = result(p.Map([Tensor(DType.F32, (n, n)), Tensor(DType.of(data), data.shape, const=data)]), (n, n))
    return traced_stage(trace, prim)


def test_constants_that_grow_lie_in_the_largest() -> None:
    """A causal mask is the first part of a larger one in both dimensions; a reversed one is none."""
    masks = [constant(s, np.triu(np.full((s.numbers["s0"],) * 2, -1.0, np.float32))) for s in traces()]
    agree(masks)
    first, _, last = [m.stage.prims[0].inputs[1] for m in masks]
    assert first.whole is last.const
    assert [size_of(n) for n in first.shape] == ["s0", "s0"]
    with pytest.raises(NotOpenError, match="another constant"):
        agree(
            [
                constant(s, np.arange(s.numbers["s0"] ** 2, dtype=np.float32)[::-1].reshape(-1, s.numbers["s0"]))
                for s in traces()
            ]
        )


def test_sizes_as_numbers_are_followed_or_become_inputs() -> None:
    trace = traces()[0]
    b = Builder()
    shape = numbers(b, [trace.size("s0"), 7], DType.I64)
    last = b.op("sub", b.slice(shape, (0,), (1,), (1,)), b.const(np.array([1])))
    assert [size_of(n) for n in b.ints(last)] == [parse("s0 - 1")]
    wide = b.cast(b.concat([last, b.const(np.array([5]))], 0), DType.F32)
    assert wide.const is None
    (found,) = b.open_numbers.inputs.values()
    assert [size_of(n) for n in found] == [parse("s0 - 1"), 5]


def test_matching_random_sizes() -> None:
    """Names, multiples, sums, quotients and the same shape several times, against all sizes within bounds."""
    rng = np.random.default_rng(3)
    kinds: list[int | str] = ["a", "b", 1, 4, "a*32", "b*3", "a + 1", "a + b", "a//2", "2*a*b", "max(a,b)"]
    every = [{"a": a, "b": b} for a in range(3, 10) for b in range(5, 9)]
    matched = missed = 0

    def at(shapes: list[tuple[int | str, ...]], values: dict[str, int]) -> list[tuple[int, ...]]:
        return [tuple([evaluate(parse(n) if isinstance(n, str) else n, values) for n in s]) for s in shapes]

    for _ in range(40):
        shapes = [tuple([kinds[i] for i in rng.integers(0, len(kinds), rng.integers(0, 4))]) for _ in range(3)]
        shapes += [("a",), ("b", shapes[0][0] if shapes[0] else 7), shapes[1]]
        order = [shapes[i] for i in rng.permutation(len(shapes))]
        sizes = OpenSizes(("a", "b"), (3, 5), (9, 8), (), tuple(order), ())
        known = {tuple(at(order, values)): tuple(values.values()) for values in every}
        for a, b in rng.integers(2, 11, (6, 2)).tolist():
            given = at(order, {"a": a, "b": b})
            tried = [given, given[:-1], [*given[:-1], (*given[-1], 1)]]
            for i, shape in enumerate(given):
                changed = [(*shape[:axis], n + 1, *shape[axis + 1 :]) for axis, n in enumerate(shape)]
                tried += [[*given[:i], other, *given[i + 1 :]] for other in changed]
            for same in tried:
                assert sizes.match(same) == known.get(tuple(same))
                matched, missed = matched + (tuple(same) in known), missed + (tuple(same) not in known)
    assert matched > 50
    assert missed > 500


def test_matching_sizes() -> None:
    sizes = OpenSizes(("s0",), (3,), (31,), (), (("s0", 4), (1, "s0 + 1")), ())
    assert sizes.match([(5, 4), (1, 6)]) == (5,)
    for shapes in ([(5, 4), (1, 5)], [(2, 4), (1, 3)], [(32, 4), (1, 33)], [(5, 3), (1, 6)], [(5,), (1, 6)]):
        assert sizes.match(shapes) is None  # type: ignore[arg-type]
