"""Beam searches by transformers over small random models: recorded for the tests, or compared at once.

    python -m tests.llm.beams.record               # writes tests/llm/beams/recorded.json anew
    python -m tests.llm.beams.record --compare 40  # 40 random searches against this engine

Needs torch and transformers (5.24 recorded what is there now) beside what this package needs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tests.llm import cases
from tests.llm.beams.check import difference
from tests.llm.test_families import RECORDED

HERE = Path(__file__).parent
FAMILIES = ("llama", "gemma2", "mistral", "qwen3_moe", "smollm3")
RECORDS = 10


def searched(seed: int) -> dict[str, Any]:
    """A random search: its parameters, and the texts that transformers finds with their scores."""
    rng = np.random.default_rng([seed, 51])
    family = str(rng.choice(FAMILIES))
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    count, most = int(rng.integers(2, 7)), int(rng.integers(3, 24))
    ends = [int(n) for n in rng.choice(cases.VOCABULARY, int(rng.integers(1, 5)), replace=False)]
    penalty, early = float(rng.choice([0.0, 0.6, 1.0, 2.0, -0.5])), bool(rng.random() < 0.3)
    prompt = cases.tokens(seed, int(rng.integers(2, 30)))
    given = {k: v for k, v in notes["config"].items() if k not in ("model_type", "transformers_version")}
    config = transformers.AutoConfig.for_model(
        family, **given, attn_implementation="eager", experts_implementation="eager"
    )
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    weights = cases.weights(notes["shapes"], seed)
    from tests.llm.stored import in_memory

    held = [n for n in model.state_dict() if n in weights or "experts" in n or n != "lm_head.weight"]
    theirs = in_memory(family, held, weights)
    if config.tie_word_embeddings:
        theirs = theirs | {"lm_head.weight": theirs["model.embed_tokens.weight"]}
    model.load_state_dict({n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in theirs.items()})
    with torch.no_grad():
        found = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
            num_beams=count, num_return_sequences=count, max_new_tokens=most, eos_token_id=ends, pad_token_id=ends[0],
            length_penalty=penalty, early_stopping=early, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
    texts = []
    for row, score in zip(found.sequences[:, len(prompt) :].tolist(), found.sequences_scores.tolist(), strict=True):
        place = next((i for i, token in enumerate(row) if token in ends), len(row))
        texts.append({"tokens": row[:place], "score": score})
    return {
        "family": family, "seed": seed, "prompt": prompt, "count": count, "most": most, "ends": ends,
        "length_penalty": penalty, "early": early, "texts": texts,
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if asked.compare:
        bad = 0
        for seed in range(asked.seed, asked.seed + asked.compare):
            case = searched(seed)
            told = difference(case)
            bad += bool(told)
            print(seed, case["family"], case["count"], case["most"], told or "the same", flush=True)
        sys.exit(min(bad, 1))
    lines = ",\n".join(json.dumps(searched(seed)) for seed in range(RECORDS))
    (HERE / "recorded.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
