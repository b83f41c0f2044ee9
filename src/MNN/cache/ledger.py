"""What the cache folder has grown by since somebody last looked at all of it.

To look at some ten thousand entries takes a second, and every session of every process writes a few. So a file beside
the parts says what they held when it was last looked at, and is lengthened by one byte for every 4 KB that are written
since, by whichever process: the whole is only looked at again when that may be more than the limit. What is counted is
never less than what was written, but for what is written while another process looks; and once a day the whole is
looked at in any case, for what was put there or removed by other means.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import struct
import time

_NAME = "written"
_HEAD = struct.Struct("<8sQd")
_MAGIC = b"MNNGREW1"
_UNIT = 4096
_MOST = 1 << 20
"""Bytes that the file grows to before the whole is looked at, whatever the limit."""
_DAY = 86400
_counted: dict[pathlib.Path, int] = {}
"""What caches hold whose file cannot be written, as far as this process knows."""


def grown(root: pathlib.Path, nbytes: int, limit: int) -> bool:
    """Notes that ``nbytes`` more are in the cache at ``root``; whether it must be looked at, as it may hold more than
    ``limit`` bytes now, or nobody has looked at it today."""
    try:
        return _noted(root, nbytes, limit)
    except OSError:
        if root not in _counted:
            return True
        _counted[root] += nbytes
        return _counted[root] > limit


def _noted(root: pathlib.Path, nbytes: int, limit: int) -> bool:
    with open(root / _NAME, "ab+", buffering=0, opener=_no_link) as file:
        file.seek(0)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return True
        magic, held, looked = _HEAD.unpack(head)
        if magic != _MAGIC or not 0 <= time.time() - looked < _DAY:
            return True
        file.write(bytes(min(-(-nbytes // _UNIT), _MOST)))  # at the end, wherever others have moved that meanwhile
        units = file.tell() - _HEAD.size
    return bool(units >= _MOST or held + units * _UNIT > limit)


def looked(root: pathlib.Path, held: int) -> None:
    """Notes that the parts of the cache at ``root`` hold ``held`` bytes now."""
    _counted.pop(root, None)
    try:
        with open(root / _NAME, "wb", buffering=0, opener=_no_link) as file:
            file.write(_HEAD.pack(_MAGIC, held, time.time()))
    except OSError:
        _counted[root] = held


def _no_link(path: str, flags: int) -> int:
    """Opens the file itself: where the folder is one that others can write to, a link could be to anything."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def forget(root: pathlib.Path) -> None:
    """Has whoever writes next look at the whole."""
    _counted.pop(root, None)
    with contextlib.suppress(OSError):
        (root / _NAME).unlink(missing_ok=True)
