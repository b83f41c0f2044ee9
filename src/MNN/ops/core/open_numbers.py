"""Numbers that follow from open sizes: constants while planning, inputs where primitives compute with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.traced import OpenSize, size_of
from MNN.ops.core.traced_folding import traced


def is_open(sizes: Sequence[int]) -> bool:
    """Whether any of the numbers follows from open sizes."""
    return any(type(n) is OpenSize and isinstance(n.size, str) for n in sizes)


class OpenNumbers:
    """Those of one stage; equal ones are one tensor."""

    def __init__(self) -> None:
        self.inputs: dict[Tensor, np.ndarray] = {}
        """Inputs besides the caller's, with their numbers, traced, as objects."""
        self._made: dict[tuple[object, ...], Tensor] = {}

    def tensor(self, numbers: Sequence[int], shape: Sequence[int], dtype: DType) -> Tensor:
        """The constant of these numbers, of which some may be open sizes."""
        dims = tuple(map(int, shape))
        key = (dtype, dims, tuple(map(size_of, numbers)))
        found = self._made.get(key)
        if found is None:
            data = np.array([int(n) for n in numbers], np.int64).astype(dtype.numpy).reshape(dims)
            found = self._made[key] = Tensor(dtype, dims, const=data)
            if is_open(numbers):
                found.sizes = np.empty(dims, object)
                found.sizes.reshape(-1)[:] = numbers
        return found

    def follow(self, prim: Prim, types: Sequence[tuple[DType, tuple[int, ...]]]) -> Tensor | None:
        """The result of a primitive on numbers that follow from open sizes, where that can be told; else these become
        inputs of the program."""
        for t in prim.inputs:
            if t.sizes is not None:
                break
        else:
            return None
        if len(types) == 1 and all(t.const is not None for t in prim.inputs):
            (dtype, shape) = types[0]
            found = traced(prim, dtype, shape)
            if found is not None:
                return self.tensor(found, shape, dtype)
        prim.inputs = [self.input_for(t) for t in prim.inputs]
        return None

    def input_for(self, tensor: Tensor) -> Tensor:
        """The input that has such a constant's numbers; any other tensor is itself."""
        if tensor.sizes is None:
            return tensor
        key = ("input", tensor.dtype, tensor.shape, tuple(map(size_of, tensor.sizes.flat)))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Tensor(tensor.dtype, tensor.shape, name="sizes")
            self.inputs[found] = tensor.sizes
        return found


__all__ = ["OpenNumbers", "is_open"]
