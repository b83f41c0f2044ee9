"""Judges what ``record_random_loops.py`` or ``record_random_control.py`` recorded:
``python -m tests.tensorflow.loops_trial ARCHIVE.zip``."""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import MNN

FILES = ("saved_model.pb", "frozen.pb", "model.tflite", "model.h5", "model.keras")
TOLERANCE = 2e-5
"""Of the largest number wanted."""


def difference(path: Path, given: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    """What is wrong with this engine's answers; empty when nothing is."""
    model = MNN.load(str(path), precision="high", cache=False)
    found = list(model.run(dict(zip(sorted(model.inputs), given, strict=True))).values())
    if len(found) != len(wanted):
        return f"{len(found)} results, wanted {len(wanted)}"
    for mine, theirs in zip(map(np.asarray, found), wanted, strict=True):
        if mine.shape != theirs.shape:
            return f"shape {mine.shape}, wanted {theirs.shape}"
        away = np.abs(mine - theirs).max(initial=0) / max(np.abs(theirs).max(initial=0), 1e-3)
        if not away <= TOLERANCE:
            return f"off by {away:.1e}"
    return ""


def judged(archive: Path) -> Iterator[tuple[str, str]]:
    """Every file of an archive, and what is wrong with this engine's answer to it; empty when nothing is."""
    with zipfile.ZipFile(archive) as opened:
        for name in sorted({n.split("/")[0] for n in opened.namelist()}):
            with tempfile.TemporaryDirectory() as root:
                opened.extractall(root, [n for n in opened.namelist() if n.startswith(f"{name}/")])
                folder = Path(root) / name
                with np.load(io.BytesIO((folder / "answers.npz").read_bytes())) as held:
                    answers = dict(held)
                given = [answers[k] for k in sorted(answers) if k.startswith("in")]
                wanted = [answers[k] for k in sorted(answers) if k.startswith("out")]
                for file in FILES:
                    if not (folder / file).exists():
                        continue
                    try:
                        said = difference(folder if file == FILES[0] else folder / file, given, wanted)
                    except Exception as error:  # noqa: BLE001 - a fault is what is looked for
                        said = f"{type(error).__name__}: {error}".replace("\n", " ")[:250]
                    yield f"{name}: {file}", said


def main() -> None:
    counts: Counter[str] = Counter()
    for name, said in judged(Path(sys.argv[1])):
        counts[f"{name.rsplit(': ')[-1]} {'wrong' if said else 'right'}"] += 1
        if said:
            print(f"{name}: {said}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
