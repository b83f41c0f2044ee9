"""Whose turn it is where several threads use one decoder."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """A lock that threads get in the order in which they asked for it: who steps again and again lets those in who wait
    to change something in between. Whoever has it may take it again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me, place = threading.get_ident(), object()
        with self._changed:
            if self._owner != me:
                self._waiting.append(place)
                try:
                    self._changed.wait_for(lambda: self._owner is None and self._waiting[0] is place)
                    self._owner = me
                finally:  # where the wait was interrupted, the next one goes on
                    self._waiting.remove(place)
                    self._changed.notify_all()
            self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._changed.notify_all()


__all__ = ["Turns"]
