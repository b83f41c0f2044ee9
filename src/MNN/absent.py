"""What is said of names that are not here: those of PyMNN are still to come, others are mistakes."""

from __future__ import annotations

from collections.abc import Collection


def absent(module: str, name: str, planned: Collection[str]) -> AttributeError:
    """The error for an attribute that a module lacks; ``planned`` are PyMNN's names that this version does not have."""
    if name in planned:
        return AttributeError(f"{module}.{name} is part of PyMNN but not of this version yet")
    return AttributeError(f"module '{module}' has no attribute '{name}'")


__all__ = ["absent"]
