"""Sweeps the architectures of transformers: tiny random models, exported with open sizes, answers beside torch's.

Runs in an environment that has torch, transformers and this package's dependencies:
``python -m tests.frontends.torch.sweep_transformers OUT.jsonl [--only TYPES] [--ways pt2,pt] [--skip N] [--every N]``.
Each line of OUT is an architecture, what became of it, and what was said. Open are the batch and the length of texts;
others than texts keep their sizes. The model is asked at the sizes it was exported with and at others.
"""

from __future__ import annotations

import argparse
import inspect
import json
import signal
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from MNN.errors import MNNError
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.exporting import Late, graph_of
from tests.frontends.torch.near import compare
from tests.frontends.torch.small_transformers import candidates, models

SECONDS = 75


def _late(*_: object) -> None:
    raise Late


def fitted(kind: str, most: int) -> tuple[torch.nn.Module, int, list[torch.Tensor]]:
    """A small model that runs, which of the inputs it took, and its answers. Raises what the last one said."""
    said: Exception = RuntimeError("no small model")
    for model in models(kind, most):
        for i, given in enumerate(candidates(model, 2, 11)):
            try:
                answers = Plain(model, list(given))(*given.values())
            except Late:
                raise
            except Exception as error:  # noqa: BLE001
                said = error
                continue
            if answers:
                return model, i, answers
    raise said


class Plain(torch.nn.Module):
    """Tensors of the answer, as a list."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: torch.Tensor) -> list[torch.Tensor]:
        more = {"use_cache": False} if "use_cache" in inspect.signature(self.model.forward).parameters else {}
        if "return_dict" in inspect.signature(self.model.forward).parameters:
            more["return_dict"] = True
        answer = self.model(**dict(zip(self.names, given, strict=True)), **more)
        found = answer.values() if hasattr(answer, "values") else [answer]
        return [v for v in found if isinstance(v, torch.Tensor) and v.is_floating_point()]


def open_sizes(given: dict[str, torch.Tensor]) -> tuple[Any, ...]:
    """The batch, and the lengths of texts."""
    auto = torch.export.Dim.AUTO
    texts = ("input_ids", "attention_mask", "decoder_input_ids")
    pictured = "pixel_values" in given and "input_ids" in given
    return tuple({0: auto, 1: auto} if name in texts and not pictured else {0: auto} for name in given)


def _fits(graph: Any, given: dict[str, torch.Tensor]) -> bool:
    """Whether a graph takes inputs of these sizes; torch takes some sizes for constants."""
    pairs = zip(graph.inputs, given.values(), strict=True)
    return all(not isinstance(n, int) or n == m for v, t in pairs for n, m in zip(v.shape, t.shape, strict=True))


def outcome(kind: str, way: str, settings: Config, most: int) -> tuple[str, str]:
    signal.alarm(SECONDS // 3)
    try:
        model, place, _ = fitted(kind, most)
        given = next(islice(candidates(model, 2, 11), place, None))
        module = Plain(model, list(given))
    except Late:
        return "late", "torch"
    except Exception as error:  # noqa: BLE001
        return "torch", f"not built: {type(error).__name__}: {error}"
    fixed = False
    signal.alarm(SECONDS)
    try:
        tensors = list(given.values())
        try:
            graph = graph_of(way, module, tensors, (open_sizes(given),))
        except RuntimeError as error:
            if way == "pt" or not str(error).startswith("torch:"):
                raise
            fixed, graph = True, graph_of(way, module, tensors)
        session = Session(graph, settings)
        rounds = [given]
        if not fixed and way != "pt":
            others = [next(islice(candidates(model, 3, n), place, None)) for n in (7, 11)]
            fit = [one for one in others if _fits(graph, one)]
            fixed, rounds = not fit, [given, *fit[:1]]
        worst = 0.0
        for one in rounds:
            wanted = module(*one.values())
            have = session.run(
                dict(zip((v.name for v in graph.inputs), (t.numpy() for t in one.values()), strict=True))
            )
            for i, (ours, theirs) in enumerate(zip(have.values(), wanted, strict=True)):
                right = theirs.detach().numpy()
                said = compare(ours, right)
                size = max(float(np.abs(right).max(initial=0.0)), 1e-6)
                gap = float(np.abs(ours - right).max(initial=0.0)) / size if ours.shape == right.shape else np.inf
                worst = max(worst, gap)
                if said and not gap < 1e-4:
                    return "wrong", f"result {i}: {said}"
    except MNNError as error:
        return "refused", str(error)
    except Late:
        return "late", ""
    except RuntimeError as error:
        return ("torch" if str(error).startswith("torch:") else "broken"), str(error)
    except Exception as error:  # noqa: BLE001
        return "broken", f"{type(error).__name__}: {error}"
    return ("right, fixed sizes" if fixed else "right"), f"{worst:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--ways", default="pt2")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--every", type=int, default=1, help="only each of so many architectures")
    parser.add_argument("--kernels", action="store_true", help="compiled kernels, not the reference implementation")
    parser.add_argument("--most", type=float, default=70, help="millions of parameters of a model")
    options = parser.parse_args()
    settings = Config(reference=not options.kernels, precision="high")
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _late)
    kinds = options.only.split(",") if options.only else sorted(CONFIG_MAPPING)
    with options.out.open("a", encoding="utf-8") as file:
        for kind in kinds[options.skip :: options.every][: options.count]:
            for way in options.ways.split(","):
                found, said = outcome(kind, way, settings, int(options.most * 1e6))
                signal.alarm(0)
                file.write(json.dumps([kind, way, found, said[:700]]) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
