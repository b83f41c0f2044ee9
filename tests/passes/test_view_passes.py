"""reshape-merging, permute-merging and view-sinking."""

from __future__ import annotations

import numpy as np

from MNN.passes.manager import optimize
from tests.harness import run_reference
from tests.passes.build import Maker, apply, compare, fires, noise_for, ops, stays


def cleaned(name: str, graph, **options: object) -> list[str]:  # type: ignore[no-untyped-def]
    return ops(apply("dead-code", fires(name, graph, **options))[1])


def test_two_reshapes_become_one() -> None:
    m = Maker()
    x = m.input("batch", 6, 4)
    y = m.op("Reshape", m.op("Reshape", x, m.ints(-1, 24)), m.ints(-1, 3, 8))
    graph = m.done(m.op("Unsqueeze", m.op("Flatten", y, axis=1), squeezeDims=[2]))
    assert cleaned("reshape-merging", graph, feeds=noise_for(graph)) == ["Reshape"]


def test_copied_sizes_are_those_of_the_first_input() -> None:
    m = Maker()
    x = m.input("a", "b", 4)
    y = m.op("Reshape", m.op("Reshape", x, m.ints(-1, 2)), m.ints(0, 2, 1))
    apply("reshape-merging", m.done(y), noise_for(m.graph, a=2, b=5))


def test_squeeze_and_unsqueeze_cancel() -> None:
    m = Maker()
    x = m.op("TanH", m.input("n", 3, 1, "w"))
    graph = m.done(m.op("ReLU", m.op("Unsqueeze", m.op("Squeeze", x, squeezeDims=[2]), squeezeDims=[2])))
    assert cleaned("reshape-merging", graph, feeds=noise_for(graph, n=2, w=5)) == ["TanH", "ReLU"]


def test_squeeze_used_elsewhere_as_an_output_stays() -> None:
    m = Maker()
    squeezed = m.op("Squeeze", m.input(2, 1, 3), squeezeDims=[1])
    stays("reshape-merging", m.done(squeezed, m.op("Unsqueeze", squeezed, squeezeDims=[0])))


def test_permutes_merge_and_cancel() -> None:
    m = Maker()
    x = m.input(2, 3, 4)
    y = m.op("Permute", m.op("Permute", x, dims=[1, 2, 0]), dims=[0, 2, 1])
    back = m.op("ReLU", m.op("Permute", m.op("Permute", m.op("TanH", x), dims=[1, 2, 0]), dims=[2, 0, 1]))
    assert cleaned("permute-merging", m.done(y, back)) == ["Permute", "TanH", "ReLU"]


def test_permute_with_other_users_is_kept_for_them() -> None:
    m = Maker()
    x = m.input(2, 3, 4)
    inner = m.op("Permute", x, dims=[1, 2, 0])
    assert (
        cleaned("permute-merging", m.done(m.op("TanH", inner), m.op("Permute", inner, dims=[1, 0, 2]))).count("Permute")
        == 2
    )


def test_activations_move_before_the_squeeze() -> None:
    m = Maker()
    x = m.op("Unsqueeze", m.input(1, 3, 10), squeezeDims=[2])
    y = m.op("Squeeze", m.conv(x, 4, 3, kernel=1), squeezeDims=[2])
    y = m.binary("MUL", m.op("ReLU", y), m.noise(4, 1))
    y = m.binary("SUB", m.const(1.0), y)
    after = fires("view-sinking", m.done(y))
    assert ops(after) == ["Unsqueeze", "Convolution", "ReLU", "MUL", "SUB", "Squeeze"]


def test_view_sinking_leaves_shared_and_unknown() -> None:
    m = Maker()
    squeezed = m.op("Squeeze", m.input(2, 1, 3), squeezeDims=[1])
    stays("view-sinking", m.done(m.op("ReLU", squeezed), m.op("TanH", squeezed)))
    m = Maker()
    squeezed = m.op("Squeeze", m.input(2, 1, 3), squeezeDims=[1])
    stays("view-sinking", m.done(m.binary("MUL", squeezed, m.const(np.ones((5, 2, 3))))))


def test_view_sinking_of_wider_constants() -> None:
    m = Maker()
    for shape in ((3,), (4, 3), (2, 1, 3), (1,), ()):
        m = Maker()
        x = m.op("Squeeze", m.input(2, 4, 1, 3), squeezeDims=[-2])
        after = fires("view-sinking", m.done(m.binary("ADD", x, m.noise(*shape))))
        assert ops(after) == ["ADD", "Squeeze"]


def test_a_constant_that_makes_more_of_one() -> None:
    """What is behind the moved operator believes its shape."""
    m = Maker()
    x = m.binary("ADD", m.op("Squeeze", m.input(1, 1, 5), squeezeDims=[0]), m.noise(3, 1))
    graph = m.done(m.op("Permute", x, dims=[1, 0]))
    after = fires("view-sinking", graph)
    optimize(after)
    compare(run_reference(after, noise_for(graph)), run_reference(graph, noise_for(graph)), 1e-6)
