"""Many damaged copies of small files of one form, each within bounds of time and memory; needs no atheris.

    python -m tests.hostile.sweep FORM [--cuts 20] [--mutations 1000] [--first 0]

``FORM`` is one of :data:`tests.hostile.fuzz_forms.FORMS`. Prints how the cases ended, and every one that took longer
than :data:`~tests.hostile.child.SECONDS`, more than :data:`~tests.hostile.child.MEMORY` bytes, or ended in anything but
a right load or an MNNError.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.hostile.child import MEMORY, SECONDS, TooLong
from tests.hostile.fuzz_forms import FORMS, Form
from tests.hostile.mutate import Mutations

WAYS = ("meaning", "convert")


def cases(form: Form, name: str, cuts: int, mutations: int, first: int) -> Iterator[tuple[str, bytes]]:
    """Names and contents: all cuts of the first files, then mutations of all files in turn."""
    sources = [(key, Mutations(data, name, [], seed=len(data))) for key, data in form.seeds()]
    for i in range(cuts):
        key, source = sources[i * len(sources) // cuts]
        yield f"cut {i} of {key}", source.cut(50 + i, 50 + cuts)
    for i in range(first, first + mutations):
        key, source = sources[i % len(sources)]
        yield f"mutation {i} of {key}", source.mutate(i)


def _alarm(number: int, frame: object) -> None:
    raise TooLong


def main() -> int:
    parser = argparse.ArgumentParser(description="Puts damaged files to a loader.")
    parser.add_argument("form", choices=sorted(FORMS))
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    form = FORMS[chosen.form]
    for _, data in form.seeds():  # what is imported and compiled once is no part of a case
        form.put(data, WAYS[0])
        break
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGALRM, _alarm)
    ended: Counter[str] = Counter()
    slowest = (0.0, "")
    for turn, (name, data) in enumerate(cases(form, chosen.form, chosen.cuts, chosen.mutations, chosen.first)):
        start = time.process_time()
        signal.alarm(6 * SECONDS)
        try:
            how = str(form.put(data, WAYS[turn % 2]))
        except (Exception, TooLong) as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            how = "BAD"
            places = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
            print(f"{name}: {type(error).__name__}: {str(error)[:200]} @ {' < '.join(places[:-6:-1])}", flush=True)
        signal.alarm(0)
        taken = time.process_time() - start  # others may be at work on this machine too
        if taken > SECONDS:
            print(f"{name}: {taken:.1f} s", flush=True)
            how = "BAD"
        ended[how] += 1
        slowest = max(slowest, (taken, name))
    print(f"{chosen.form}: {dict(ended)}, the slowest {slowest[0]:.2f} s ({slowest[1]})")
    return 1 if ended["BAD"] else 0


if __name__ == "__main__":
    sys.exit(main())
