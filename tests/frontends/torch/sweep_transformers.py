"""Sweeps the architectures of transformers: tiny random models, exported with open sizes, answers beside torch's.

Runs in an environment that has torch, transformers and this package's dependencies:
``python -m tests.frontends.torch.sweep_transformers OUT.jsonl [--only TYPES] [--ways pt2,pt] [--skip N] [--every N]``.
Each line of OUT is an architecture, what became of it, and what was said. Open are the batch and the length of texts;
others than texts keep their sizes. The model is asked at the sizes it was exported with and at others.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from MNN.errors import MNNError
from MNN.frontends.torch import exported, script
from MNN.frontends.torch.script.load import Given
from MNN.ir.dtype import DType
from MNN.runtime.config import Config
from MNN.runtime.session import Session
from tests.frontends.torch.near import compare

SECONDS = 120
SMALL = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embed_dim": 32, "embedding_size": 32, "emb_dim": 32,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_decoder_layers": 2, "num_encoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "ffn_dim": 48, "d_ff": 48, "n_inner": 48, "hidden_dim": 48, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48, "d_kv": 8, "head_dim": 8, "vocab_size": 120, "max_position_embeddings": 64,
    "n_positions": 64, "image_size": 32, "patch_size": 8, "num_experts": 4, "num_local_experts": 4,
    "num_experts_per_tok": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "dropout": 0.0,
    "n_routed_experts": 4, "moe_intermediate_size": 16, "num_mel_bins": 16, "projection_dim": 16, "rotary_dim": 8,
}  # fmt: skip
"""Sizes of a tiny model, where a configuration has something of the name."""


class Late(Exception):  # noqa: N818
    """An architecture took too long."""


def _late(*_: object) -> None:
    raise Late


def tiny(kind: str) -> torch.nn.Module:
    """A model with random weights. Raises whatever its configuration does not like."""
    config_type = CONFIG_MAPPING[kind]
    default = config_type()
    given = {k: v for k, v in SMALL.items() if isinstance(getattr(default, k, None), (int, float))}
    for part in getattr(config_type, "sub_configs", {}):
        held = getattr(default, part, None)
        if held is not None:
            given[part] = {k: v for k, v in SMALL.items() if isinstance(getattr(held, k, None), (int, float))}
    config = config_type(**given)
    torch.manual_seed(3)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for p in model.parameters():
            alike = p.dim() > 1 and bool((p == p.flatten()[:1]).all())  # routers of zeros leave the choice open
            if alike or not torch.isfinite(p).all() or p.abs().max() > 10:
                p.normal_(0, 0.05)
    return model.eval()


def feeds(model: torch.nn.Module, batch: int, length: int) -> dict[str, torch.Tensor]:
    """Inputs that the model's forward takes."""
    generator = torch.Generator().manual_seed(batch * 100 + length)
    names = inspect.signature(model.forward).parameters
    config = model.config
    text = getattr(config, "text_config", None) or config
    size = int(getattr(text, "vocab_size", 100) or 100)
    found: dict[str, torch.Tensor] = {}
    if "input_ids" in names:
        found["input_ids"] = torch.randint(3, min(size, 100), (batch, length), generator=generator)
        if "attention_mask" in names:
            mask = torch.ones(batch, length, dtype=torch.int64)
            mask[0, length - 2 :] = 0
            found["attention_mask"] = mask
    if "decoder_input_ids" in names:
        found["decoder_input_ids"] = torch.randint(3, min(size, 100), (batch, length), generator=generator)
    if "pixel_values" in names:
        vision = getattr(config, "vision_config", None) or config
        side = getattr(vision, "image_size", 32) or 32
        sides = [side, side] if isinstance(side, int) else [int(n) for n in side]
        channels = int(getattr(vision, "num_channels", 3))
        found["pixel_values"] = torch.randn(batch, channels, *sides, generator=generator)
    if "input_features" in names:
        bins = int(getattr(config, "num_mel_bins", 16))
        frames = 2 * int(getattr(config, "max_source_positions", 32))
        found["input_features"] = torch.randn(batch, bins, frames, generator=generator)
    if "input_values" in names and "input_ids" not in names:
        found["input_values"] = torch.randn(batch, 1600, generator=generator)
    return found


class Plain(torch.nn.Module):
    """Tensors of the answer, as a list."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: torch.Tensor) -> list[torch.Tensor]:
        more = {"use_cache": False} if "use_cache" in inspect.signature(self.model.forward).parameters else {}
        answer = self.model(**dict(zip(self.names, given, strict=True)), **more, return_dict=True)
        return [v for v in answer.values() if isinstance(v, torch.Tensor) and v.is_floating_point()]


def open_sizes(given: dict[str, torch.Tensor]) -> tuple[Any, ...]:
    """The batch, and the lengths of texts."""
    auto = torch.export.Dim.AUTO
    texts = ("input_ids", "attention_mask", "decoder_input_ids")
    return tuple({0: auto, 1: auto} if name in texts else {0: auto} for name in given)


def graph_of(way: str, module: Plain, given: dict[str, torch.Tensor], fixed: bool) -> Any:
    held, tensors = io.BytesIO(), tuple(given.values())
    try:
        if way == "pt":
            torch.jit.save(torch.jit.trace(module, tensors, check_trace=False, strict=False), held)
        else:
            sizes = None if fixed else (open_sizes(given),)
            program = torch.export.export(module, tensors, dynamic_shapes=sizes, strict=False)
            torch.export.save(program, held)
    except Late:
        raise
    except Exception as error:
        raise RuntimeError(f"torch: {type(error).__name__}: {error}") from error
    if way == "pt2":
        return exported.load(held.getvalue())
    inputs = list(torch.jit.load(io.BytesIO(held.getvalue())).graph.inputs())[1:]
    names = [i.debugName().split(".")[0] for i in inputs]
    types = {n: Given(tuple(t.shape), DType.of(t.numpy())) for n, t in zip(names, tensors, strict=True)}
    return script.load(held.getvalue(), types)


def outcome(kind: str, way: str, settings: Config) -> tuple[str, str]:
    try:
        model = tiny(kind)
        given = feeds(model, 2, 11)
        module = Plain(model, list(given))
        wanted = module(*given.values())
        if not wanted:
            return "torch", "gives no tensors"
    except Late:
        return "late", "torch"
    except Exception as error:  # noqa: BLE001
        return "torch", f"not built: {type(error).__name__}: {error}"
    fixed = False
    try:
        try:
            graph = graph_of(way, module, given, False)
        except RuntimeError as error:
            if way == "pt" or not str(error).startswith("torch:"):
                raise
            fixed, graph = True, graph_of(way, module, given, True)
        session = Session(graph, settings)
        rounds = [given] if fixed or way == "pt" else [given, feeds(model, 3, 7)]
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
                signal.alarm(SECONDS)
                found, said = outcome(kind, way, settings)
                signal.alarm(0)
                file.write(json.dumps([kind, way, found, said[:700]]) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
