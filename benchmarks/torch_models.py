"""Models of transformers as PyTorch's files beside PyTorch itself, on one thread, in turns on the same core.

    MNN_TRANSFORMERS_PYTHON=PYTHON python -m benchmarks.torch_models [--runs 30] [--only NAME] [--out FOLDER]

``PYTHON`` is the interpreter of an environment with torch and transformers. Weights are random, sizes those of the
published models, the batch is 1. The files, ``.pt2`` of ``torch.export`` and ``.pt`` of ``torch.jit.trace``, are
written to ``FOLDER`` once. What is compared is the minimum CPU time of all runs of a process; each engine has one, and
they take turns. Errors are the largest difference from torch over the largest output.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.process_turns import LOOP, minimum_times

VARIABLE = "MNN_TRANSFORMERS_PYTHON"
MODELS = {
    "bert_base": ("BertModel(BertConfig())", "input_ids", (1, 128)),
    "distilbert": ("DistilBertModel(DistilBertConfig())", "input_ids", (1, 128)),
    "vit_base": ("ViTModel(ViTConfig())", "pixel_values", (1, 3, 224, 224)),
    "t5_small_encoder": ("T5EncoderModel(T5Config())", "input_ids", (1, 128)),
    "whisper_tiny_encoder": ("WhisperModel(WhisperConfig()).encoder", "input_features", (1, 80, 3000)),
    "mobilevit_small": ("MobileViTForImageClassification(MobileViTConfig())", "pixel_values", (1, 3, 256, 256)),
}
_TORCH = """
import sys
from pathlib import Path
import numpy as np, torch
from transformers import *
made, name, sizes, stem = sys.argv[1], sys.argv[2], eval(sys.argv[3]), Path(sys.argv[4])

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = eval(made).eval()
    def forward(self, x):
        return self.model(**{name: x})[0]

torch.set_num_threads(1)
torch.set_grad_enabled(False)
torch.manual_seed(0)
model = Model()
for weight in model.parameters():
    if weight.dim() == 4:  # as transformers begins them, what images hold fades away in a few convolutions
        torch.nn.init.kaiming_normal_(weight)
x = torch.randint(3, 20000, sizes) if name == "input_ids" else torch.randn(sizes)
def run():
    return model(x).numpy()
"""
_WRITE = """
np.savez(f"{stem}.npz", x=x.numpy(), y=run())
torch.export.save(torch.export.export(model, (x,)), f"{stem}.pt2")
torch.jit.save(torch.jit.trace(model, (x,), check_trace=False), f"{stem}.pt")
"""
_OURS = """
import sys
import numpy as np, MNN
model, x = MNN.load(sys.argv[1], threads=1), np.load(sys.argv[2])["x"]
feeds = {next(iter(model.inputs)): x}
def run():
    return model.run(feeds)
"""


def measure(name: str, folder: Path, torch: str, runs: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the exported program here, of the traced one here, and of torch; errors of the first two."""
    import MNN

    made, argument, sizes = MODELS[name]
    stem = folder / name
    given = [made, argument, str(sizes), str(stem)]
    files = [str(stem.with_suffix(suffix)) for suffix in (".pt2", ".pt")]
    if not all(map(os.path.isfile, files)):
        subprocess.run([torch, "-c", _TORCH + _WRITE, *given], check=True)
    commands = [[sys.executable, "-c", _OURS + LOOP, file, f"{stem}.npz"] for file in files]
    times = minimum_times([*commands, [torch, "-c", _TORCH + LOOP, *given]], runs)
    errors = []
    with np.load(f"{stem}.npz") as known:
        for file in files:
            model = MNN.load(file, threads=1)
            (found,) = model.run({next(iter(model.inputs)): known["x"]}).values()
            errors.append(float(np.abs(found - known["y"]).max() / np.abs(known["y"]).max()))
    return times, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=Path("torch-models"))
    given = parser.parse_args()
    torch = os.environ.get(VARIABLE)
    if torch is None:
        raise SystemExit(f"set {VARIABLE} to an interpreter that has torch and transformers")
    given.out.mkdir(parents=True, exist_ok=True)
    ratios = []
    print("| model | .pt2, ms | .pt, ms | torch, ms | torch / .pt2 | torch / .pt | error |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in (n for n in MODELS if given.only in n):
        (exported, traced, theirs), errors = measure(name, given.out, torch, given.runs)
        ratios += [theirs / exported, theirs / traced]
        cells = f"{exported:.1f} | {traced:.1f} | {theirs:.1f} | {ratios[-2]:.2f} | {ratios[-1]:.2f}"
        print(f"| {name} | {cells} | {max(errors):.0e} |", flush=True)
    print(f"\nmean (geometric) {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, lowest {min(ratios):.2f}")


if __name__ == "__main__":
    main()
