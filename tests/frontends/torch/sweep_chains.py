"""Sweeps drawn chains of layers: scripted, traced and exported, at the sizes they were written with and at others.

Runs in an environment that has torch and this package's dependencies:
``python -m tests.frontends.torch.sweep_chains OUT.jsonl [--first 1] [--count 300] [--ways script,pt,pt2] [--kernels]``.
Each line of OUT is a seed, a way, what became of it, what was said, and the steps of the chain.
"""

from __future__ import annotations

import argparse
import io
import json
import signal
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from MNN.errors import MNNError
from MNN.frontends.torch import exported, script
from MNN.frontends.torch.script.load import Given
from MNN.ir.dtype import DType
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.exporting import Late, judged
from tests.frontends.torch.random_chains import Chain, module_of

SECONDS = 60
TOLERANCE = 1e-4


def _late(*_: object) -> None:
    raise Late


def graph_and_peer(way: str, module: torch.nn.Module, x: torch.Tensor) -> tuple[Any, Any]:
    """A graph with open sizes wherever torch has them, and what answers as the file does."""
    held = io.BytesIO()
    x = x.clone()  # layers may write to it
    open_axes = dict.fromkeys((0, *range(2, x.dim())), torch.export.Dim.AUTO)
    try:
        if way == "pt2":
            program = torch.export.export(module, (x,), dynamic_shapes=(open_axes,), strict=False)
            torch.export.save(program, held)
            peer = program.module(check_guards=False)
        else:
            peer = torch.jit.script(module) if way == "script" else torch.jit.trace(module, x, check_trace=False)
            torch.jit.save(peer, held)
    except Late:
        raise
    except Exception as error:
        raise RuntimeError(f"torch: {type(error).__name__}: {error}") from error
    if way == "pt2":
        return exported.load(held.getvalue()), peer
    named = ("n", x.shape[1], "h", "w", "d")[: x.dim()]
    try:
        return script.load(held.getvalue(), {"0": Given(named, DType.F32)}), peer
    except MNNError as error:
        fixed = script.load(held.getvalue(), {"0": Given(tuple(x.shape), DType.F32)})
        fixed.meta["closed"] = str(error)
        return fixed, peer


def difference(found: np.ndarray, want: np.ndarray) -> str:
    if found.shape != want.shape or found.dtype != want.dtype:
        return f"{found.dtype}{list(found.shape)} for {want.dtype}{list(want.shape)}"
    size = max(float(np.nan_to_num(np.abs(want)).max(initial=0.0)), 1.0)
    if not np.array_equal(np.isnan(found), np.isnan(want)):
        return "other places are no numbers"
    apart = float(np.nan_to_num(np.abs(found - want)).max(initial=0.0)) / size
    return "" if apart <= TOLERANCE else f"{apart:.1e} apart"


@judged
def outcome(way: str, chain: Chain, module: torch.nn.Module, config: Config) -> tuple[str, str]:
    """``right``, ``closed`` (right, but not with open sizes), ``refused``, ``wrong``, ``broken`` or ``torch``."""
    x = torch.randn(chain.shape)
    wanted = module(x.clone())
    graph, peer = graph_and_peer(way, module, x)
    session = Session(graph, config)
    closed = str(graph.meta.get("closed", ""))
    name = graph.inputs[0].name
    rounds = [(x, wanted)]
    for _ in range(0 if closed else 2):
        sizes = [
            n if isinstance(m, int) else max(min(n, 2), n + int(torch.randint(-1, 4, ())))
            for n, m in zip(chain.shape, graph.inputs[0].shape or [], strict=True)
        ]
        if sizes != chain.shape:
            other = torch.randn(sizes)
            try:
                rounds.append((other, peer(other.clone())))
            except Late:
                raise
            except Exception:  # noqa: BLE001 - torch's file does not take these sizes
                continue
    for given, want in rounds:
        (found,) = session.run({name: given.numpy()}).values()
        said = difference(np.asarray(found), want.numpy())
        if said:
            return "wrong", f"at {list(given.shape)}: {said}"
    return ("closed", closed) if closed else ("right", f"{len(rounds)} sizes")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--steps", type=int, default=0, help="of a chain; drawn where it is 0")
    parser.add_argument("--ways", default="script,pt,pt2")
    parser.add_argument("--kernels", action="store_true", help="compiled kernels, not the reference implementation")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _late)
    config = Config(reference=not options.kernels, precision="high")
    total: Counter[str] = Counter()
    with options.out.open("a", encoding="utf-8") as file, tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.count):
            chain = Chain(seed, options.steps)
            module = module_of(chain, Path(folder), seed)
            for way in options.ways.split(","):
                signal.alarm(SECONDS)
                kind, said = outcome(way, chain, module, config)
                signal.alarm(0)
                total[f"{way} {kind}"] += 1
                file.write(json.dumps([seed, way, kind, said[:700], chain.layers, chain.lines]) + "\n")
                file.flush()
    print(dict(total))


if __name__ == "__main__":
    main()
