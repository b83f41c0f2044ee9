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
    best = 9e9
    for _ in range(int(line)):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    print(best * 1e3, flush=True)
"""
"""What a process does whose ``run()`` is measured: says that it is ready, and answers a number of runs with the minimum
CPU time of one, in milliseconds."""


def minimum_times(commands: Sequence[Sequence[str]], runs: int) -> list[float]:
    """The minimum CPU time of a run, in milliseconds, of each command: a process that ends in :data:`LOOP`."""
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
            process.stdin.write(f"{max(runs // TURNS, 1)}\n")
            process.stdin.flush()
            best[i] = min(best[i], float(process.stdout.readline()))
    for process in started:
        process.communicate()
    return best
