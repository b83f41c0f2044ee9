"""Sizes by name that are traced out of the lowering."""

from __future__ import annotations

from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.symbolic import add, ceil_divide, floor_divide, multiply
from MNN.ir.traced import TracedSize, size_of
from MNN.ops.inference.derived import derived


def test_arithmetic_follows_sizes() -> None:
    n = TracedSize(14, "n")
    for number, size in (
        (2 + n * 3 - 1, add(multiply("n", 3), 1)),
        (n // 4, floor_divide("n", 4)),
        (-(-n // 4), ceil_divide("n", 4)),
        (100 - n, add(multiply("n", -1), 100)),
    ):
        assert size_of(number) == size
    assert [2 + n * 3 - 1, n // 4, -(-n // 4), 100 - n, n % 4] == [43, 3, 4, 86, 2]
    assert size_of(7) == 7


def sizes(op: str, *shapes: tuple[int | str, ...], **attrs: object) -> list[tuple[object, ...]] | None:
    inputs = [Value(f"x{i}", DType.F32, shape) for i, shape in enumerate(shapes)]
    found = derived(Node(op, "node", inputs, [Value("y")], attrs), lambda v: None)
    return None if found is None else [shape for _, shape in found]


def test_sizes_follow_from_lowering() -> None:
    assert sizes("ArgMax", ("n", "c", 5), axis=1) == [("n", 5)]
    assert sizes("MatMul", ("n", "m", 8), (8, "k")) == [("n", "m", "k")]
    assert sizes("Flatten", ("n", "c", 4), axis=1) == [("n", multiply("c", 4))]


def test_what_a_comparison_decides_stays_unknown() -> None:
    assert sizes("Pooling", (1, 3, "h", 32), kernelY=2, kernelX=2, strideY=2, strideX=2, padX=0, padY=0) == [
        (1, 3, None, 16)
    ]


def test_operands_that_may_not_fit_give_nothing() -> None:
    assert sizes("MatMul", ("n", "a"), ("b", "k")) is None
    assert sizes("BinaryOp", ("n",), ("m",)) is None
    assert sizes("NoSuchOperator", ("n",)) is None
