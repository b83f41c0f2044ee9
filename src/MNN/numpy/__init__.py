"""Arrays with numpy's names and PyMNN's meaning, on top of :class:`MNN.expr.Var`.

Element types are ``float32`` (the default), ``float64``, ``int32``, ``int64`` and ``uint8``. Functions over all axes
give Python numbers. Comparisons give ``int32``. As in PyMNN, ``zeros`` and ``ones`` are ``int32`` unless said otherwise
and integers divided by integers stay integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as _numpy

from MNN.absent import absent as _absent
from MNN.expr.arrays.mistakes import tell as _tell
from MNN.expr.types import dtype as _dtype
from MNN.numpy import linalg, random
from MNN.numpy._arrays import *  # noqa: F403
from MNN.numpy._arrays import __all__ as _arrays
from MNN.numpy._calculation import *  # noqa: F403
from MNN.numpy._calculation import __all__ as _calculation
from MNN.numpy._creating import *  # noqa: F403
from MNN.numpy._creating import __all__ as _creating
from MNN.numpy._editing import *  # noqa: F403
from MNN.numpy._editing import __all__ as _editing
from MNN.numpy._matrices import *  # noqa: F403
from MNN.numpy._matrices import __all__ as _matrices
from MNN.numpy._places import *  # noqa: F403
from MNN.numpy._places import __all__ as _places
from MNN.numpy._reductions import *  # noqa: F403
from MNN.numpy._reductions import __all__ as _reductions
from MNN.numpy._special import *  # noqa: F403
from MNN.numpy._special import __all__ as _special
from MNN.numpy._statistics import *  # noqa: F403
from MNN.numpy._statistics import __all__ as _statistics

float32, float64 = _dtype.float, _dtype.double
int32, int64, uint8 = _dtype.int, _dtype.int64, _dtype.uint8
pi = 3.141592653589793
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None

__all__ = [*_arrays, *_calculation, *_creating, *_editing, *_matrices, *_places, *_reductions, *_special, *_statistics]
__all__ += ["e", "float32", "float64", "inf", "int32", "int64", "linalg", "nan", "newaxis", "pi", "random", "uint8"]

if not TYPE_CHECKING:  # names that are not here are errors for type checkers
    _tell(globals(), "MNN.numpy")

    def __getattr__(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _numpy.__all__:
            what = f"MNN.numpy.{name} is not part of this version"
            raise AttributeError(f"{what}; numpy has it: numpy.{name}(numpy.array(var))")
        raise _absent("MNN.numpy", name, ())
