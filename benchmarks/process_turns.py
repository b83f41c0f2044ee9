"""Engines in processes of their own that take turns on the same core."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Sequence

TURNS = 5
LOOP = """
import sys, time
run(); run()
print("ready", flush=True)
for line in sys.stdin:
    runs, seconds = line.split()
    best, begin = 9e9, time.process_time()
    for _ in range(int(runs)):
        start = time.process_time()
        run()
        now = time.process_time()
        best = min(best, now - start)
        if now - begin > float(seconds):
            break
    print(best * 1e3, flush=True)
"""
"""What a process does whose ``run()`` is measured: says that it is ready, and answers a number of runs, and a number of
seconds that ends them, with the minimum CPU time of one, in milliseconds."""


def minimum_times(commands: Sequence[Sequence[str]], runs: int, seconds: float = math.inf) -> list[float]:
    """The minimum CPU time of a run, in milliseconds, of each command: a process that ends in :data:`LOOP`. All turns
    of one together have so many ``runs``, or as many as fit into ``seconds``, and one a turn at least."""
    started = [
        subprocess.Popen(list(c), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for c in commands
    ]
    best = [math.inf] * len(started)
    for command, process in zip(commands, started, strict=True):
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready", f"{' '.join(command)[-200:]} does not run"
    for _ in range(TURNS):
        for i, process in enumerate(started):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{max(runs // TURNS, 1)} {seconds / TURNS}\n")
            process.stdin.flush()
            best[i] = min(best[i], float(process.stdout.readline()))
    for process in started:
        process.communicate()
    return best
