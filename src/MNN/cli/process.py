"""What the operating system says of this process."""

from __future__ import annotations

import sys


def peak_memory_mb() -> float:
    """The largest resident size so far, in MiB; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
