"""Elementwise functions of constants, computed when their numbers are asked for: a chain of them at once."""

from MNN.expr.fused.deferred import Deferred
from MNN.expr.fused.functions import function_of, is_function

__all__ = ["Deferred", "function_of", "is_function"]
