"""Coverage-guided fuzzing of the loaders with atheris (an extra: ``pip install atheris``).

    python -m tests.hostile.fuzz FORM [--seconds 120] [--corpus FOLDER]

``FORM`` is one of :data:`tests.hostile.fuzz_forms.FORMS`: a format of models, or of weights. Starts from small files of
it, mutates what reaches new code of the front ends, the file format and the lowering, and stops at the first file that
ends in anything but a right load or an MNNError. That file is kept as ``crash-...``; put it into
``tests/hostile/finds`` with the mend, so that :mod:`tests.hostile.test_finds` watches over it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["MNN.frontends", "MNN.schema", "MNN.ops", "MNN.passes", "MNN.ir"]):
    from tests.hostile.fuzz_forms import FORMS

WAYS = ("meaning", "convert")


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzzes a loader.")
    parser.add_argument("form", choices=sorted(FORMS))
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--corpus", type=Path, help="where inputs that reach new code are kept")
    chosen = parser.parse_args()
    form = FORMS[chosen.form]
    turn = 0

    def one(data: bytes) -> None:
        nonlocal turn
        turn += 1
        form.put(data, WAYS[turn % len(WAYS)])

    with tempfile.TemporaryDirectory() as folder:
        for name, data in form.seeds():
            (Path(folder) / name).write_bytes(data)
        corpus = [str(chosen.corpus)] if chosen.corpus else []
        limits = [f"-max_total_time={chosen.seconds}", "-max_len=20000", "-timeout=20", "-rss_limit_mb=4096"]
        atheris.Setup([sys.argv[0], *limits, *corpus, folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
