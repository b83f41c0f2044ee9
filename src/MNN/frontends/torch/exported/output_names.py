"""Names of a program's outputs: those that the module's own result has for them, keys of dictionaries and fields."""

from __future__ import annotations

import json
from typing import Any


def paths(out_spec: str, count: int) -> list[str] | None:
    """A name for each of ``count`` outputs, such as ``logits`` or ``past.0``; None where the result has no names, and
    for what cannot be read (this is for the eye alone)."""
    try:
        spec = json.loads(out_spec)
        found = _walk(spec[1], "", 0)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    named = all(found) and any(not p.replace(".", "").isdecimal() for p in found)
    return found if len(found) == count and named and len(set(found)) == count else None


def _walk(spec: Any, path: str, depth: int) -> list[str]:
    kind, children = spec["type"], spec["children_spec"]
    if depth > 32:
        raise ValueError("too deep")
    if kind is None:
        return [path.lstrip(".")]
    keys = [str(i) for i in range(len(children))]
    context = spec.get("context")
    listed = json.loads(context) if isinstance(context, str) else context
    if isinstance(listed, list) and len(listed) == len(children) and all(isinstance(k, str) for k in listed):
        keys = listed
    elif len(children) == 1 and not path and kind in ("builtins.tuple", "builtins.list"):
        return _walk(children[0], path, depth + 1)
    return [p for key, child in zip(keys, children, strict=True) for p in _walk(child, f"{path}.{key}", depth + 1)]
