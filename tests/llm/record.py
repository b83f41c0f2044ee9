"""What transformers computes for small random models: recorded for the tests, or compared at once.

    python -m tests.llm.record                       # writes tests/llm/recorded.json and recorded.npz anew
    python -m tests.llm.record --family qwen3        # the same for one family alone
    python -m tests.llm.record --compare 20          # 20 random configurations of every family, against this engine
    python -m tests.llm.record --compare 20 --family qwen3 --seed 100

    python -m tests.llm.record --pairs               # writes tests/llm/recorded_pairs.json anew
    python -m tests.llm.record --decoders            # writes tests/llm/recorded_vectors.json anew

Needs torch and transformers (5.24 recorded what is there now) beside what this package needs.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
import transformers
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes
from transformers.models.llama import modeling_llama as llama

from tests.llm import cases
from tests.llm.check import Encoded, Expected, check, check_encoder
from tests.llm.stored import in_memory, stored_shapes
from tests.llm.twins import TWINS

HERE = Path(__file__).parent
RECORDED = 2
"""Cases of every family in the tests; one of those that are recorded through files."""
PROMPT, GREEDY, SHORT = 40, 128, 32
"""Tokens: of prompts, of texts that follow, and of these for families of which one case is recorded."""
COMPUTED = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")
"""What files have beside weights, and follows from the configuration: not drawn."""
LENGTHS = (17, 40, 3)
"""Of the sentences of a batch, padded on the left."""


def reference(family: str, seed: int, **more: Any) -> Expected:
    """A random model of a family, with ``more`` in its configuration: what transformers computes."""
    values = cases.config(family, seed) | more
    twin = TWINS.get(family)
    kind, given = (family, values) if twin is None else twin.config(values)
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    config = transformers.AutoConfig.for_model(kind, **given, **eager)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    if family in cases.SAVED:
        return _through_files(family, seed, model)
    state = model.state_dict()
    tied = given.get("tie_word_embeddings", config.tie_word_embeddings)
    table = next(n for n, p in model.named_parameters() if p is model.get_input_embeddings().weight)
    shapes = {n: list(t.shape) for n, t in state.items() if not (tied and n == "lm_head.weight")}
    held = list(shapes)
    shapes = stored_shapes(family, shapes) if twin is None else twin.shapes(values, shapes)
    weights = cases.weights(shapes, seed)
    theirs = in_memory(family, held, weights) if twin is None else twin.weights(values, weights)
    if tied:
        theirs = theirs | {"lm_head.weight": theirs[table]}
    model.load_state_dict({n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in theirs.items()})
    told: dict[str, Any] = values if twin is not None else config.to_dict()
    told = {k: v for k, v in told.items() if isinstance(v, (int, float, str, list, dict)) or v is None}
    return _computed(family, seed, told, shapes, model)


def _through_files(family: str, seed: int, model: Any) -> Expected:
    """A model whose weights lie in files as transformers itself writes and reads them."""
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place)
        file = Path(place) / "model.safetensors"
        with safetensors.safe_open(file, "np") as held:
            shapes = {name: list(held.get_slice(name).get_shape()) for name in held.keys()}  # noqa: SIM118
            kept = {name: held.get_tensor(name) for name in shapes if name.endswith(COMPUTED)}
        shapes = {name: shape for name, shape in shapes.items() if name not in kept}
        safetensors.numpy.save_file(cases.weights(shapes, seed) | kept, file, {"format": "pt"})
        told = json.loads((Path(place) / "config.json").read_text(encoding="utf-8"))
        for name in ("transformers_version", "dtype", "architectures", "initializer_range", "use_cache"):
            told.pop(name, None)
        read = type(model).from_pretrained(place, config=model.config, dtype=torch.float32)
        return _computed(family, seed, told, shapes, read.eval())


def _computed(family: str, seed: int, told: dict[str, Any], shapes: dict[str, list[int]], model: Any) -> Expected:
    """What a model makes of a text, of the beginnings of it in a padded batch, and writes."""
    values = cases.config(family, seed)
    prompt = cases.tokens(seed, PROMPT)
    alibi = family == "baichuan" and "model_max_length" in values
    with torch.no_grad(), with_alibi(model) if alibi else contextlib.nullcontext():
        logits = model(torch.tensor([prompt])).logits[0].numpy()
        longest = max(LENGTHS)
        rows = [[0] * (longest - n) + prompt[:n] for n in LENGTHS]
        mask = [[0] * (longest - n) + [1] * n for n in LENGTHS]
        places = (torch.tensor(mask).cumsum(-1) - 1).clamp(min=0)
        takes = "position_ids" in inspect.signature(model.forward).parameters
        placed = {"position_ids": places} if takes else {}
        if family in cases.HYBRID:  # biases reach padding there, and what comes behind it
            alone = [model(torch.tensor([prompt[:n]])).logits[0].numpy() for n in LENGTHS]
            padded = np.stack([np.pad(one, ((longest - len(one), 0), (0, 0))) for one in alone])
        else:
            padded = model(torch.tensor(rows), attention_mask=torch.tensor(mask), **placed).logits.numpy()
        written = model.generate(
            torch.tensor([prompt[:12]]), attention_mask=torch.ones(1, 12, dtype=torch.long), do_sample=False,
            max_new_tokens=SHORT if family in cases.SAVED else GREEDY, eos_token_id=-1,
        )  # fmt: skip
    kept = [padded[i, longest - n :] for i, n in enumerate(LENGTHS)]
    return Expected(told | {"model_type": family}, shapes, seed, prompt, logits, kept, written[0, 12:].tolist())


@contextlib.contextmanager
def with_alibi(model: Any) -> Iterator[None]:
    """Llama as Baichuan-13B is: nothing is turned, and ALiBi is added to scores."""
    usual, module = llama.eager_attention_forward, llama
    model.model.rotary_emb.inv_freq.zero_()

    def attention(
        layer: Any, query: Any, key: Any, value: Any, attention_mask: Any, **more: Any
    ) -> tuple[Any, Any]:  # fmt: skip
        slopes = _get_alibi_slopes(query.shape[1], query.device).reshape(1, -1, 1, 1)
        added = slopes * torch.arange(key.shape[2])
        mask = added if attention_mask is None else attention_mask + added
        return usual(layer, query, key, value, mask, **more)

    module.eager_attention_forward = attention
    try:
        yield
    finally:
        module.eager_attention_forward = usual


def encoded(family: str, seed: int) -> Encoded:
    """A random model that gives vectors: what transformers computes, each text by itself."""
    values = cases.config(family, seed)
    model, shapes = _encoder(family, seed, values, transformers.AutoModel)
    with torch.no_grad():
        vectors = [model(torch.tensor([cases.tokens(seed, n)])).last_hidden_state[0].numpy() for n in LENGTHS]
    return Encoded(values | {"model_type": family}, shapes, seed, vectors)


def _encoder(family: str, seed: int, values: dict[str, Any], kind: Any) -> tuple[Any, dict[str, list[int]]]:
    """A model of a family with random weights, and the shapes of these in files."""
    twin = TWINS.get(family)
    name, given = (family, values) if twin is None else twin.config(values)
    given = given | {name: values[name] for name in ("num_labels",) if name in values}
    config = transformers.AutoConfig.for_model(name, **given, attn_implementation="eager")
    model = kind.from_config(config).eval()
    shapes = {n: list(t.shape) for n, t in model.state_dict().items() if t.is_floating_point()}
    shapes = {n: shape for n, shape in shapes.items() if kind is not transformers.AutoModel or "pooler" not in n}
    shapes = shapes if twin is None else twin.shapes(values, shapes)
    weights = cases.weights(shapes, seed)
    weights = weights if twin is None else twin.weights(values, weights)
    left = model.load_state_dict(
        {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in weights.items()}, strict=False
    )
    assert not left.unexpected_keys, left.unexpected_keys
    assert all("pooler" in n or "position_ids" in n for n in left.missing_keys), left.missing_keys
    return model, shapes


def compared(family: str, seed: int) -> dict[str, Any]:
    """A random model that scores pairs of texts, and its scores of pairs that begin like one text; of the second half
    of each, tokens are of the second text."""
    values = cases.config(family, seed) | {"num_labels": 1}
    model, shapes = _encoder(family, seed, values, transformers.AutoModelForSequenceClassification)
    logits = []
    for n in LENGTHS:
        types = torch.tensor([[int(i >= n // 2) for i in range(n)]])
        typed = {"token_type_ids": types} if values.get("type_vocab_size") else {}
        with torch.no_grad():
            logits.append(model(torch.tensor([cases.tokens(seed, n)]), **typed).logits[0, 0].item())
    told = {k: v for k, v in values.items() if k != "num_labels"} | {"model_type": family}
    return {"config": told, "shapes": shapes, "seed": seed, "logits": logits}


def record_pairs() -> None:
    """Writes what :func:`compared` gives for every encoder."""
    found = [compared(family, seed) for family in cases.ENCODERS for seed in range(RECORDED)]
    text = "[\n" + ",\n".join(json.dumps(n) for n in found) + "\n]\n"
    (HERE / "recorded_pairs.json").write_text(text, encoding="utf-8")


BOTH_SIDES: dict[str, dict[str, Any]] = {
    "gemma3_text": {"use_bidirectional_attention": True, "sliding_window": 8}, "qwen2": {"is_causal": False},
}  # fmt: skip
SCORED = ("llama", "gemma2")


def of_decoder(family: str, seed: int, more: dict[str, Any], kind: Any) -> dict[str, Any]:
    """A random decoder without words: its vectors of the last three tokens of texts, or its scores of texts."""
    values = cases.config(family, seed) | more
    config = transformers.AutoConfig.for_model(family, **values, attn_implementation="eager")
    model = kind.from_config(config).eval()
    shapes = {n: list(t.shape) for n, t in model.state_dict().items()}
    model.load_state_dict({n: torch.from_numpy(a) for n, a in cases.weights(shapes, seed).items()})
    found = []
    with torch.no_grad():
        for n in LENGTHS:
            made = model(torch.tensor([cases.tokens(seed, n)]))
            found.append((made.logits[0] if hasattr(made, "logits") else made.last_hidden_state[0, -3:]).tolist())
    told = {k: v for k, v in config.to_dict().items() if isinstance(v, (int, float, str, list, dict)) or v is None}
    return {"config": told | {"model_type": family}, "shapes": shapes, "seed": seed, "found": found}


def record_vectors() -> None:
    """Writes what :func:`of_decoder` gives."""
    vectors = [
        of_decoder(family, seed, more, transformers.AutoModel) for family, more in BOTH_SIDES.items() for seed in (0, 1)
    ]
    kind = transformers.AutoModelForSequenceClassification
    scores = [of_decoder(family, 0, {"num_labels": 1, "pad_token_id": 0}, kind) for family in SCORED]
    text = ",\n".join(f'"{k}": [\n' + ",\n".join(map(json.dumps, v)) + "\n]" for k, v in
                      (("vectors", vectors), ("scores", scores)))  # fmt: skip
    (HERE / "recorded_vectors.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def record(families: list[str]) -> None:
    """Writes these families' cases anew; those of others stay."""
    kept = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))
    notes = [n for n in kept if n["config"]["model_type"] not in families]
    with np.load(HERE / "recorded.npz") as file:
        arrays = {name: file[name] for name in file.files if name.rpartition("-")[0] not in families}
    for family in families:
        for seed in range(1 if family in cases.SAVED else RECORDED):
            name = f"{family}-{seed}"
            if family in cases.ENCODERS:
                one = encoded(family, seed)
                arrays |= {f"{name}.vectors{i}": a for i, a in enumerate(one.vectors)}
                notes.append({"config": one.config, "shapes": one.shapes, "seed": seed, "encoder": True})
                continue
            found = reference(family, seed)
            arrays[f"{name}.logits"] = found.logits
            arrays |= {f"{name}.padded{i}": a[-1:] for i, a in enumerate(found.padded)}
            notes.append(found.notes())
    (HERE / "recorded.json").write_text("[\n" + ",\n".join(json.dumps(n) for n in notes) + "\n]\n", encoding="utf-8")
    np.savez_compressed(HERE / "recorded.npz", **arrays)


def compare(families: list[str], count: int, first: int) -> int:
    """Tries random configurations; says what differs and gives how many did."""
    bad = 0
    for family in [name for name in families if name in cases.ENCODERS]:
        worst = max(check_encoder(encoded(family, seed)) for seed in range(first, first + count))
        print(f"{family}: largest error {worst:.1e}", flush=True)
    for family in [name for name in families if name not in cases.ENCODERS]:
        worst = 0.0
        for seed in range(first, first + count):
            try:
                found = reference(family, seed)
            except (ValueError, TypeError) as error:
                print(f"{family} {seed}: transformers refuses the configuration: {error}")
                continue
            try:
                worst = max(worst, check(found))
            except Exception as error:  # noqa: BLE001 - what goes wrong is told, and the next one tried
                bad += 1
                print(f"{family} {seed}: {type(error).__name__}: {error}\n    {cases.config(family, seed)}")
        print(f"{family}: largest error {worst:.1e}", flush=True)
    return bad


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", type=int, default=0)
    parser.add_argument("--family", default="")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--decoders", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    transformers.logging.set_verbosity_error()
    chosen = [asked.family] if asked.family else [*cases.ENCODERS, *cases.FAMILIES]
    if asked.compare:
        sys.exit(min(compare(chosen, asked.compare, asked.seed), 1))
    if asked.pairs:
        record_pairs()
    elif asked.decoders:
        record_vectors()
    else:
        record(chosen)
