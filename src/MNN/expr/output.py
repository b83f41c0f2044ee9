"""One output of an expression graph's node: what it is, its numbers, and what writes them."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from MNN.errors import MNNError, ShapeError
from MNN.expr import compute
from MNN.expr.fused import Deferred, copies
from MNN.expr.node import Expr
from MNN.expr.types import Ints, data_format, dtype, public
from MNN.ir.dtype import DType

_MAKING = threading.Lock()
KINDS = {kind.numpy: kind for kind in (DType.F32, DType.F64, DType.I32, DType.I64)}
"""Element types of numbers that a Var may be alone."""


def _locked(array: np.ndarray) -> np.ndarray:
    """The same numbers, not to be written to."""
    shared: Any = array[...]
    shared.setflags(False)  # by position, at half the cost
    return shared  # type: ignore[no-any-return]


class Output:
    """What a Var is and holds; :class:`~MNN.expr.var.Var` adds what is computed with it.

    A constant of few numbers is at first those numbers alone (``_few``), which is all that functions at once need; or
    what computes them, in the place of the node of a graph. The node (``_expr``) is made when something asks for it,
    and has the numbers from then on."""

    __slots__ = ("_few", "_index", "_layout", "_node", "_unconverted")
    _few: np.ndarray | None
    """The numbers of a constant without a node; at most ``few.ALONE``, of an element type of ``KINDS``."""
    _node: Expr | Deferred
    """Not to be looked at where there are numbers alone."""

    def __init__(self, expr: Expr, index: int, layout: data_format) -> None:
        self._node, self._index, self._layout, self._few = expr, index, layout, None

    @property
    def _expr(self) -> Expr:
        if self._few is not None or type(self._node) is Deferred:
            with _MAKING:
                few = self._few
                if few is not None:
                    self._node = Expr.leaf("Const", KINDS[few.dtype], few.shape, few)
                elif type(self._node) is Deferred:
                    self._node = Expr.later(self._node)
                self._few = None  # which generated code may have set meanwhile, of what it computed
        node: Any = self._node
        return node  # type: ignore[no-any-return]

    @_expr.setter
    def _expr(self, expr: Expr) -> None:
        self._node, self._few = expr, None

    def _now(self, most: int) -> np.ndarray | None:
        """The numbers of a constant of at most so many that are not computed yet; None for everything else. They are
        numbers alone from then on."""
        node = self._node
        if type(node) is not Deferred or math.prod(node.shape) > most or node.function.kind not in KINDS.values():
            return None
        array = copies.contiguous(node.numbers())
        with _MAKING:
            if self._node is node:
                self._few = array
        return array

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def _kind(self) -> DType:
        few = self._few
        if few is not None:
            return KINDS[few.dtype]
        if type(self._node) is Deferred:
            return self._node.function.kind
        expr = self._expr
        return expr.leaf_type[0] if expr.op == "Const" else expr.types()[self._index][0]

    @property
    def shape(self) -> list[int]:
        """Sizes, in the order of :attr:`data_format`."""
        return list(self._sizes)

    @property
    def _sizes(self) -> tuple[int, ...]:
        few = self._few
        if few is not None:
            return few.shape
        if type(self._node) is Deferred:
            return self._node.shape
        expr = self._expr
        return expr.leaf_type[1] if expr.op == "Const" else expr.types()[self._index][1]

    @property
    def ndim(self) -> int:
        return len(self._sizes)

    @property
    def size(self) -> int:
        """The number of elements."""
        few = self._few
        return math.prod(self._sizes) if few is None else few.size

    @property
    def dtype(self) -> dtype:
        return public(self._kind)

    @property
    def data_format(self) -> data_format:
        return self._layout

    @property
    def name(self) -> str:
        return self._expr.name

    @name.setter
    def name(self, value: str) -> None:
        self._expr.name = str(value)

    @property
    def op_type(self) -> str:
        """The operator that makes it: Const, Input, Trainable, or an operator's name."""
        return str(self._expr.attrs.get("opType", self._expr.op))

    @property
    def valid(self) -> bool:
        """Whether its element type and shape are known (and fit)."""
        try:
            self._expr.types()
        except MNNError:
            return False
        return True

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _array(self) -> np.ndarray:
        few = self._few
        if few is not None:
            return few
        if type(self._node) is Deferred:
            return self._node.numbers()
        expr = self._expr
        if expr.op == "Const" and (held := expr.array) is not None:
            return held
        return expr.results()[self._index]

    def read(self) -> np.ndarray:
        """A copy of the numbers."""
        few = self._few
        if few is not None:
            return copies.owned(few)
        if type(self._node) is Deferred:
            return self._node.given_away()
        return self._expr.given_away() if not self._index else self._array().copy()

    def read_as_tuple(self) -> tuple[Any, ...]:
        """The numbers in order, as Python's."""
        return tuple(self._array().reshape(-1).tolist())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """The numbers. Where numpy asks for no copy (``numpy.asarray``), those of constants are shared and cannot be
        written to; training changes others in place."""
        few = self._few
        if few is not None and dtype is None and not copy:
            return _locked(few)
        if dtype is None and not copy and type(self._node) is Deferred:
            return _locked(self._node.numbers())
        if dtype is None and not copy and (expr := self._expr).op == "Const":
            held = expr._held
            return _locked(self._array() if held is None else held)
        wanted = self._kind.numpy if dtype is None else np.dtype(dtype)
        if wanted != self._kind.numpy:
            if copy is False:
                raise ValueError("another element type needs a copy")
            found: np.ndarray = self._array().astype(wanted)
            return found
        if copy or (copy is None and self._expr.op != "Const"):
            return self.read()
        return _locked(self._array())

    def tolist(self) -> Any:
        """The numbers as Python's, in lists as deep as there are axes."""
        return self._array().tolist()

    def __dlpack__(
        self, *, stream: None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> object:  # fmt: skip
        """A copy of the numbers for another library (``torch.from_dlpack``). What reads such capsules may write to
        them, and numbers of constants do not change: so there is none without a copy."""
        if copy is False:
            raise BufferError("numbers of a Var are given to other libraries as a copy")
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device}
        given: dict[str, Any] = {name: v for name, v in asked.items() if v is not None}  # numpy 1.26 has stream= alone
        return self.read().__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array().__dlpack_device__()

    def write(self, value: ArrayLike) -> None:
        """New numbers for a placeholder, trainable or constant of its shape, in row-major order.

        Raises :class:`ShapeError` when there are not as many as the shape says.
        """
        self._set(self._fitting(value))

    def _fitting(self, value: object) -> np.ndarray:
        kind, shape = self._expr.types()[self._index]
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise MNNError(f"write(): {type(value).__name__} of {array.dtype} is not numbers")
        if array.size != self.size:
            raise ShapeError(f"write(): {array.size} numbers for a tensor of shape {list(shape)}")
        return array.astype(kind.numpy).reshape(shape)

    def _set(self, array: np.ndarray) -> None:
        if self._expr.is_leaf:
            self._expr.set_array(array)
        else:
            raise MNNError(f"this Var is computed by {self.op_type}: write to its inputs, or fix_as_const() it first")

    def fill(self, value: float) -> None:
        """Every element becomes ``value``."""
        self.write(np.full(self.size, value))

    def resize(self, shape: Ints) -> None:
        """Gives a placeholder another shape; whatever depends on it follows."""
        if self._expr.op != "Input":
            raise MNNError(f"only placeholders can be resized, this is {self.op_type}; use reshape()")
        self._expr.resize(compute.shape_of(shape))

    def close(self) -> None:
        """Taken for PyMNN's sake: memory goes when the last reference does."""

    # -- kinds of leaves ----------------------------------------------------------------------------------------------

    def _fix(self, op: str) -> None:
        if self._expr.op == "Input" and self._expr.array is None:
            array = None if op == "Input" else np.zeros(self._expr.leaf_type[1], self._expr.leaf_type[0].numpy)
        else:
            array = self._settled(op)
        if self._expr.is_leaf or self._expr.outputs == 1:
            self._expr.become(op, array)
        else:
            assert array is not None
            name = self._expr.name
            self._expr, self._index = Expr.leaf(op, DType.of(array), array.shape, array), 0
            self._expr.name = name

    def _settled(self, op: str = "") -> np.ndarray:
        """Its numbers in an array that stays as it is, for a leaf of the kind ``op``: training writes to those of
        parameters, which results may be views of."""
        array, expr = self._array(), self._expr
        changing = expr.op != op and any(leaf.op == "Trainable" for leaf in expr.sources)
        return array.copy() if changing else array

    def fix_as_const(self) -> None:
        """Keeps its present numbers as a constant."""
        self._fix("Const")

    def fix_as_placeholder(self) -> None:
        """Becomes an input that can be written and resized."""
        self._fix("Input")

    def fix_as_trainable(self) -> None:
        """Becomes a parameter that training may change."""
        self._fix("Trainable")

    # -- behaving like a number ---------------------------------------------------------------------------------------

    def item(self, *index: int) -> Any:
        """One element as a Python number: by position in row-major order, or by indices."""
        return self._array().item(*index)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise MNNError(f"the truth of {self.size} elements is not defined; use any() or all()")
        return bool(self._array().item())

    def __float__(self) -> float:
        return float(self._single())

    def __int__(self) -> int:
        return int(self._single())

    def __index__(self) -> int:
        if self._kind.is_float:
            raise TypeError(f"a Var of {self.dtype} cannot be an index")
        return int(self._single())

    def _single(self) -> Any:
        if self.size != 1:
            raise MNNError(f"{self.size} elements cannot be one number")
        return self._array().item()

    def __format__(self, how: str) -> str:
        """With a format, as that of its one number."""
        return format(self._single(), how) if how else str(self)

    def __repr__(self) -> str:
        try:
            return repr(self._array())
        except MNNError:
            what = f"{self.dtype} {self.shape}" if self.valid else "shape unknown"
            return f"<Var {self.op_type} '{self.name}' {what}, no numbers yet>"
