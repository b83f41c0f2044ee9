"""``precision="low"``: which tensors between kernels are stored in 16 bits.

Where the processor multiplies bf16 (AVX512-BF16, AMX, AArch64's bf16), tensors that pass from kernel to kernel are
stored as bf16: half the memory traffic, and products of twice the rate. Everything else stays f32: sums, epilogues,
what a fused group keeps in registers (softmax, normalisation with its statistics), the inputs and outputs of the model,
and tensors whose values would suffer:

- positions and other numbers made from integers, or on their way to become integers, angles, arguments of rounding;
- running sums, what is sorted or searched for its extreme, whatever the host computes;
- numbers beyond the range that rounding keeps finite (masks of -3.4e38);
- small tensors, where there is nothing to gain (pooled features, gates, the state of a recurrent cell), unless they
  only go into a product;
- what is normalised over its last dimension, and what is summed up to it: a transformer's residual sums, whose error
  would grow with depth (this takes a third off BERT's and ViT's, and costs half a percent);
- statistics (what is reduced from many elements, and what is computed of such): a variance written as the mean of
  squares less the square of the mean is the small difference of large numbers, and there is little of it to store.

Tensors that share memory (views, concatenations, borders, gathered data) are stored alike. Where a product's operand
must stay f32, a copy of it in bf16 is multiplied.

Where it computes in f16 but not in bf16 (AArch64's FP16) f16 takes bf16's place, and what may leave its range
stays f32 too: sums over many elements, squares, powers and exponentials, numbers beyond 30000, what is multiplied or
divided by a single number that only the run knows (gradients by the scale of their loss). Results of products beyond
65504 become infinities, as in every f16 engine; ``normal`` is for networks that have them.

Elsewhere ``low`` computes like ``normal``: storing 16 bits without instructions for them costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from MNN.backends.cpu.products.dot import group_of
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.compiler.fuse import Group
from MNN.compiler.usage import VIEWS, consumers
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import Body, body_of
from MNN.ir.shape import elements
from MNN.ir.traced import room_of

SMALL = 4096
"""Elements below which a tensor stays f32, unless it only goes into products."""
FEW_ROWS = 4
"""Rows up to which what is multiplied by compressed weights stays f32."""
SMALL_PRODUCT = 1 << 15
"""Multiply-adds below which a contraction is not worth converting an operand for."""
DEEP = {80: 8, 40: 2}
"""How many of its first products a network computes exactly, by how many products with weights it has at least."""
LOGGED = 2
"""Products before a logarithm that are exact: a spectrum's transform, and the bands that are made of it."""
MANY = 8
"""Elements that a reduction makes one of, from which on its results are statistics."""
_LARGE = {DType.BF16: 1e30, DType.F16: 3e4}
"""Where numbers come near the end of a type's range."""
_GROWING = frozenset("exp exp2 expm1 pow sinh cosh".split())
"""Operations whose results easily leave the range of f16."""
_ROUNDING = frozenset("floor ceil round trunc mod rem floordiv".split())
_ANGLES = frozenset("sin cos tan".split())
_LOGARITHMS = frozenset(("log", "log1p"))
_EXPONENTIALS = frozenset("exp exp2 expm1 sinh cosh tanh".split())
_PRODUCTS = (p.Conv, p.MatMul, p.CompressedMatMul)
_ALIKE = (*VIEWS, p.Pad, p.Concat, p.Gather)
"""Primitives that move elements: operands and result have one type."""


def storage(target: Target, precision: str) -> DType | None:
    """The 16-bit type in which tensors are stored between kernels; None: all stay as they are."""
    multiplies = group_of(target, DType.BF16) > 1 or target.can(can.TILE_DOT_BF16)
    if precision != "low":
        return None
    return DType.BF16 if multiplies else DType.F16 if target.multiplies_f16 else None


def exact_products(prims: Sequence[Prim]) -> frozenset[Prim]:
    """The products that ``normal`` computes as ``high`` does, where it splits fp32 into two bf16 parts: the first ones
    of a deep network, and those that logarithms are taken of."""
    return frozenset((*_first_products(prims), *_before_logarithms(prims)))


def _first_products(prims: Sequence[Prim]) -> list[Prim]:
    """The first products of a deep network, none of others.

    What is lost in the first layers passes through all others: on InceptionV3 with random weights, which amplifies
    errors most of the networks tried, the largest falls from 1.0e-3 to 2.7e-4 of the largest output. Two of YOLOv8n's
    64 products take 6.3e-4 to 2.1e-4, of ResNet-50's 54 4.2e-4 to 2.8e-4, and 1 % of the time.
    """
    products: list[Prim] = [q for q in prims if isinstance(q, (p.Conv, p.MatMul)) and q.inputs[1].const is not None]
    return products[: next((first for deep, first in DEEP.items() if len(products) >= deep), 0)]


def _before_logarithms(prims: Sequence[Prim]) -> list[Prim]:
    """Products whose results, or functions of these, become logarithms: spectra and their filter banks.

    Bands with little in them are small sums of large products. Their errors are small beside the largest band, which
    is all that two parts promise, but not beside themselves. What has passed through an exponential does not count.
    """
    found: list[Prim] = []
    passing: dict[Tensor, int] = {}  # how many products on the way to the tensor are still to be exact
    for prim in reversed(prims):
        left = max([passing.get(t, 0) for t in prim.outputs], default=0)
        if isinstance(prim, p.Map):
            made = {i.op for i in prim.body.code}
            left = 0 if made & _EXPONENTIALS else LOGGED if made & _LOGARITHMS else left
        elif isinstance(prim, (p.Conv, p.MatMul)) and left:
            found.append(prim)
            left -= 1
        for t in prim.inputs if left else ():
            passing[t] = max(passing.get(t, 0), left)
    return found


class Narrowing:
    """Chooses the tensors of one program (an :func:`MNN.compiler.copies.own_copy`) that are stored in ``dtype``.

    ``prims`` is the program with copies of operands put in; after grouping, :meth:`apply` changes the types.
    """

    def __init__(
        self, prims: Sequence[Prim], inputs: Sequence[Tensor], outputs: Sequence[Tensor], dtype: DType
    ) -> None:
        self.dtype = dtype
        self._large = _LARGE[dtype]
        self._outputs = list(outputs)
        self._uses = consumers(prims)
        self.prims = self._convert_inputs(prims, inputs)
        self._uses = consumers(self.prims)
        self._parent: dict[Tensor, Tensor] = {}
        for prim in self.prims:
            if isinstance(prim, _ALIKE):
                self._join([prim.outputs[0], *_moved(prim)])
        self._exact: set[Tensor] = set()
        """Classes whose numbers must not be rounded, not even for a product: positions, counts, huge numbers."""
        self._kept = {self._find(t) for t in (*inputs, *outputs)}
        """Classes that stay f32."""
        self._statistics: set[Tensor] = set()
        """Classes of what is reduced from many elements, or computed of nothing else."""
        for prim in self.prims:
            self._forward(prim)
        self._backward()
        self._keep(self._small())
        self._kept |= self._exact
        self.prims = self._convert_operands()

    def apply(self, groups: Sequence[Group]) -> set[Tensor]:
        """Sets the type of all chosen tensors that a group stores; gives those tensors."""
        inside = {id(t) for g in groups for q in g.prims if q is not g.root for t in q.outputs}
        inside |= {id(t) for g in groups if g.anchor is not None for t in g.anchor.outputs}
        found = {t for q in self.prims for t in q.outputs if self._narrow(t) and id(t) not in inside}
        for t in found:
            t.retype(self.dtype)
        return found

    # -- classes of tensors stored alike ----------------------------------------------------------------------------

    def _find(self, tensor: Tensor) -> Tensor:
        root = tensor
        while root in self._parent:
            root = self._parent[root]
        if root is not tensor:
            self._parent[tensor] = root
        return root

    def _join(self, tensors: Sequence[Tensor]) -> None:
        first = self._find(tensors[0])
        for other in tensors[1:]:
            root = self._find(other)
            if root is not first:
                self._parent[root] = first

    def _narrow(self, tensor: Tensor) -> bool:
        return tensor.dtype is DType.F32 and tensor.const is None and self._find(tensor) not in self._kept

    # -- what stays f32 ---------------------------------------------------------------------------------------------

    def _keep(self, tensors: Iterable[Tensor]) -> None:
        self._kept.update(self._find(t) for t in tensors)

    def _state(self, tensors: Iterable[Tensor]) -> None:
        """Keeps statistics."""
        self._statistics.update(self._find(t) for t in tensors)
        self._keep(tensors)

    def _forward(self, prim: Prim) -> None:
        """What a primitive says about its operands and, with what is known of these, about its results."""
        if self.dtype is DType.F16 and _grows(prim):
            self._keep(prim.outputs)
        if isinstance(prim, _ALIKE):
            self._keep(t for t in _moved(prim) if t.const is not None)
            if isinstance(prim, p.Pad) and _huge(np.asarray(prim.value), self._large):
                self._exact.add(self._find(prim.outputs[0]))
        elif isinstance(prim, p.Map):
            given = [t for t in prim.inputs if t.const is None and t.dtype is DType.F32]
            if given and all(self._find(t) in self._statistics for t in given):
                self._state(prim.outputs)
            huge = any(_huge(t.const, self._large) for t in prim.inputs if t.const is not None)
            if (
                huge
                or _gives_exact(prim.body, self._large)
                or (given and all(self._find(t) in self._exact for t in given))
            ):
                self._exact.update(self._find(t) for t in prim.outputs)
        elif isinstance(prim, _PRODUCTS):
            if any(self._find(t) in self._exact for t in prim.inputs):
                self._exact.update(self._find(t) for t in prim.outputs)
        elif isinstance(prim, p.Scan):
            self._keep(prim.inputs)
            self._exact.update(self._find(t) for t in prim.outputs)
        elif isinstance(prim, p.Reduce):
            if prim.op == "sum" and prim.axes == (prim.inputs[0].rank - 1,):
                self._keep(_summands(prim.inputs[0]))
            if room_of(elements([prim.inputs[0].shape[axis] for axis in prim.axes])) >= MANY:
                self._state(prim.outputs)
        elif not isinstance(prim, p.Window):
            self._keep((*prim.inputs, *prim.outputs))

    def _backward(self) -> None:
        """Keeps what becomes an angle or an integer through maps, back to where it was summed."""
        wanted: set[Tensor] = set()
        for prim in reversed(self.prims):
            if not isinstance(prim, p.Map):
                continue
            if _wants_exact(prim.body) or any(self._find(t) in wanted for t in prim.outputs):
                wanted.update(self._find(t) for t in prim.inputs)
        self._kept |= wanted

    def _small(self) -> list[Tensor]:
        """One tensor of every class that is not worth it."""
        largest: dict[Tensor, int] = {}
        multiplied: dict[Tensor, bool] = {}
        for t in [t for q in self.prims for t in q.outputs]:
            root = self._find(t)
            largest[root] = max(largest.get(root, 0), room_of(elements(t.shape)))
            only = all(isinstance(u, (*_ALIKE, *_PRODUCTS)) for u in self._uses.get(t, []))
            multiplied[root] = multiplied.get(root, True) and only
        return [t for t, n in largest.items() if n < SMALL and not multiplied[t]]

    # -- copies of operands -----------------------------------------------------------------------------------------

    def _convert_inputs(self, prims: Sequence[Prim], inputs: Sequence[Tensor]) -> list[Prim]:
        """A copy of every input on its way into products, ahead of the borders put around it."""
        copies: list[Prim] = []
        for tensor in inputs:
            if tensor.dtype is not DType.F32 or not self._multiplied(tensor):
                continue
            copies.append(_copy(tensor))
            for user in self._uses[tensor]:
                if isinstance(user, (*VIEWS, p.Pad, *_PRODUCTS)):
                    user.inputs = [copies[-1].outputs[0] if t is tensor else t for t in user.inputs]
        return [*copies, *prims]

    def _multiplied(self, tensor: Tensor) -> bool:
        """Whether a tensor goes into a product worth a copy, as it is, as a view or with a border."""
        found = False
        for user in self._uses.get(tensor, []):
            moved = isinstance(user, (*VIEWS, p.Pad)) and self._multiplied(user.outputs[0])
            found = found or moved or worth(user)
        return found

    def _convert_operands(self) -> list[Prim]:
        """The program with a copy of every operand of a product that stays f32 itself."""
        result: list[Prim] = []
        copies: dict[Tensor, Tensor] = {}
        for prim in self.prims:
            if worth(prim) and not any(self._find(t) in self._exact for t in prim.inputs):
                for t in dict.fromkeys(prim.inputs):
                    if t.const is None and t.dtype is DType.F32 and not self._narrow(t) and t not in copies:
                        result.append(_copy(t))
                        copies[t] = result[-1].outputs[0]
                prim.inputs = [copies.get(t, t) for t in prim.inputs]
            result.append(prim)
        return result


def worth(prim: Prim) -> bool:
    """Whether a product of f32 is large enough to be computed in 16 bits."""
    if not isinstance(prim, _PRODUCTS) or prim.outputs[0].dtype is not DType.F32:
        return False
    x, y = prim.inputs[:2]
    if isinstance(prim, p.CompressedMatMul):  # few rows wait for the weights
        depth = x.shape[-1] if room_of(elements(x.shape[:-1])) > FEW_ROWS else 0
    elif isinstance(prim, p.MatMul):
        depth = x.shape[-1]
    elif prim.groups == x.shape[1] == y.shape[0] and prim.groups > 1:  # depthwise: sums of few products, in f32
        return False
    else:
        depth = elements(y.shape[1:])
    return room_of(elements(prim.outputs[0].shape) * depth) >= SMALL_PRODUCT


def _copy(tensor: Tensor) -> Prim:
    """A copy of a tensor, for :meth:`Narrowing.apply` to give another type."""
    out = Tensor(tensor.dtype, tensor.shape, name=f"{tensor.name} in 16 bits")
    out.producer = p.Map([tensor], [out], "conversion", body=body_of([tensor.dtype], lambda b, x: x))
    return out.producer


def _moved(prim: Prim) -> list[Tensor]:
    """The operands whose elements a primitive of ``_ALIKE`` moves."""
    return prim.inputs if isinstance(prim, p.Concat) else prim.inputs[:1]


def _summands(tensor: Tensor) -> list[Tensor]:
    """A tensor, and what it is the sum (or another combination) of."""
    maker = tensor.producer
    parts = [t for t in maker.inputs if t.shape == tensor.shape] if isinstance(maker, p.Map) else []
    return [tensor, *parts] if len(parts) > 1 else [tensor]


def _gives_exact(body: Body, large: float) -> bool:
    """Whether a map's results are made from integers, whole numbers, or near the end of the range."""
    numbers = (i.number() for i in body.code if i.op == "const" and i.dtype.is_float)
    return (
        any(d.is_int for d in body.args)
        or any(i.op in _ROUNDING for i in body.code)
        or any(_huge(np.asarray(x), large) for x in numbers)
    )


def _grows(prim: Prim) -> bool:
    """Whether a primitive makes large numbers of ordinary ones, or may make small ones: by a number that only the run
    knows, such as what gradients of a scaled loss are divided by."""
    if not isinstance(prim, p.Map):
        return isinstance(prim, (p.Reduce, p.Window)) and prim.op in ("sum", "prod")
    code = prim.body.code
    for made in (code[i] for i in prim.body.outputs):
        factors = {prim.inputs[int(code[i].value)] if code[i].op == "arg" else i for i in made.args}
        if made.op in _GROWING or (made.op == "mul" and len(factors) == 1):
            return True
        if made.op in ("mul", "div") and any(
            isinstance(f, Tensor) and f.const is None and f.rank == 0 for f in factors
        ):
            return True
    return False


def _huge(numbers: np.ndarray, large: float) -> bool:
    """Whether rounding could make an infinity of some of these few numbers."""
    if numbers.size > SMALL or numbers.dtype.kind != "f":
        return False
    size = np.abs(numbers.astype(np.float64))  # ``large`` may be no number of their type
    return bool(((size > large) & (size < np.inf)).any())


def _wants_exact(body: Body) -> bool:
    """Whether a map makes integers, whole numbers or angles of its operands."""
    casts = (i for i in body.code if i.op == "cast" and i.dtype.is_int)
    return any(body.code[i.args[0]].dtype.is_float for i in casts) or any(
        i.op in _ROUNDING | _ANGLES for i in body.code
    )


__all__ = ["Narrowing", "storage", "worth"]
