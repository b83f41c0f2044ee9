"""Networks of drawn blocks in every kind of file, judged by Keras' answers.

    python -m tests.keras.random_trial FOLDER [SEED ...]

``FOLDER`` is what :mod:`tests.keras.random_networks` wrote. Files of full numbers must agree with Keras up to rounding;
quantised ones may be as far from it as LiteRT's reference kernels are, and half as much again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import MNN
from MNN.errors import MNNError
from tests.frontends.tflite.litert import Request, answers

TOLERANCE = 1e-4
WHOLE = ("keras", "h5", "saved", "float.tflite")
QUANTISED = ("dynamic.tflite", "int8.tflite")


def result(path: Path, given: list[np.ndarray]) -> np.ndarray:
    """This engine's answer for arrays in the order of the inputs' names."""
    model = MNN.load(path, threads=1, precision="high")
    names = sorted(model.inputs)
    return np.asarray(next(iter(model.run(dict(zip(names, given, strict=True))).values())))


def wrong(folder: Path, seed: int) -> Iterator[tuple[str, str]]:
    """The kinds of files with what is wrong about them; nothing where they agree."""
    arrays = np.load(folder / f"{seed}.npz")
    given, wanted = [arrays[k] for k in sorted(arrays.files) if k.startswith("x")], arrays["y"].astype(np.float64)
    size = np.abs(wanted).max()
    for kind in WHOLE + QUANTISED:
        path = folder / f"{seed}.{kind}"
        if not path.exists():
            continue
        try:
            found = result(path, given)
        except MNNError as error:
            yield kind, f"{type(error).__name__}: {str(error)[:300]}"
            continue
        if found.shape != wanted.shape:
            yield kind, f"{list(found.shape)}, wanted {list(wanted.shape)}"
            continue
        off, bound = float(np.abs(found - wanted).max() / size), TOLERANCE
        if kind in QUANTISED:
            peer = answers({"model": Request(path.read_bytes(), [given], reference=True)})["model"]
            if peer.error:
                continue
            theirs = float(np.abs(peer.outputs[0][0] - wanted).max() / size)
            bound = 1.5 * theirs + 0.02
        if not off <= bound:
            yield kind, f"off by {off:.2g}, {bound:.2g} allowed"


def main() -> None:
    folder, chosen = Path(sys.argv[1]), [int(s) for s in sys.argv[2:]]
    counts: Counter[str] = Counter()
    for seed in chosen or sorted(int(p.stem) for p in folder.glob("*.npz")):
        for kind in WHOLE + QUANTISED:
            counts[f"{kind}: files"] += (folder / f"{seed}.{kind}").exists()
        for kind, said in wrong(folder, seed):
            counts[f"{kind}: wrong"] += 1
            print(f"{seed}.{kind}: {said}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
