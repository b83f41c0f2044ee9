"""What peft and transformers compute for small random models with adapters: recorded for the tests, or compared.

    python -m tests.llm.adapters.record                  # writes recorded.json and recorded.npz anew
    python -m tests.llm.adapters.record --compare 20     # 20 random cases of every family, against this engine

Needs torch, transformers and peft (5.24 and 0.21 recorded what is there now) beside what this package needs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import peft
import torch
import transformers

from tests.llm import cases as models
from tests.llm.adapters.cases import FAMILIES, TARGETS, Case, check, parts
from tests.llm.stored import in_memory, stored_shapes

HERE = Path(__file__).parent
RECORDED = ("llama", "qwen2", "gemma3_text", "deepseek_v3", "gpt_neox", "qwen3_5_text")
ROWS = 4
TOLERANCE = 1e-4


def reference(family: str, seed: int) -> Case:
    """A random model with two adapters."""
    rng, values = np.random.default_rng(seed), models.config(family, seed)
    config = transformers.AutoConfig.for_model(family, **values, attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    held = {n: list(t.shape) for n, t in model.state_dict().items()}
    tied = values.get("tie_word_embeddings", config.tie_word_embeddings)
    held = {n: s for n, s in held.items() if not (tied and n == "lm_head.weight")}
    shapes = stored_shapes(family, held)
    data = in_memory(family, list(held), models.weights(shapes, seed))
    if tied:
        data = data | {"lm_head.weight": data["model.embed_tokens.weight"]}
    model.load_state_dict({n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in data.items()})
    told = {k: v for k, v in config.to_dict().items() if isinstance(v, (int, float, str, list, dict)) or v is None}
    layers = [n.removesuffix(".weight") for n in held if n.split(".")[-2] in TARGETS and len(held[n]) == 2]
    prompt = models.tokens(seed, 40)
    case = Case(told | {"model_type": family}, shapes, seed, [], prompt, np.zeros(0))
    logits = [_logits(model, prompt)]
    kinds = sorted({layer.split(".")[-1] for layer in layers})
    if any("experts" in name for name in shapes):  # which peft reaches as parameters; attention it does not
        kinds = sorted({layer.split(".")[-1] for layer in layers if "self_attn" in layer})
    for number in range(2):
        some = [str(n) for n in rng.choice(kinds, int(rng.integers(1, len(kinds) + 1)), replace=False)]
        rank, alpha = int(rng.integers(1, 9)), int(rng.integers(1, 17))
        asked = {"r": rank, "lora_alpha": alpha, "use_rslora": bool(rng.integers(2)), "target_modules": some}
        changed = peft.get_peft_model(model, peft.LoraConfig(**asked, init_lora_weights=False)).eval()
        names = [n for n in changed.state_dict() if ".lora_A." in n]
        modules = [n.removeprefix("base_model.model.").replace(".lora_A.default.weight", "") for n in names]
        case.adapters.append(asked | {"modules": modules})
        own = {n.replace("_A.weight", "_A.default.weight").replace("_B.weight", "_B.default.weight"): a
               for n, a in parts(case, number).items()}  # fmt: skip
        missing = changed.load_state_dict({n: torch.from_numpy(a) for n, a in own.items()}, strict=False)
        assert not missing.unexpected_keys
        logits.append(_logits(changed, prompt))
        model = changed.unload()
    case.logits = np.stack(logits)[:, -ROWS:]
    return case


def _logits(model: torch.nn.Module, prompt: list[int]) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = model(torch.tensor([prompt])).logits[0].numpy()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked, bad = parser.parse_args(), 0
    transformers.logging.set_verbosity_error()
    for family in FAMILIES if asked.compare else ():
        worst = 0.0
        for seed in range(asked.seed, asked.seed + asked.compare):
            try:
                case = reference(family, seed)
            except (ValueError, TypeError) as error:
                print(f"{family} {seed}: refused by transformers: {error}")
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found = check(case, Path(folder))
                except Exception as error:  # noqa: BLE001 - told, and the next one tried
                    print(f"{family} {seed}: {type(error).__name__}: {error}")
                    bad += 1
                    continue
            bad += found > TOLERANCE
            worst = max(worst, found)
        print(f"{family}: largest error {worst:.1e}", flush=True)
    if not asked.compare:
        found = [reference(family, 0) for family in RECORDED]
        lines = ",\n".join(json.dumps(case.notes()) for case in found)
        (HERE / "recorded.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        np.savez_compressed(HERE / "recorded.npz", **{c.config["model_type"]: c.logits for c in found})
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
