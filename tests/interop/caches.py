"""Random decoders whose attention keeps its cache, written here and run step by step by both engines.

The official engine keeps a cache (``kv_cache``) in its language models alone: a module or an interpreter's session that
runs such a file begins anew every time, since nothing in Python hands it the memory. So the decoders are folders of
``MNN.llm``, in fp32; what judges both is numpy, in float64 and without a cache.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import MNN
from MNN.frontends.mnn import write_mnn
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.stateful import StatefulModel
from tests.interop import official
from tests.interop.cases import Summary

SEEDS = 4
TOKENS = 96
BOUND = 2e-5
"""Of the largest logit."""
Step = tuple[str, Any]
"""What is done: ``("forward", tokens)``, ``("keep", length)``, which goes back to a length, or ``("reset", None)``."""


@dataclass
class Decoder:
    """Layers of attention that are added to what they read, and logits."""

    heads: int
    groups: int
    size: int
    weights: list[dict[str, np.ndarray]]
    table: np.ndarray
    """Embeddings, which bf16 holds."""
    last: np.ndarray

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Decoder:
        """One of random heads and sizes."""
        groups, per = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 4]))
        heads, size = groups * per, int(rng.choice([4, 8, 16, 20, 32, 64]))
        width = heads * size
        scale = width**-0.5
        weights = [
            {
                name: (scale * rng.standard_normal((width, count * size))).astype(np.float32)
                for name, count in (("q", heads), ("k", groups), ("v", groups))
            }
            for _ in range(int(rng.integers(1, 4)))
        ]
        table = rng.standard_normal((TOKENS, width)).astype(ml_dtypes.bfloat16).astype(np.float32)
        return cls(heads, groups, size, weights, table, scale * rng.standard_normal((width, TOKENS)).astype(np.float32))

    def logits(self, tokens: list[int]) -> np.ndarray:
        """Those behind the last of the tokens, in float64."""
        x, count = self.table[tokens].astype(np.float64), len(tokens)
        for layer in self.weights:
            q, k, v = ((x @ layer[name]).reshape(count, -1, self.size) for name in "qkv")
            k, v = (np.repeat(t, self.heads // self.groups, 1) for t in (k, v))
            scores = np.einsum("shd,thd->hst", q, k) / np.sqrt(self.size)
            scores[:, np.triu(np.ones((count, count), bool), 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            x = x + np.einsum("hst,thd->shd", shares, v).reshape(count, -1)
        found: np.ndarray = x[-1] @ self.last
        return found

    def write(self, folder: Path) -> None:
        """As a folder of the official engine's language models."""
        write_mnn(self._graph(), folder / "llm.mnn", external=True)
        (folder / "embeddings_bf16.bin").write_bytes(self.table.astype(ml_dtypes.bfloat16).tobytes())
        words = "".join(f"{word}\n" for word in range(TOKENS))
        (folder / "tokenizer.txt").write_text(f"430 1\n0 1 0\n0\n{TOKENS}\n{words}")
        settings = {
            "llm_model": "llm.mnn", "llm_weight": "llm.mnn.weight", "backend_type": "cpu", "thread_num": 1,
            "precision": "high", "memory": "high", "sampler_type": "greedy", "tokenizer_file": "tokenizer.txt",
        }  # fmt: skip
        told = {
            "model_type": "llama", "hidden_size": self.heads * self.size, "layer_nums": len(self.weights),
            "attention_mask": "float", "attention_type": "full", "is_mrope": False,
        }  # fmt: skip
        (folder / "config.json").write_text(json.dumps(settings))
        (folder / "llm_config.json").write_text(json.dumps(told))

    def _graph(self) -> Graph:
        width, nodes = self.heads * self.size, []
        x, index = Value("input_ids", DType.F32, ("s", 1, width)), Value("logits_index", DType.I32, (1,))
        mask, places = Value("attention_mask", DType.F32, (1, 1, "s", "t")), Value("position_ids", DType.I32, (1, "p"))

        def node(op: str, name: str, inputs: list[Value], **attrs: Any) -> Value:
            nodes.append(Node(op, name, inputs, [Value(name)], attrs))
            return nodes[-1].outputs[0]

        def const(name: str, data: Any) -> Value:
            array = np.asarray(data) if isinstance(data, np.ndarray) else np.array(data, np.int32)
            return Value(name, DType.F32 if array.dtype == np.float32 else DType.I32, array.shape, array)

        last = node("Reshape", "rows", [x, const("rows.shape", [1, -1, width])])
        for i, layer in enumerate(self.weights):
            parts = []
            for name, w in layer.items():
                flat = node("MatMul", f"{name}{i}", [last, const(f"{name}{i}.w", w)])
                shape = const(f"{name}{i}.shape", [1, -1, w.shape[1] // self.size, self.size])
                parts.append(node("Reshape", f"{name}{i}.heads", [flat, shape]))
            seen = node("Attention", f"attention{i}", [*parts, mask], kv_cache=True, layer_index=i)
            last = node("BinaryOp", f"add{i}", [last, seen], opType="ADD")
        slices = [const(f"cut.{name}", [n]) for name, n in (("end", 1 << 30), ("axis", 1), ("step", 1))]
        cut = node("StridedSlice", "cut", [last, index, *slices], fromType=1)
        logits = node("MatMul", "logits", [cut, const("logits.w", self.last)])
        return Graph("decoder", [x, mask, places, index], [logits], nodes)


def steps(rng: np.random.Generator) -> list[Step]:
    """A prompt, tokens one by one, further prompts; now and then back to an earlier length, or from the beginning."""
    found: list[Step] = []
    length = 0
    for i in range(24):
        kind = rng.random() if i > 4 else 1.0
        if kind < 0.1:
            found.append(("reset", None))
            length = 0
        elif kind < 0.25 and length > 1:
            length = int(rng.integers(1, length))
            found.append(("keep", length))
        count = int(rng.choice([1, 1, 1, 1, 2, 5, 17])) if length else int(rng.integers(1, 12))
        found.append(("forward", [int(t) for t in rng.integers(0, TOKENS, count)]))
        length += count
    return found


def by_numpy(decoder: Decoder, program: list[Step]) -> np.ndarray:
    """The logits behind every forward step."""
    tokens: list[int] = []
    found = []
    for kind, value in program:
        if kind == "forward":
            tokens = tokens + value
            found.append(decoder.logits(tokens))
        else:
            tokens = tokens[: value or 0]
    return np.array(found)


def here(folder: Path, decoder: Decoder, program: list[Step]) -> np.ndarray:
    """The same by this engine from the written file, its cache kept as a state."""
    model = MNN.load(folder / "llm.mnn", precision="high")
    assert isinstance(model, StatefulModel)
    found = []
    for kind, value in program:
        if kind == "reset":
            model.state.reset()
        elif kind == "keep":
            model.state.rollback(value)
        else:
            past, count = model.state.length, len(value)
            hidden = np.arange(past + count) > np.arange(past, past + count)[:, None]
            feeds = {
                "input_ids": decoder.table[value][:, None],
                "attention_mask": np.where(hidden, np.float32(-1e9), np.float32(0))[None, None],
                "position_ids": np.arange(past, past + count, dtype=np.int32)[None],
                "logits_index": np.array([-1], np.int32),
            }
            found.append(model.run(feeds)["logits"].ravel())
    return np.array(found)


def run(only: str = "", count: int = SEEDS, first: int = 0) -> Summary:
    """Compares both engines with numpy on random decoders and programs."""
    lines, failed, total = [], 0, 0
    for seed in range(first, first + count):
        if only not in f"cache-{seed}":
            continue
        rng = np.random.default_rng([25, seed])
        decoder, program = Decoder.drawn(rng), steps(rng)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            decoder.write(folder)
            wanted = by_numpy(decoder, program)
            found = {"here": here(folder, decoder, program)}
            try:
                found["there"] = official.decode(folder, program)
            except official.OfficialError as error:
                lines.append(f"FAIL cache-{seed}: {error}")
                failed, total = failed + 1, total + 1
        for where, logits in found.items():
            apart = float(np.abs(logits - wanted).max() / np.abs(wanted).max()) if logits.shape == wanted.shape else 1.0
            said = f"cache-{seed} {where}: {decoder.heads} heads, {decoder.groups} of keys, of {decoder.size}, "
            lines.append(f"{'FAIL' if apart > BOUND else 'ok  '} {said}{len(wanted)} steps: {apart:.1e}")
            failed, total = failed + (apart > BOUND), total + 1
    return Summary("\n".join(lines), total, failed)
