"""Numbers of 8 bits and less that are stored but never computed with: conversions to and from them, on the host.

ONNX, "Float stored in 8 bits" (onnx.ai/onnx/technical/float8.html), "4 bit types" and the Cast operator's table are
the source. Floats round to nearest even; those that are too large become the largest number where ``saturate`` is set,
and else what the type has for it (infinity or NaN). Integers of 4 and 2 bits keep the low bits.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from MNN.ir.dtype import DType
from MNN.reference.scalar import convert

_BITS = {DType.I4: 4, DType.U4: 4, DType.I2: 2, DType.U2: 2}
_EXPONENT_BIAS, _NAN = 127, 255
ROUND_MODES = ("up", "down", "nearest")


def limits(dtype: DType) -> tuple[int, int] | None:
    """Smallest and largest number of a narrow integer; None for other types."""
    bits = _BITS.get(dtype)
    if bits is None:
        return None
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype in (DType.I4, DType.I2) else (0, (1 << bits) - 1)


def cast(array: np.ndarray, to: DType, saturate: bool = True, round_mode: str = "up") -> np.ndarray:
    """``array`` as ``to``; one of the two types is narrow. ``round_mode`` concerns powers of two (``f8e8m0``) alone."""
    source = DType.of(array)
    if source.is_narrow:
        numbers = array.astype(np.float32)
        if not to.is_narrow:
            with np.errstate(all="ignore"):
                return convert(numbers, DType.F32, to).astype(to.numpy)
        array = numbers
    with np.errstate(all="ignore"):
        if to in _BITS:
            return _low_bits(array, to)
        numbers = array.astype(np.float32)
        if to is DType.F8E8M0:
            return _power_of_two(numbers, saturate, round_mode)
        if saturate or to is DType.F4E2M1:  # which has neither infinity nor NaN
            largest = float(ml_dtypes.finfo(to.numpy).max)
            numbers = np.clip(numbers, -largest, largest)
        return numbers.astype(to.numpy)


def _low_bits(array: np.ndarray, to: DType) -> np.ndarray:
    bits = _BITS[to]
    whole = convert(array, DType.of(array), DType.I64) & ((1 << bits) - 1)
    if to in (DType.I4, DType.I2):
        sign = 1 << (bits - 1)
        whole = (whole ^ sign) - sign
    return whole.astype(np.int8).astype(to.numpy)


def _power_of_two(numbers: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    """The exponent alone (OCP Microscaling Formats, 2023): no sign, no zero; below the smallest is the smallest."""
    mantissa, exponent = np.frexp(numbers.astype(np.float64))  # mantissa in [0.5, 1)
    up = {"up": mantissa > 0.5, "down": np.zeros_like(mantissa, bool), "nearest": mantissa >= 0.75}[round_mode]
    exponent = np.where(numbers == 0, -_EXPONENT_BIAS, exponent - 1 + up)
    exponent = np.where(np.isposinf(numbers), _EXPONENT_BIAS + 1, exponent)
    codes = np.clip(exponent + _EXPONENT_BIAS, 0, 2 * _EXPONENT_BIAS if saturate else _NAN)
    codes = np.where(np.isnan(numbers) | (numbers < 0), _NAN, codes)
    return codes.astype(np.uint8).view(DType.F8E8M0.numpy)
