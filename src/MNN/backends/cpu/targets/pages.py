"""Pages of memory that hold code."""

from __future__ import annotations

import ctypes


def protect(address: int, size: int, how: int) -> None:
    """Changes what whole pages may be used for (``mmap.PROT_...``); ``OSError`` when the system does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if size and libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), how):
        raise OSError(ctypes.get_errno(), "memory cannot be made executable")


__all__ = ["protect"]
