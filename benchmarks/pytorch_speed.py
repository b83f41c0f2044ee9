"""PyTorch's files beside PyTorch itself, on one thread, in turns: ``python -m benchmarks.pytorch_speed --out DIR``.

Needs torch, torchvision, timm, transformers and onnx in the environment of this engine. Networks are those of
:mod:`benchmarks.pytorch_networks`. Each is written as TorchScript (``.pt``), as an exported program (``.pt2``), and as
ONNX, which says whether a front end of torch's own formats leaves anything undone. torch runs it as it is (eager),
frozen and optimised for inference, and compiled by Inductor; the fastest counts. All run in this process, with one
thread; they take turns, and the minimum CPU time of a run counts, from arrays to arrays. Errors are the largest
difference from the same network in float64, over the largest output.

What is found is added to ``DIR/results.jsonl``; ``--publish MACHINE`` writes ``docs/pytorch-speed.md`` from it.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import nn

import MNN

from .pytorch_networks import NETWORKS, Inputs, made
from .setup_peers import REPOSITORY

FORMATS = ("pt2", "pt", "onnx")
FORMS = ("eager", "frozen", "compiled")
PAGE = REPOSITORY / "docs" / "pytorch-speed.md"
Run = Callable[[], np.ndarray]
T = TypeVar("T")
_HEAD = """# PyTorch's files, beside PyTorch

{machine}: one thread, batch 1, random weights.
Minimum CPU times in ms of runs in turns, from arrays to arrays, precision `high`. torch {torch} as it is, frozen
(`torch.jit.freeze`, `optimize_for_inference`) and compiled (`torch.compile`). *Ratio*: the best of torch's by the
slower of this engine's two. *Commands*: what is left of the network after all passes and fusion, from `.pt2`,
TorchScript, and the ONNX file of the same network. *Error*: the largest difference from the network in float64 over
the largest output, this engine's (the worse of two) and torch's. A dash: torch does not write or run it so, or it was
not measured. Measure again with `python -m benchmarks.pytorch_speed`, which says what it needs.

| network | `.pt2` | TorchScript | ONNX | torch | frozen | compiled | ratio | commands | error | torch's |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |
"""


def tried(name: str, what: str, make: Callable[[], T]) -> T | None:
    """What ``make`` gives; none where it raises, which is said."""
    try:
        return make()
    except Exception as reason:  # noqa: BLE001 - torch may raise anything, and the others go on
        print(f"{name}: {what}: {str(reason).strip().splitlines()[:1]}", flush=True)
        return None


def files(name: str, model: nn.Module, inputs: Inputs, folder: Path) -> dict[str, Path]:
    """The network's files by format, without those that torch cannot write."""
    names = [f"x{i}" for i in range(len(inputs))]
    stem = str(folder / name)

    def exported() -> str:
        torch.export.save(torch.export.export(model, inputs), f"{stem}.pt2")
        return "pt2"

    def traced() -> str:
        torch.jit.save(torch.jit.trace(model, inputs, check_trace=False), f"{stem}.pt")
        return "pt"

    def onnx() -> str:
        torch.onnx.export(model, inputs, f"{stem}.onnx", input_names=names, dynamo=False, opset_version=17)
        return "onnx"

    made = [tried(name, f"not written ({write.__name__})", write) for write in (exported, traced, onnx)]
    return {suffix: folder / f"{name}.{suffix}" for suffix in made if suffix is not None}


def torch_runs(name: str, model: nn.Module, inputs: Inputs, forms: list[str]) -> dict[str, Run]:
    """The network as torch runs it, by form, without those that torch refuses."""
    arrays = [x.numpy() for x in inputs]

    def frozen() -> Callable[..., torch.Tensor]:
        script = torch.jit.freeze(torch.jit.trace(model, inputs, check_trace=False))
        return torch.jit.optimize_for_inference(script)

    makers: dict[str, Callable[[], Callable[..., torch.Tensor]]] = {
        "eager": lambda: model,
        "frozen": frozen,
        "compiled": lambda: torch.compile(model),
    }

    def running(form: str) -> Run:
        call = makers[form]()

        def run() -> np.ndarray:
            with torch.inference_mode():
                return call(*map(torch.from_numpy, arrays)).numpy()

        run()
        return run

    runs = {form: tried(name, form, partial(running, form)) for form in forms}
    return {form: run for form, run in runs.items() if run is not None}


def in_turns(runs: dict[str, Run], seconds: float, rounds: int = 6) -> dict[str, float]:
    """The minimum milliseconds of CPU time of each, with so many ``seconds`` for each; a turn begins untimed."""
    best = dict.fromkeys(runs, math.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            run()
            end = time.process_time() + seconds / rounds
            while True:
                start = time.process_time()
                run()
                now = time.process_time()
                best[name] = min(best[name], 1e3 * (now - start))
                if 2 * now - start > end:
                    break
    return best


def right_answer(model: nn.Module, inputs: Inputs) -> np.ndarray:
    """What the network gives in float64; torch's own answer where it makes float32 tensors by itself."""
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    try:
        return copy.deepcopy(model).double()(*wide).numpy()
    except RuntimeError:
        return model(*inputs).double().numpy()


def measure(name: str, folder: Path, seconds: float, forms: list[str]) -> dict[str, object]:
    """Times, errors and numbers of commands of one network, by format and by form."""
    model, inputs = made(name)
    right = right_answer(model, inputs)
    runs = {}
    commands = {}
    for suffix, path in files(name, model, inputs, folder).items():
        ours = MNN.load(path, threads=1, precision="high")
        feeds = dict(zip(ours.inputs, (x.numpy() for x in inputs), strict=True))
        runs[suffix] = lambda ours=ours, feeds=feeds: next(iter(ours.run(feeds).values()))
        commands[suffix] = len(ours.program(feeds).commands)
        path.unlink()
    runs |= torch_runs(name, model, inputs, forms)
    error = {n: float(np.abs(run() - right).max() / np.abs(right).max()) for n, run in runs.items()}
    return {"network": name, "ms": in_turns(runs, seconds), "error": error, "commands": commands}


def ratio(found: dict[str, object]) -> float:
    """The best of torch by the slower of this engine's two formats of torch's."""
    ms: dict[str, float] = found["ms"]  # type: ignore[assignment]
    return min(ms[f] for f in FORMS if f in ms) / max(ms[f] for f in FORMATS[:2] if f in ms)


def row(found: dict[str, object]) -> str:
    """A row of the page's table."""
    ms: dict[str, float] = found["ms"]  # type: ignore[assignment]
    error: dict[str, float] = found["error"]  # type: ignore[assignment]
    counts: dict[str, int] = found["commands"]  # type: ignore[assignment]
    cells = [f"{ms[f]:.3g}" if f in ms else "-" for f in (*FORMATS, *FORMS)]
    commands = ", ".join(str(counts.get(f, "-")) for f in FORMATS)
    worst = max(error[f] for f in FORMATS[:2] if f in error)
    tail = f"**{ratio(found):.2f}** | {commands} | {worst:.0e} | {error['eager']:.0e}"
    return f"| {found['network']} | {' | '.join(cells)} | {tail} |"


def summary(found: list[dict[str, object]]) -> str:
    """The geometric mean and the lowest ratio."""
    ratios = [ratio(f) for f in found]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{len(ratios)} networks: geometric mean {mean:.2f}, lowest {min(ratios):.2f}."


def publish(results: Path, machine: str) -> None:
    """Writes the page from the last result of each network; headings below the table stay with what they say."""
    lines = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    last = {str(found["network"]): found for found in lines}
    old = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    _, mark, below = old.partition("\n## ")
    table = "\n".join(row(found) for found in last.values())
    head = _HEAD.format(machine=machine, torch=torch.__version__.partition("+")[0])
    PAGE.write_text(f"{head}{table}\n\n{summary(list(last.values()))}\n{mark}{below}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="per engine and network")
    parser.add_argument("--only", default=",".join(NETWORKS), help="names of networks")
    parser.add_argument("--forms", default=",".join(FORMS), help="forms of torch to run")
    parser.add_argument("--out", type=Path, default=Path("pytorch-speed"))
    parser.add_argument("--publish", metavar="MACHINE", help="writes the page, which names the machine so")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    results = given.out / "results.jsonl"
    if given.publish:
        publish(results, given.publish)
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for name in given.only.split(","):
        work = partial(measure, name, given.out, given.seconds, given.forms.split(","))
        found = tried(name, "not measured", work)
        if found is not None:
            print(row(found), flush=True)
            with results.open("a", encoding="utf-8") as out:
                out.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
