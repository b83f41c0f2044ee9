"""What a task check is: engine-independent, so that any runner of ONNX models can be put to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Feeds = Mapping[str, Array]
Outputs = Mapping[str, Array]
Run = Callable[[Feeds], Outputs]
"""One inference: input arrays by name to all output arrays by name."""


@dataclass(frozen=True)
class Task:
    """A trained model with a task whose right answer is known.

    ``models`` are keys of :func:`tests.zoo.path`. ``check`` takes one :data:`Run` for each of them, in that order, does
    the whole task (preparing inputs, running, reading outputs) and raises AssertionError on a wrong answer. ``feeds``
    gives realistic inputs of ``models[0]`` for comparing engines number by number. ``steep``: outputs are sigmoids of
    numbers beyond 100, which make several times the error of these.
    """

    name: str
    models: tuple[str, ...]
    check: Callable[..., None]
    feeds: Callable[[], list[dict[str, Array]]]
    steep: bool = False


def largest_error(found: Outputs, expected: Outputs) -> float:
    """Largest absolute difference over all outputs, each relative to the largest finite value of that output.

    Integer and boolean outputs must be equal; a difference there counts as infinite, as do wrong shapes, missing
    outputs and NaNs or infinities in different places.
    """
    if set(found) != set(expected):
        return float("inf")
    worst = 0.0
    for name, want in expected.items():
        got = np.asarray(found[name])
        if got.shape != want.shape:
            return float("inf")
        if not np.issubdtype(want.dtype, np.floating):
            worst = max(worst, 0.0 if np.array_equal(got, want) else float("inf"))
            continue
        finite = np.isfinite(want)
        if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
            return float("inf")
        if finite.any():
            scale = float(np.abs(want[finite]).max())
            error = float(np.abs(got[finite].astype(np.float64) - want[finite].astype(np.float64)).max())
            worst = max(worst, error / scale if scale else error)
    return worst
