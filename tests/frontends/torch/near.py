"""How far two arrays are from each other, in words."""

from __future__ import annotations

import numpy as np


def compare(found: np.ndarray, want: np.ndarray) -> str:
    """Empty where they agree, up to the rounding of their type."""
    if found.shape != want.shape or found.dtype != want.dtype:
        return f"{found.dtype}{list(found.shape)} for {want.dtype}{list(want.shape)}"
    tolerance = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 2e-5}.get(str(want.dtype), 1e-6)
    kind = np.complex128 if want.dtype.kind == "c" else np.float64
    wide, right = found.astype(kind), want.astype(kind)
    size = np.abs(right[np.isfinite(right)]).max(initial=0.1)
    near = np.isclose(wide, right, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    return "" if near.all() else f"{(~near).sum()} of {near.size} differ: {wide[~near][:3]} for {right[~near][:3]}"
