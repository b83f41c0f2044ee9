"""Starts children that attack the engine, and tells what each of them lived through."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SILENCE = 40.0
"""Seconds without a word after which a child is given up: its own alarm does not interrupt native code."""


@dataclass
class Outcome:
    """How the cases of several children ended: counts by ending, what was wrong, and the slowest case."""

    ended: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    @property
    def cases(self) -> int:
        return sum(self.ended.values())

    def take(self, log: str, child: str, code: int | None) -> None:
        """Adds what a child wrote; ``code`` is its exit status, None when it had to be stopped."""
        case = ""
        for line in log.splitlines():
            if line.startswith("begin "):
                case = line[6:]
                continue
            text, _, last = line.rpartition(" ")
            if line.startswith("BAD"):
                self.bad.append(f"{case}: {line}")
            elif line.startswith("whole: "):
                continue
            else:
                self.ended[text] += 1
                self.slowest = max(self.slowest, (float(last), case))
                continue
            self.ended["bad"] += bool(case)
        if code != 0:
            how = f"was silent for {SILENCE:g} s" if code is None else f"ended with status {code}"
            self.bad.append(f"{case or 'before the first case'}: the process {how}: {child}")


def watch(commands: Sequence[Sequence[str]]) -> Outcome:
    """Runs ``python -m ...`` commands side by side until all have ended."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{i}.log" for i in range(len(commands))]
        children = []
        for command, log in zip(commands, logs, strict=True):
            with log.open("wb") as file:
                started = subprocess.Popen(
                    [sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
                )
            children.append(started)
        heard = [(0, time.monotonic())] * len(children)
        silent: set[int] = set()
        try:
            while any(child.poll() is None for child in children):
                time.sleep(0.1)
                for i, child in enumerate(children):
                    size = logs[i].stat().st_size
                    if size != heard[i][0]:
                        heard[i] = (size, time.monotonic())
                    elif child.poll() is None and time.monotonic() - heard[i][1] > SILENCE:
                        silent.add(i)
                        child.kill()
        finally:
            for child in children:
                child.kill()
                child.wait()
        for i, child in enumerate(children):
            log_text = logs[i].read_text(errors="replace")
            told = [line for line in log_text.splitlines() if _ours(line)]
            rest = [line for line in log_text.splitlines() if not _ours(line)]
            code = None if i in silent else child.returncode
            outcome.take("\n".join(told), " ".join(commands[i]) + "\n" + "\n".join(rest[-15:]), code)
    return outcome


def _ours(line: str) -> bool:
    return line.startswith(("begin ", "BAD", "whole: ", "ran", "converted", "large", "refused"))
