"""Sweeps the families of timm: the smallest random model of each, exported with an open batch and without.

Runs in an environment that has torch, timm and this package's dependencies:
``python -m tests.frontends.torch.sweep_timm OUT.jsonl [--only FAMILIES] [--most MILLIONS] [--ways pt2,pt]``. Each line
of OUT is a family's model, what became of it, and what was said.
"""

from __future__ import annotations

import argparse
import json
import signal
import warnings
from pathlib import Path

import numpy as np
import timm
import torch
from timm.models import is_model_in_modules, list_modules

from MNN.errors import MNNError
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.exporting import Late, graph_of
from tests.frontends.torch.near import compare

SECONDS = 90


def _late(*_: object) -> None:
    raise Late


def smallest(family: str, most: float) -> tuple[str, torch.nn.Module, int]:
    """The model of a family with the fewest parameters, and the side of a small image that it takes."""
    said: Exception = RuntimeError("no model")
    sizes = {}
    for name in [n for n in timm.list_models() if is_model_in_modules(n, [family])][:40]:
        with torch.device("meta"):
            try:
                sizes[name] = sum(p.numel() for p in timm.create_model(name).parameters())
            except Exception as error:  # noqa: BLE001
                said = error
    for name in sorted(sizes, key=lambda n: sizes[n])[:2]:
        if sizes[name] > most * 1e6:
            raise RuntimeError(f"{name} has {sizes[name] / 1e6:.0f} million parameters")
        for side, more in ((64, {}), (64, {"img_size": 64}), (96, {}), (128, {}), (0, {})):
            try:
                torch.manual_seed(1)
                model = timm.create_model(name, num_classes=13, **more).eval()
                side = side or model.default_cfg["input_size"][-1]
                model(torch.zeros(1, model.default_cfg["input_size"][0], side, side))
            except Late:
                raise
            except Exception as error:  # noqa: BLE001
                said = error
                continue
            for module in model.modules():
                if isinstance(getattr(module, "running_var", None), torch.Tensor):
                    module.running_mean.normal_(0, 0.1)
                    module.running_var.uniform_(0.7, 1.3)
            return name, model, side
    raise said


def outcome(family: str, way: str, settings: Config, most: float) -> tuple[str, str, str]:
    name = ""
    signal.alarm(SECONDS)
    try:
        name, model, side = smallest(family, most)
    except Late:
        return name, "late", "not built"
    except Exception as error:  # noqa: BLE001
        return name, "torch", f"not built: {type(error).__name__}: {error}"
    signal.alarm(SECONDS)
    try:
        channels = model.default_cfg["input_size"][0]
        given = [torch.randn(n, channels, side, side) for n in (2, 3, 1)]
        fixed = False
        try:
            graph = graph_of(way, model, given[:1], ({0: torch.export.Dim.AUTO},))
        except RuntimeError as error:
            if way == "pt" or not str(error).startswith("torch:"):
                raise
            fixed, graph = True, graph_of(way, model, given[:1])
        session, worst = Session(graph, settings), 0.0
        fixed = fixed or way == "pt" or isinstance(graph.inputs[0].shape[0], int)
        for x in given[:1] if fixed else given:
            (found,) = session.run({graph.inputs[0].name: x.numpy()}).values()
            wanted = model(x).numpy()
            said = compare(found, wanted)
            if said:
                return name, "wrong", said
            worst = max(worst, float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-9)))
    except MNNError as error:
        return name, "refused", str(error)
    except Late:
        return name, "late", ""
    except RuntimeError as error:
        return name, ("torch" if str(error).startswith("torch:") else "broken"), str(error)
    except Exception as error:  # noqa: BLE001
        return name, "broken", f"{type(error).__name__}: {error}"
    return name, ("right, fixed batch" if fixed else "right"), f"{worst:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--ways", default="pt2")
    parser.add_argument("--most", type=float, default=25, help="millions of parameters of a model")
    parser.add_argument("--kernels", action="store_true", help="compiled kernels, not the reference implementation")
    options = parser.parse_args()
    settings = Config(reference=not options.kernels, precision="high")
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _late)
    with options.out.open("a", encoding="utf-8") as file:
        for family in options.only.split(",") if options.only else sorted(list_modules()):
            for way in options.ways.split(","):
                line = [family, way, *outcome(family, way, settings, options.most)]
                signal.alarm(0)
                file.write(json.dumps([*line[:-1], line[-1][:700]]) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
