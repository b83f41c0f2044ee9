"""Functions for results that a store rounds to bf16's 8 bits at once: absolute errors of 5e-5, relative ones of 7e-5.

They take the place of functions exact to the last bits of f32, which would cost more than the product in front of
them: GELU's error function and SiLU's division.
"""

from __future__ import annotations

from collections.abc import Sequence

from MNN.backends.cpu.lang.module import Builder, Value
from MNN.backends.cpu.math.functions import LOG2_E, clamp, horner, scalef
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, Instr

_ERF_END = 2.9
_ERF = (
    1.1280336380004883, -0.3739294707775116, 0.10871676355600357, -0.02330518327653408, 0.0035132067278027534,
    -0.00034695270005613565, 1.9877334125339985e-05, -4.961682407156331e-07,
)  # fmt: skip
"""Coefficients of x, x^3, ...: minimax up to ``_ERF_END``, where erf is 1 - 4.2e-5."""
_EXP2 = (0.9999280571937561, 0.6932609677314758, 0.2426111251115799, 0.0551716685295105)
"""Of 2^x for |x| <= 1/2, by relative error."""
_EXP_RANGE = 110.0  # beyond, the result is 0 or infinite


def allowed(body: Body) -> bool:
    """Whether all results of a body are rounded to bf16 by the store and nothing is summed up."""
    code = body.code
    return all(code[o].dtype is DType.BF16 for o in body.outputs) and not any(i.op.startswith("reduce") for i in code)


def apply(b: Builder, instr: Instr, x: Sequence[Value], source: DType) -> Value | None:
    """The form with the accuracy of bf16 of an instruction on f32; None where there is none."""
    if source is not DType.F32 or instr.dtype is not DType.F32:
        return None
    if instr.op == "erf":
        return _erf(b, x[0])
    if instr.op == "exp":
        return _exp(b, x[0])
    if instr.op in ("div", "recip") and b.can(can.RECIPROCAL, 32 * x[-1].type.lanes):
        if x[-1].number is not None:
            return None
        inverse = _reciprocal(b, x[-1])
        return inverse if instr.op == "recip" or x[0].number == 1.0 else b.mul(x[0], inverse)
    return None


def _erf(b: Builder, x: Value) -> Value:
    x = clamp(b, x, -_ERF_END, _ERF_END)
    return b.mul(x, horner(b, b.mul(x, x), _ERF))


def _exp(b: Builder, x: Value) -> Value | None:
    """2^n 2^f with n + f = x / log 2."""
    t = b.mul(clamp(b, x, -_EXP_RANGE, _EXP_RANGE), LOG2_E)
    n = b.intrinsic("roundeven", t)
    return scalef(b, horner(b, b.sub(t, n), _EXP2), n)


def _reciprocal(b: Builder, x: Value) -> Value:
    """1 / x within 2^-14 (Intel's ``vrcp14ps``); zeros and infinities give each other."""
    return b.perform(can.RECIPROCAL, x.type, x)
