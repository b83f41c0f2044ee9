"""``python -m tests.random.second_opinion [--cases N] [--first SEED]``: torch about the window operators.

The numpy oracles of convolutions and pooling are compared with torch, where torch has the form; that they agree with
ONNX Runtime and with this engine is what :mod:`tests.random.runner` looks at. torch lives in an environment of its own
(:mod:`tests.export_env`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests import kept
from tests.random.case import Case
from tests.random.judges import expected
from tests.random.runner import case, difference
from tests.random.windows import Geometry, resolved

FAMILIES = ("convolution", "transposed", "maxima", "averages")
Job = tuple[str, dict[str, Any], list[np.ndarray]]


def job(made: Case) -> Job | None:
    """What torch is asked about a case, None where it has no such form."""
    arrays = [a.astype(np.float64) for a in made.arrays if a is not None]
    a, x = made.attributes, arrays[0]
    count = x.ndim - 2
    kernel = a.get("kernel_shape", list(arrays[1].shape[2:]) if len(arrays) > 1 else [])
    ones = [1] * count
    geometry = Geometry(
        kernel, a.get("strides", ones), a.get("dilations", ones), a.get("pads", [0] * 2 * count),
        a.get("auto_pad", "NOTSET"),
    )  # fmt: skip
    common = {"strides": geometry.strides, "dilations": geometry.dilations}
    if made.op == "Conv":
        more = {"pads": resolved(geometry, x.shape[2:]), "groups": a.get("group", 1)}
        return "conv", common | more, arrays
    if made.op == "ConvTranspose":
        begins, sizes = _places(made, geometry, x.shape[2:])
        return "conv_transpose", common | {"groups": a.get("group", 1), "begins": begins, "sizes": sizes}, arrays
    pads = resolved(geometry, x.shape[2:])
    if pads[:count] != pads[count:] or any(2 * p > k for p, k in zip(pads, kernel, strict=False)):
        return None
    if any(n + 2 * p < span for n, p, span in zip(x.shape[2:], pads, geometry.spans, strict=False)):
        return None
    ceil = bool(a.get("ceil_mode", 0))
    if made.op == "MaxPool" and not a.get("storage_order"):
        return "max_pool", common | {"kernel": kernel, "pads": pads, "ceil": ceil}, arrays
    fits = count < 3 or all(n >= k for n, k in zip(x.shape[2:], kernel, strict=True))  # as torch wants it in 3-D
    if made.op == "AveragePool" and geometry.dilations == ones and fits:
        include = bool(a.get("count_include_pad", 0))
        more = {"kernel": kernel, "strides": geometry.strides, "pads": pads, "ceil": ceil, "include": include}
        return "average_pool", more, arrays
    return None


def _places(made: Case, geometry: Geometry, extents: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Where the output of a transposed convolution begins in all that is spread, and its sizes."""
    count = len(extents)
    extra = made.attributes.get("output_padding", [0] * count)
    full = [
        (n - 1) * s + span + e for n, s, span, e in zip(extents, geometry.strides, geometry.spans, extra, strict=True)
    ]
    sizes = made.attributes.get("output_shape")
    if sizes is None and geometry.auto_pad.startswith("SAME"):
        sizes = [n * s for n, s in zip(extents, geometry.strides, strict=True)]
    if sizes is None:
        pads = [0] * 2 * count if geometry.auto_pad == "VALID" else geometry.pads
        ends = zip(full, pads[:count], pads[count:], strict=True)
        return pads[:count], [f - a - z for f, a, z in ends]
    totals = [f - n for f, n in zip(full, sizes, strict=True)]
    return [t // 2 if geometry.auto_pad == "SAME_UPPER" else t - t // 2 for t in totals], list(sizes)


def ask(jobs: list[Job]) -> list[list[np.ndarray]]:
    """Runs jobs with torch."""
    with tempfile.TemporaryDirectory() as folder:
        files = listed, given, result = [Path(folder) / name for name in ("jobs.json", "given.npz", "result.npz")]
        listed.write_text(json.dumps([[name, parameters, len(arrays)] for name, parameters, arrays in jobs]))
        np.savez(given, **{f"{i}.{k}": a for i, (_, _, arrays) in enumerate(jobs) for k, a in enumerate(arrays)})
        kept.torch("tests.random.torch_driver", Path(folder), *map(str, files))
        with np.load(result) as found:
            names = set(found.files)
            return [[found[f"{i}.{k}"] for k in range(2) if f"{i}.{k}" in names] for i in range(len(jobs))]


def compare(cases: int, first: int = 0) -> tuple[dict[str, int], list[str]]:
    """How many cases of each operator were compared, and what differs."""
    chosen = []
    for family in FAMILIES:
        for seed in range(first, first + cases // len(FAMILIES)):
            made = case(family, seed)
            wanted = job(made)
            if wanted is not None:
                chosen.append((f"{family} {seed}", made, wanted))
    counts: dict[str, int] = {}
    problems = []
    for (name, made, _), found in zip(chosen, ask([wanted for _, _, wanted in chosen]), strict=True):
        verdict = expected(made)
        counts[made.op] = counts.get(made.op, 0) + 1
        for k, (want, scale) in enumerate(zip(verdict.outputs, verdict.scales, strict=True)):
            if k == 1:  # indices in a plane, where ONNX counts through all planes
                planes = np.arange(want.shape[0] * want.shape[1]).reshape(*want.shape[:2], *[1] * (want.ndim - 2))
                want = want - planes * int(np.prod(made.arrays[0].shape[2:]))
            shapes = found[k].shape != want.shape
            problem = f"is {found[k].shape}, not {want.shape}" if shapes else difference(
                found[k], want, scale, 1e-7, made.scale
            )  # fmt: skip
            if problem:
                problems.append(f"{name}: {made}\n    output {k} of torch {problem}")
    return counts, problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random.second_opinion", description=__doc__)
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    counts, problems = compare(options.cases, options.first)
    print("\n".join(problems[:50]))
    print(f"compared {counts}; {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
