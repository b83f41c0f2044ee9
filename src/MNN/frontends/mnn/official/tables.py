"""Sets of operations that files write alike, as data."""

from __future__ import annotations

#: Binary operations whose results are truth values here and 32-bit integers for the official engine.
COMPARISONS = frozenset({"GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOTEQUAL"})
