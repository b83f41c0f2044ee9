"""``python -m tests.interop [--check NAME] [--only TEXT]``: prints one line a comparison, fails when any fails.

MNN_OFFICIAL_ENV names the official engine's environment and MNN_INTEROP_MODELS a folder with ``arch`` and ``real``
models; without them they are made and fetched into cache folders.
"""

from __future__ import annotations

import argparse
import sys

from tests.interop import caches, cases, checks, random_cases
from tests.interop.models import models

#: Models on which compressed weights are compared (small ones of different make).
COMPRESSED = ("squeezenet1_1", "mobilenet_v2", "resnet18", "shufflenet_v2", "vit_tiny", "silero_vad_half", "ppocr_rec")

#: Comparisons that fail by a fault of the official engine, with the reason.
FAULTS = {
    ("written", "arch/x3d_m"): "groups of a convolution in 3 dimensions: it computes as if there were none",
    ("written, run there", "caffe/face_ssd"): "it looks at all candidates, not at the best nmsTopK of each class",
}

SUMMARIES = {"cases": cases.run, "random": random_cases.run, "caches": caches.run}
"""Checks that are no models', by name."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--check", choices=("written", "converted", "compressed", *SUMMARIES), action="append")
    parser.add_argument("--only", default="", help="models or cases whose name holds this text")
    options = parser.parse_args()
    wanted = options.check or ["written", "converted", "compressed", *SUMMARIES]
    failed = total = 0
    for model in models() if set(wanted) - SUMMARIES.keys() else []:
        if options.only not in model.name:
            continue
        for name in wanted:
            kind, plain = model.name.split("/")
            if name in SUMMARIES or (name == "compressed" and plain not in COMPRESSED):
                continue
            if name == "converted" and kind in (
                "nbits",
                "caffe",
                "torch",
                "tflite",
                "keras",
            ):  # no such operator; ONNX alone
                continue
            for result in getattr(checks, name)(model):
                fault = FAULTS.get((name, model.name)) or FAULTS.get((result.check, model.name))
                print(result if fault is None else f"its fault, {fault}: {result}", flush=True)
                total, failed = total + 1, failed + (result.passed == (fault is not None))
    for name, run in SUMMARIES.items():
        if name in wanted:
            summary = run(options.only)
            print(summary.text, flush=True)
            total, failed = total + summary.total, failed + summary.unexpected
    print(f"{total - failed} of {total} comparisons passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
