"""Exported programs whose graphs hold graphs, masks that hide everything, sizes that become nothing, against torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.converter import convert
from MNN.errors import ShapeError
from MNN.ops.arranging.size_conditions import UnknownConditionError, holds
from tests.frontends.torch.peer import written


@pytest.mark.parametrize(
    "name",
    (
        "while map scan attention autocast windows chunks empty gated masks rows ranked turns counted resized sizes "
        "moved"
    ).split(),
)
def test_programs_with_graphs_inside(name: str) -> None:
    path = written("control_cases") / f"cases-{name}.pt2"
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    model = MNN.load(path, threads=1, precision="high")
    for run in range(1 + max(int(k.split("_")[0]) for k in arrays)):
        given = [arrays[f"{run}_in_{i}"] for i in range(len(model.inputs))]
        found = list(model.run(dict(zip(model.inputs, given, strict=True))).values())
        wanted = [v for k, v in arrays.items() if k.startswith(f"{run}_out")]
        assert [a.shape for a in found] == [a.shape for a in wanted]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.astype(np.float64), b, rtol=1e-4, atol=2e-2 if name == "autocast" else 1e-5)
    if name == "autocast":
        assert [a.dtype.name for a in found] == ["float32", "bfloat16"]


@pytest.mark.parametrize("converted", [False, True], ids=["pt2", "mnn"])
def test_sizes_that_a_program_is_not_for_are_refused(converted: bool, tmp_path: Path) -> None:
    """Those for which it would have taken other branches, and torch refuses it."""
    path = written("control_cases") / "cases-sizes.pt2"
    if converted:
        convert(path, tmp_path / "sizes.mnn")
        path = tmp_path / "sizes.mnn"
    model = MNN.load(path, precision="high")
    a, b = model.inputs
    right = (4, 12), (3, 4)
    for first, second in ((4, 10), (3, 4)), ((4, 12), (5, 4)), ((4, 12), (3, 6)), ((2, 12), (3, 4)), ((4, 12), (3, 5)):
        with pytest.raises(ShapeError, match=r"exported for sizes with .*shape\[.*; give such sizes"):
            model.run({a: np.ones(first, np.float32), b: np.ones(second, np.float32)})
        (found,) = model.run({a: np.ones(right[0], np.float32), b: np.ones(right[1], np.float32)}).values()
        np.testing.assert_array_equal(found, np.full((4, 2), 15))


def test_a_state_is_kept_when_sizes_are_refused() -> None:
    model = MNN.load(written("control_cases") / "cases-counted.pt2", precision="high")
    for rows, total in (5, 10), (4, 18), (4, 26), (3, None), (6, 38):
        if total is None:
            with pytest.raises(ShapeError, match="exported for sizes with"):
                model.run(np.ones((rows, 4), np.float32))
        else:
            (found,) = model.run(np.ones((rows, 4), np.float32)).values()
            np.testing.assert_array_equal(found, np.full((rows, 4), total + 1))


def test_conditions_on_sizes() -> None:
    def sizes(at: int, axis: int) -> int:
        return ((7, 12), (5,))[at][axis]

    for text in ("s0[0] == 7 and s0[1] != 7", "(s0[1] + -s0[0] % 4) // s1[0] == 2", "trunc(0.7 * float(s0[1])) == 8",
                 "not s0[1] < max(s0[0], s1[0], 9)", "3 < s1[0] <= 5", "s1[0] > 9 or s0[1] / 5 > 2"):  # fmt: skip
        assert holds(text, sizes)
        assert not holds(f"not ({text})", sizes)
    for text in ("s9[0] == 1", "s0[4] == 1", "s0[0] % 0 == 1", "open('x')", "s0 == 1", "(lambda: 1)()", "s0[0] ==",
                 "2 ** s0[0] > 1", "s0[0] > 'a'", "-" * 5000 + "1"):  # fmt: skip
        with pytest.raises(UnknownConditionError):
            holds(text, sizes)
