"""How much memory this machine has."""

from __future__ import annotations

import functools
import os
import pathlib

_CONTROL_GROUP = pathlib.Path("/sys/fs/cgroup/memory.max")
_UNKNOWN = 1 << 40


@functools.cache
def machine_memory() -> int:
    """Bytes of memory that this machine, or the control group of this process, has."""
    found = _UNKNOWN
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return found
    try:
        text = _CONTROL_GROUP.read_text().strip()
    except OSError:
        return found
    return min(found, int(text)) if text.isdigit() else found
