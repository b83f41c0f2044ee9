"""How far long work is: step of steps, steps a second and time left; on the error stream, and only on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from MNN.cli.output import progress_console
from MNN.progress import Say


class _Steps(ProgressColumn):
    """``12/45, 3.1/s, 0:11 left``; nothing where the number of steps is unknown."""

    def render(self, task: Task) -> Text:
        if not task.total:
            return Text()
        parts = [f"{task.completed:.0f}/{task.total:.0f}"]
        if task.speed:
            parts.append(f"{task.speed:.3g}/s")
        if task.time_remaining is not None:
            minutes, seconds = divmod(round(task.time_remaining), 60)
            parts.append(f"{minutes}:{seconds:02d} left")
        return Text(", ".join(parts))


@contextlib.contextmanager
def progress(title: str) -> Iterator[Say]:
    """A line that is gone when the work is done; gives what to tell it."""
    screen = progress_console()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), _Steps(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as shown:
        task = shown.add_task(title, total=None)

        def say(text: str, done: int = 0, total: int = 0) -> None:
            now = shown.tasks[task]
            if (total or None) != now.total or done < now.completed:  # the next part of the work: its own rate
                shown.reset(task, total=total or None, completed=0)
            shown.update(task, description=f"{title}: {text}", completed=done)

        yield say
