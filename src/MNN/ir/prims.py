"""The primitive vocabulary: what operators are lowered to before kernels are made.

A lowered program is a list of :class:`Prim` over :class:`Tensor` values with concrete shapes. Shapes are logical and
row-major (images are N, C, spatial...); where a tensor lies in memory, and in which order, is the compiler's business.
Every primitive's exact meaning is its numpy interpretation in ``MNN.reference.primitives``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.scalar import Body


@dataclass(eq=False)
class Tensor:
    """A value of a lowered program: dtype and shape are final. ``const`` holds the numbers of a constant."""

    dtype: DType
    shape: tuple[int, ...]
    const: np.ndarray | None = None
    name: str = ""
    producer: Prim | None = None
    keep: object = None
    """Whatever must live as long as ``const`` does."""
    sized: bool = False
    """A constant that follows from sizes: an argument of kernels and no part of their code, which serves all sizes."""
    sizes: np.ndarray | None = None
    """Of a constant whose numbers follow from open sizes: these, traced (:mod:`MNN.ir.traced`), as objects."""
    whole: np.ndarray | None = None
    """A constant of which ``const`` is the first part, in every dimension; it lies in memory in its place."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    def retype(self, dtype: DType) -> None:
        """Has it stored as another type than its producer was made for."""
        self.dtype = dtype
        if self.producer is not None:
            self.producer.sort = None

    def __repr__(self) -> str:
        return f"<{'const ' if self.const is not None else ''}{self.dtype.value}{list(self.shape)} {self.name}>"


@dataclass(eq=False)
class Prim:
    """Base: one primitive with its operands. ``origin`` is the name of the graph node it came from."""

    inputs: list[Tensor]
    outputs: list[Tensor] = field(default_factory=list)
    origin: str = ""
    sort: Hashable = field(default=None, init=False, repr=False)
    """Equal only for primitives of one kind with the same attributes and types of results; None: not known."""

    def attributes(self) -> tuple[object, ...]:
        """What besides the operands decides the result, which does not change; hashable, for merging duplicates."""
        found: tuple[object, ...] | None = self.__dict__.get("_told")
        if found is None:
            names = _ATTRIBUTES.get(type(self))
            if names is None:
                skip = ("inputs", "outputs", "origin", "sort")
                names = _ATTRIBUTES[type(self)] = tuple(n for n in self.__dataclass_fields__ if n not in skip)
            found = self.__dict__["_told"] = tuple([getattr(self, name) for name in names]) if names else ()
        return found


_ATTRIBUTES: dict[type, tuple[str, ...]] = {}


@dataclass(eq=False)
class Reshape(Prim):
    """Same elements in row-major order, another shape (that of the output)."""


@dataclass(eq=False)
class Permute(Prim):
    """``out.shape[i] == in.shape[perm[i]]``."""

    perm: tuple[int, ...] = ()


@dataclass(eq=False)
class Slice(Prim):
    """``out[i...] = in[starts + i * steps]``; steps may be negative; the output's shape gives the counts."""

    starts: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass(eq=False)
class Expand(Prim):
    """Repeats dimensions of size 1 up to the output's shape (same rank)."""


@dataclass(eq=False)
class Pad(Prim):
    """A constant border of ``low`` and ``high`` elements per dimension (not negative)."""

    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    value: float | int = 0


@dataclass(eq=False)
class Concat(Prim):
    """Inputs one after the other along ``axis``."""

    axis: int = 0


@dataclass(eq=False)
class Map(Prim):
    """``out[i] = body(in0[i], in1[i], ...)`` with numpy broadcasting of the inputs to the common shape."""

    body: Body = field(default_factory=lambda: Body((), (), ()))


@dataclass(eq=False)
class Reduce(Prim):
    """``op`` in sum, max, min, prod over ``axes``, which keep size 1; f16 and bf16 accumulate in f32. ``shift``: what
    is computed with it does not change with it, so that it has no gradient."""

    op: str = "sum"
    axes: tuple[int, ...] = ()
    shift: bool = False


@dataclass(eq=False)
class ArgReduce(Prim):
    """Index (i64) of the extreme along ``axis``, which keeps size 1.

    ``op``: argmax, argmin (first of equals), argmax_last, argmin_last.
    """

    op: str = "argmax"
    axis: int = 0


@dataclass(eq=False)
class MatMul(Prim):
    """``[..., M, K] x [..., K, N] -> [..., M, N]``; equal ranks, batch dimensions broadcast.

    The output's dtype is the accumulator's: the inputs' own, or i32 for 8-bit integers, and for 16-bit ones by these.
    """


@dataclass(eq=False)
class CompressedMatMul(Prim):
    """``[..., M, K] x W.T -> [..., M, N]`` with a constant ``W[N, K]`` in few bits.

    Inputs: the left side (a float type, the result's), codes u8 ``[N, ceil(K * width / 8)]``, scales f32 ``[N,
    blocks]`` and, where there are any, offsets f32 ``[N, blocks]``, as in :class:`MNN.ir.quant.QuantizedArray`.
    ``row_bits``: rows of the left side may be rounded to so many bits (:data:`MNN.ir.quant.ROW_BITS`), each block of
    them with a scale of its own; 0: they may not.
    ``finite_rows``: where these hold infinities, results may be no numbers.
    """

    width: int = 4
    row_bits: int = 0
    finite_rows: bool = False


@dataclass(eq=False)
class RoutedMatMul(Prim):
    """``out[r] = W[index[r]] @ x[r]``: a product with one of ``count`` constant matrices ``[N, K]``, chosen for every
    row (mixtures of experts, Shazeer et al. 2017, arXiv:1701.06538).

    Inputs: rows ``x[..., K]`` (a float type, the result's), ``index[...]`` (i32 or i64; its sizes and those of the rows
    broadcast), and the matrices one above the other: floats ``[count * N, K]`` where ``width`` is 0, else codes, scales
    and offsets as in :class:`CompressedMatMul`. An index that is not within 0..count-1 is a
    :class:`~MNN.errors.RunError`.
    """

    count: int = 1
    width: int = 0
    row_bits: int = 0


@dataclass(eq=False)
class Conv(Prim):
    """Correlation of ``[N, C, spatial...]``, already padded, with ``[O, C/groups, kernel...]``; no bias."""

    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    groups: int = 1


@dataclass(eq=False)
class Window(Prim):
    """Reduces windows of the spatial dimensions of ``[N, C, spatial...]``, already padded; ``op`` sum or max."""

    op: str = "max"
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()


@dataclass(eq=False)
class Gather(Prim):
    """``out[o] = data[...]``: inputs are ``data, idx0, idx1, ...``.

    Data dimension ``indexed[j]`` is addressed by ``idx_j[o]`` (i32 or i64, broadcast to the output's shape, negative
    values count from the end); every other data dimension ``d`` by output coordinate ``o[walk[d]]`` (``walk`` holds
    -1 for indexed dimensions). An index out of range is a :class:`~MNN.errors.RunError`. What is read at the index
    ``still`` of the first indexed dimension passes no gradient on.
    """

    indexed: tuple[int, ...] = ()
    walk: tuple[int, ...] = ()
    still: int | None = None


@dataclass(eq=False)
class Scatter(Prim):
    """``data`` with ``updates`` put in: inputs are ``data, updates, idx0, ...``; addressing as in :class:`Gather`, over
    the updates' coordinates. ``op`` in set, add, mul, max, min, applied in row-major order of the updates."""

    op: str = "set"
    indexed: tuple[int, ...] = ()
    walk: tuple[int, ...] = ()


@dataclass(eq=False)
class TopK(Prim):
    """The largest elements along ``axis`` (else the smallest), in order and as many as the results hold, and their
    positions (an integer type). Equals keep their order, NaN counts as the largest."""

    axis: int = 0
    largest: bool = True


@dataclass(eq=False)
class Scan(Prim):
    """Running ``op`` (add, mul, max, min) along ``axis``; ``exclusive`` leaves out the element itself."""

    op: str = "add"
    axis: int = 0
    exclusive: bool = False
    reverse: bool = False


@dataclass(eq=False)
class Recurrence(Prim):
    """A recurrent layer over ``T`` steps, ``D`` directions side by side, with ``G`` gates of ``H`` units.

    Inputs: ``given[T, B, D, G*H]``, the input's share of the gates; ``r[D, G*H, H]``, what the state is multiplied by;
    the states at the start ``[D, B, H]``, one per result of ``body``, the first being the one that is multiplied;
    ``parameters`` tensors ``[D, H]``; and, with ``limited``, lengths ``[B]`` (i32 or i64).

    In step ``k`` direction ``d`` reads ``given[t, :, d]`` and gives ``y[t, :, d]``, the new first state, with ``t`` =
    ``T - 1 - k`` where ``reverse[d]``, else ``k``. The products of the state with the gates' rows of ``r`` are
    ``p_0 .. p_{G-1}``, and ``body`` gives the new states from ``given`` (gate by gate), ``p``, the old states and the
    parameters. With ``first``, a body that takes the same but for the last product, its result is multiplied with the
    last gate's rows instead of the state. Where ``t`` is not below the sequence's length, states stay and ``y`` is 0.

    ``quantized``: ``r`` is i8, and the last input ``scales[D, G*H]`` (f32) is what its numbers stand for. Every
    sequence's state is quantised to u8 by itself before it is multiplied (as DynamicQuantizeLinear says), the products
    are sums of integers times both scales. There is no ``first`` then.

    ``quantized`` with ``given`` of i32: all but ``r``, which is i8, is i32, the first state between -128 and 127. Its
    numbers less ``zero`` are multiplied; there are no scales and no lengths. The last inputs are ``tables`` tables
    (i16[65536]) of ``body``'s lookups.

    Outputs: ``y[T, D, B, H]``, and the states after the last step. All floats have one dtype.
    """

    body: Body = field(default_factory=lambda: Body((), (), ()))
    first: Body | None = None
    gates: int = 1
    reverse: tuple[bool, ...] = (False,)
    parameters: int = 0
    limited: bool = False
    quantized: bool = False
    zero: int = 0
    tables: int = 0

    @property
    def whole(self) -> bool:
        """Whether all of it is integers."""
        return self.quantized and self.inputs[0].dtype.is_int

    @property
    def states(self) -> int:
        """How many states a step hands to the next."""
        return len(self.body.outputs)


@dataclass(eq=False)
class CacheWrite(Prim):
    """Keys and values of new tokens, put into the pages of a cache.

    Inputs: the pools, ``k[T, G, D]`` and ``v[T, G, E]`` (f32), and ``places[T]`` (i64): the number of a page times
    ``L`` and the place in it; of a token whose place no page has, nothing is written. Outputs: the pools.

    The pools are ``keys[P, G, D', L]`` and ``values[P, G, L, E']``, pages of ``L`` tokens, ``D'`` and ``E'`` being
    ``D`` and ``E`` or more; then the scales f32 of those that are quantised. Floats (f32, f16, bf16; beyond the range
    of f16 is its end; ``D'`` is ``D``) are stored as they are. With ``key_bits`` or ``value_bits`` they are codes with
    scales for each token and head:

    - 16 (i16): ``scale * code``, scales ``[P, G, 1, L]``. Codes are chosen so that an i32 holds products of keys or of
      values with numbers of 16 bits, see :mod:`MNN.reference.paged`.
    - 8 or 4 (u8): ``offset + scale * code`` with the least number and a share of the range, scales ``[P, G, 2, L]``
      in this order reversed (``[scale, offset]``). With 4 bits the second half of a head lies in the upper bits of the
      first: ``D' / 2`` and ``E' / 2`` bytes.

    Codes of neighbours that products are summed over lie side by side, whatever the shape says: those of rows ``2i``
    and ``2i + 1`` of keys as ``[D' / 2, L, 2]``, and of tokens as ``[L / 2, E', 2]`` for values.
    """

    key_bits: int = 0
    value_bits: int = 0


@dataclass(eq=False)
class PagedAttention(Prim):
    """Causal attention of tokens of several sequences, each over its own pages of a cache (Kwon et al. 2023,
    arXiv:2309.06180).

    Inputs: ``q[T, H, D]`` (f32), the pools of :class:`CacheWrite`, ``table`` (i64 ``[M]``: numbers of pages) and
    ``tiles`` (i64 ``[N, 4]``). A tile is ``count`` neighbouring tokens of one sequence, at most ``tile``: their first
    row in ``q``, ``count``, where the sequence's pages begin in ``table``, and the first token's position. Tokens see
    themselves and what is before them in their sequence: the last ``window``, or all where that is 0. Scores are
    multiplied by ``scale``, and are ``softcap * tanh(score / softcap)`` where that is not 0. H is a multiple of G.

    ``slopes``, one for each of the H heads: how much is then taken off a score for each token that the key is behind
    the query (ALiBi, Press et al. 2021, arXiv:2108.12409). ``sinks``, one for each, too: a score that takes its part of
    the softmax, and gives nothing. Either may be empty.

    Output: f32 ``[T, H, E]``; what belongs to no tile is not defined.
    """

    scale: float = 1.0
    softcap: float = 0.0
    window: int = 0
    tile: int = 8
    size: int = 0
    """E."""
    key_bits: int = 0
    value_bits: int = 0
    slopes: tuple[float, ...] = ()
    sinks: tuple[float, ...] = ()


@dataclass(eq=False)
class CausalConvolution(Prim):
    """A depthwise convolution over tokens of several sequences, each of which goes on from its last rows so far.

    Inputs (f32): the pool ``[S, K - 1, C]``, ``x[T, C]`` and ``w[K, C]``; and ``segments[N, 4]`` (i64). A segment is
    some neighbouring tokens of one sequence: their first row in ``x``, their number, the slot of the pool with the
    ``K - 1`` rows in front of them (-1: zeros), and the slot that then gets the last rows (-1: none). One segment after
    the other: what an earlier one has written, a later one may read.

    Outputs: the pool, and ``y[t] = sum_j w[j] * x[t - K + 1 + j]``; rows of no segment are not defined.
    """


@dataclass(eq=False)
class LinearAttention(Prim):
    """Attention whose keys and values are summed up in one matrix for each head, which decays (Katharopoulos et al.
    2020, arXiv:2006.16236; Dao & Gu 2024, arXiv:2405.21060).

    Inputs (f32): the pool ``[S, H, D, E]``, ``q[T, G, D]``, ``k[T, G, D]``, ``v[T, H, E]``, ``decay[T, H]`` or, with
    one for each number of a key, ``[T, H, D]`` (Kimi Team 2025, arXiv:2510.26692), and, with ``delta``, ``beta[T, H]``;
    and the ``segments`` of :class:`CausalConvolution`. H is a multiple of G.

    Outputs: the pool, and ``y[T, H, E]`` with ``y_t = M_t^T q_t`` of ``M_t = decay_t M_{t-1} + k_t u_t^T``, where
    ``u_t`` is ``v_t``, or with ``delta`` ``beta_t (v_t - (decay_t M_{t-1})^T k_t)`` (Yang et al. 2024,
    arXiv:2412.06464). Decays of numbers of a key are those of the matrix's rows.
    """

    delta: bool = False


HostFunction = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclass(eq=False)
class Host(Prim):
    """A Python function on numpy arrays, for what has no tensor form (sorting, strings, random numbers, user code).

    The outputs' shapes and dtypes are those declared; ``pure`` is False when equal inputs may give different results.
    """

    fn: HostFunction = field(default=lambda arrays: arrays)
    label: str = ""
    pure: bool = True
