"""Writes docs/torch-coverage.md: ``python -m tests.frontends.torch.coverage``."""

from __future__ import annotations

import importlib
import inspect
from collections import defaultdict
from pathlib import Path

from MNN.frontends.torch.absent import ABSENT
from MNN.frontends.torch.complex.tensor import COMPLEX
from MNN.frontends.torch.registry import ATEN
from MNN.frontends.torch.script.builtins import _ANY, _CONTAINERS
from MNN.frontends.torch.script.quantized_operators import _OPERATORS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "torch-coverage.md"
LEFT_OUT = {
    "operators of training (`*_backward`)": "gradients are not part of inference",
    "complex inputs and outputs": "give and take pairs: `torch.view_as_complex`, `torch.view_as_real`",
}
"""Beside :data:`~MNN.frontends.torch.absent.ABSENT`, of which names that begin with ``_`` are none of users."""

COUNTED = """## Core operators, counted

torch 2.13 tags 193 overloads as core. Calls of each, which torch's samples of all its operators come to by its own
decompositions, were exported, traced and scripted, in float32, int64, bool, float16 and bfloat16 (6,000 programs of one
call, two or three for an operator and a type), and compared with torch: **185 operators are right in every call
(95.9 %)**; 7 are of training and refused; `grid_sampler_2d` of bfloat16 takes other pixels here and there, where torch
rounds the coordinates to bfloat16 too. Equal numbers may be sorted in another order. Counted on 2026-11-30 with the
reference implementation: `python -m tests.frontends.torch.sweep_core OUT.jsonl`."""
"""What :mod:`.sweep_core` found, which no test repeats."""


def text() -> str:
    """The page."""
    families: dict[str, list[str]] = defaultdict(list)
    for name in ATEN.known():
        handler = ATEN.find(name)
        assert handler is not None
        families[inspect.getmodule(handler).__name__].append(name)  # type: ignore[union-attr]
    lines = [
        "# PyTorch operators",
        "",
        f"{len(ATEN.known())} operators of PyTorch have a meaning here: ATen's by name, others with their library",
        "in front. One table serves those of `torch.export` and TorchScript; a trailing `_` (in place) and overloads",
        "are understood for all. The page is written by `python -m tests.frontends.torch.coverage`.",
        "",
    ]
    lines += [*COUNTED.splitlines(), ""]
    for module in sorted(families):
        said = (importlib.import_module(module).__doc__ or "").strip().splitlines()[0].rstrip(".")
        listed = ", ".join(f"`{n}`" for n in sorted(families[module]))
        lines += [f"## {said}", "", listed, ""]
    lines += ["## Complex tensors: pairs of numbers inside of a program", ""]
    lines += [", ".join(f"`{n}`" for n in COMPLEX.known()), ""]
    quantised, plain = (", ".join(f"`{n}`" for n in sorted(names)) for names in (_OPERATORS, {*_ANY, *_CONTAINERS}))
    lines += ["## TorchScript alone", "", f"Quantised (eager mode): {quantised}.", ""]
    lines += [f"Lists, texts, numbers: {plain}.", ""]
    lines += ["## Not supported", "", "| what | why, and what else |", "| --- | --- |"]
    absent: dict[str, list[str]] = defaultdict(list)
    for name, what in ABSENT.items():
        if not name.startswith("_"):
            absent[what].append(f"`{name}`")
    rows = [*LEFT_OUT.items(), *((", ".join(names), what) for what, names in absent.items())]
    lines += [f"| {what} | {why} |" for what, why in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
