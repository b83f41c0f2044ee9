"""Sweeps torch's own database of operators: each sample exported and traced, our answers beside torch's.

Runs in an environment that has torch, ``expecttest`` and this package's dependencies:
``python -m tests.frontends.torch.sweep_operators OUT.jsonl [--only NAMES] [--types float32,int64] [--samples 3]
[--ways pt2,pt] [--seed 0] [--kernels]``. It takes an hour for everything, so no test runs it; it ends with a table of
what was refused and what was wrong. Samples are drawn from all that torch gives for an operator.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.exporting import Late, graph_of, judged, numbers
from tests.frontends.torch.near import compare

TYPES = "float32,int64,bool,float64,float16,bfloat16"
SECONDS = 30
"""For one sample in one way."""
DRAWN = ("rand", "normal", "dropout", "bernoulli", "multinomial", "empty", "uniform", "rrelu", "exponential", "cauchy",
         "geometric", "poisson", "log_normal", "svd_lowrank", "pca_lowrank", "fractional_max")  # fmt: skip
"""In the names of operators that draw numbers: shapes and types alone are compared."""


class Call(torch.nn.Module):
    """An operator on the tensors of a sample; everything else of it stays as it is."""

    def __init__(self, operator: Any, tree: Any, leaves: list[Any]) -> None:
        super().__init__()
        self.operator, self.tree, self.leaves = operator, tree, leaves

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        given = iter(tensors)
        leaves = [next(given) if isinstance(v, torch.Tensor) else v for v in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        found = pytree.tree_leaves(self.operator(*args, **kwargs))
        return [v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in found]


def _late(*_: object) -> None:
    raise Late


def samples(operator: Any, dtype: torch.dtype, count: int, seed: int) -> list[Any]:
    """Some of torch's samples for an operator."""
    torch.manual_seed(seed)
    found = list(operator.sample_inputs("cpu", dtype, requires_grad=False))
    return random.Random(seed).sample(found, min(count, len(found)))


def _leaves(sample: Any) -> list[Any]:
    return pytree.tree_leaves(((sample.input, *sample.args), sample.kwargs))


@judged
def outcome(way: str, name: str, operator: Any, sample: Any, config: Config) -> tuple[str, str]:
    """``right``, ``refused``, ``wrong``, ``broken`` (an error that is none of ours) or ``torch``, and what is said."""
    leaves, tree = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    leaves = [v.detach() if isinstance(v, torch.Tensor) else v for v in leaves]
    tensors = [v for v in leaves if isinstance(v, torch.Tensor)]
    feeds = [numbers(t) if not t.is_complex() else t.numpy() for t in tensors]
    module = Call(operator, tree, leaves)
    wanted = module(*[t.clone() for t in tensors])
    graph = graph_of(way, module, [t.clone() for t in tensors])
    found = list(Session(graph, config).run(dict(zip((v.name for v in graph.inputs), feeds, strict=True))).values())
    if len(found) != len(wanted):
        return "wrong", f"{len(found)} results for {len(wanted)}"
    for i, (have, want) in enumerate(zip(found, wanted, strict=True)):
        right = numbers(want.detach().contiguous()) if not want.is_complex() else want.numpy()
        drawn = any(part in name for part in DRAWN)
        said = compare(np.zeros_like(have), np.zeros_like(right)) if drawn else compare(np.asarray(have), right)
        if said:
            return "wrong", f"result {i}: {said}"
    return "right", ""


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, int, str, Any, Any]]:
    only = set(options.only.split(",")) if options.only else None
    for operator in op_db:
        name = operator.name + (f":{operator.variant_test_name}" if operator.variant_test_name else "")
        if only and operator.name not in only and name not in only:
            continue
        for text in options.types.split(","):
            dtype = getattr(torch, text)
            if dtype not in operator.dtypes:
                continue
            try:
                drawn = samples(operator, dtype, options.samples, options.seed)
            except Exception as error:  # noqa: BLE001
                print(f"{name} {text}: no samples: {error}"[:200], file=sys.stderr)
                continue
            for i, sample in enumerate(drawn):
                if any(isinstance(v, torch.Tensor) and v.layout is not torch.strided for v in _leaves(sample)):
                    continue
                for way in options.ways.split(","):
                    yield name, text, i, way, operator.op, sample


def table(path: Path) -> str:
    """How many samples were what, and each operator that was refused or wrong."""
    total: Counter[str] = Counter()
    said: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        name, dtype, i, way, kind, text = json.loads(line)
        total[kind] += 1
        if kind not in ("right", "torch"):
            said[kind, name].append(f"{dtype}.{i}.{way}: {text}")
    lines = [str(dict(total))]
    for (kind, name), texts in sorted(said.items()):
        lines.append(f"{kind} {name} ({len(texts)}): {texts[0][:260]}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--ways", default="pt2,pt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", action="store_true", help="compiled kernels, not the reference implementation")
    parser.add_argument("--table", action="store_true", help="of what OUT holds already")
    options = parser.parse_args()
    if options.table:
        print(table(options.out))
        return
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _late)
    config = Config(reference=not options.kernels, precision="high")
    began = time.monotonic()
    with options.out.open("a", encoding="utf-8") as file:
        for name, dtype, i, way, operator, sample in cases(options):
            signal.alarm(SECONDS)
            kind, said = outcome(way, name, operator, sample, config)
            signal.alarm(0)
            file.write(json.dumps([name, dtype, i, way, kind, said[:600]]) + "\n")
            file.flush()
    print(table(options.out))
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
