"""``python -m tests.interop [--check NAME] [--only TEXT] [--processes N]``: prints one line a comparison.

Fails when any of them does.

MNN_OFFICIAL_ENV names the official engine's environment and MNN_INTEROP_MODELS a folder with ``arch`` and ``real``
models; without them they are made and fetched into cache folders.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.interop.tasks import SUMMARIES, Found, by_name, found_for


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--check", choices=("written", "converted", "compressed", *SUMMARIES), action="append")
    parser.add_argument("--only", default="", help="models or cases whose name holds this text")
    parser.add_argument("--processes", type=int, default=1, help="how many compare side by side")
    options = parser.parse_args()
    wanted = options.check or ["written", "converted", "compressed", *SUMMARIES]
    checked = [name for name in wanted if name not in SUMMARIES]
    subjects = [name for name in SUMMARIES if name in wanted]  # first, for they take longest
    subjects += [name for name in (by_name() if checked else ()) if options.only in name]
    ask = functools.partial(found_for, checked=checked, only=options.only)
    failed = total = 0
    with contextlib.ExitStack() as stack:
        answers: Iterable[Found] = map(ask, subjects)
        if options.processes > 1:
            spawn = multiprocessing.get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(options.processes, mp_context=spawn))
            answers = (done.result() for done in as_completed([pool.submit(ask, subject) for subject in subjects]))
        for found in answers:
            if found.text:
                print(found.text, flush=True)
            total, failed = total + found.total, failed + found.failed
    print(f"{total - failed} of {total} comparisons passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
