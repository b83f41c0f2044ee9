"""How far long work is: step of steps, steps a second and time left; on the error stream, and only on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from MNN.cli.display.output import progress_console
from MNN.progress import ReportProgress, silent


class _Steps(ProgressColumn):
    """``12/45, 3.1/s, 0:11 left``, where the number of steps is known; and how long it has taken so far in all."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))
        self._begin: float | None = None

    def render(self, task: Task) -> Text:
        now = task.get_time()
        self._begin = now if self._begin is None else self._begin
        parts = []
        if task.total:
            parts.append(f"{task.completed:.0f}/{task.total:.0f}")
            if task.speed:
                parts.append(f"{task.speed:.3g}/s")
            if task.time_remaining is not None:
                parts.append(f"{_clock(task.time_remaining)} left")
        parts.append(_clock(now - self._begin))
        return Text(", ".join(parts))


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextlib.contextmanager
def progress(title: str = "") -> Iterator[ReportProgress]:
    """A line that is gone when the work is done; gives what to tell it. What is too long for the terminal is cut."""
    screen = progress_console()
    if not screen.is_terminal:
        yield silent
        return
    words = TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
    )
    columns = (SpinnerColumn(), words, _Steps())
    with Progress(*columns, console=screen, transient=True, expand=True) as shown:
        task = shown.add_task(title, total=None)

        def report_progress(text: str, done: int = 0, total: int = 0) -> None:
            now = shown.tasks[task]
            if (total or None) != now.total or done < now.completed:  # the next part of the work: its own rate
                shown.reset(task, completed=done)
                now.total = total or None  # to reset, None means as before
            shown.update(task, description=f"{title}: {text}" if title else text, completed=done)

        yield report_progress
