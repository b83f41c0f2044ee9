"""A process that puts many damaged copies of one file to the engine and says how each ended.

    python -m tests.hostile.child FILE FORM WAYS CASE [CASE ...]

WAYS are ways to run (see :func:`tests.hostile.attempt.attempt`), separated by commas; the cases take turns.

FILE may be ``operators``: then the cases ``case:number`` are those of :mod:`tests.hostile.operators`. Else a case is
``kind:number`` or ``kind:first-last/step`` of :mod:`tests.hostile.mutate`. Before each case its name is
written, after it how it ended and the seconds it took, so that whoever watches knows what the process died of. A line
that begins with ``BAD`` tells of an exception that is no MNNError, or of a case out of bounds.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from MNN.backends.cpu.codegen.library import shared_library
from MNN.cache.entries import Cache
from MNN.frontends import load_graph
from tests.hostile.attempt import attempt
from tests.hostile.mutate import Mutations, quiet_ranges
from tests.hostile.operators import files

SECONDS = 10
MEMORY = 1 << 30
CUTS = 200


class TooLong(BaseException):
    """A case was still at work after :data:`SECONDS`."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TooLong


def main(path: str, form: str, ways: list[str], cases: list[str]) -> None:
    """Runs the cases; exits with 0 also when some were bad.

    What is attacked lies in front of the kernels: one that an earlier process compiled need not be compiled again.
    """
    shared_library(False).cache = Cache.default()
    if path == "operators":
        data = files()[0][1]
    else:
        data = Path(path).read_bytes()
        graph = load_graph(data, form)
        constants = [v.array().tobytes() for v in graph.values() if v.is_const and v.array().dtype != object]
        mutations = Mutations(data, form, quiet_ranges(data, constants), seed=len(data))
    for way in ("meaning", "kernels", "checked", "convert"):
        ended = attempt(data, form, way)
        _say(f"whole: {ended}" if ended in ("ran", "converted") else f"BAD whole: the undamaged file was {ended}")
    gc.collect()
    gc.freeze()  # what is there by now stays, and need not be looked at each time
    signal.signal(signal.SIGALRM, _alarm)
    # What is counted is the address space: nothing can be hidden from it, and going beyond it fails at once.
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    for kind, number in _numbered(cases):
        _say(f"begin {kind}:{number}" + (f" {files()[number][0]}" if kind == "case" else ""))
        start = time.perf_counter()
        if kind == "case":
            damaged = files()[number][1]
        elif kind == "cut":
            damaged = mutations.cut(number, CUTS)
        else:
            damaged = mutations.mutate(number) if kind == "mutate" else mutations.edit(number)
        _say(f"{_bounded(damaged, form, ways[number % len(ways)])} {time.perf_counter() - start:.3f}")
        if number % 32 == 0:
            gc.collect()  # graphs are cycles


def _bounded(data: bytes, form: str, way: str) -> str:
    signal.alarm(SECONDS)
    try:
        return attempt(data, form, way)
    except TooLong as error:
        return f"BAD longer than {SECONDS} s: {_trace(error)}"
    except BaseException as error:  # noqa: BLE001  (whatever it is, it is what the test looks for)
        return f"BAD {_trace(error)}"
    finally:
        signal.alarm(0)


def _trace(error: BaseException) -> str:
    places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:300] + " @ " + " < ".join(places[:-9:-1])


def _numbered(cases: list[str]) -> Iterator[tuple[str, int]]:
    for case in cases:
        kind, _, numbers = case.partition(":")
        span, _, step = numbers.partition("/")
        first, _, last = span.partition("-")
        for number in range(int(first), int(last or first) + 1, int(step or 1)):
            yield kind, number


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3].split(","), sys.argv[4:])
