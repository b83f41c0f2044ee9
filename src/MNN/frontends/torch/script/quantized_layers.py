"""Layers with quantised weights in TorchScript whose activations are floats: recurrent layers, tables, linear layers in
half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from MNN.errors import UnsupportedError
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.calls import call
from MNN.frontends.torch.unpickle import ScriptObject, StoredTensor

Arguments = Callable[..., Any]


def floats(stored: Any) -> np.ndarray:
    """The numbers that a stored tensor, quantised or not, stands for (f32). Raises :class:`UnsupportedError`."""
    if not isinstance(stored, StoredTensor):
        raise UnsupportedError("packed weights of an unknown form are not supported")
    whole = stored.array().astype(np.float32)
    if stored.scale is None:
        return whole
    shape = [1] * whole.ndim
    if stored.axis is not None:
        shape[stored.axis] = -1
    scale, zero = (
        (v.array() if isinstance(v, StoredTensor) else np.asarray(v)).astype(np.float32)
        for v in (stored.scale, stored.zero)
    )
    if stored.axis is not None:
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    if stored.storage.strange:  # rows of few bits: torch holds scales and offsets in half precision
        half = np.float16
        return np.asarray(whole * scale.astype(half).astype(np.float32) - (zero * scale).astype(half))
    return np.asarray((whole - zero) * scale)


def _held(packed: Any, kind: str) -> tuple[Any, ...]:
    if not isinstance(packed, ScriptObject) or kind not in packed.kind:
        raise UnsupportedError(f"packed parameters of an unknown form (for {kind}) are not supported")
    state = packed.state
    return tuple(state[0] if isinstance(state, tuple) and len(state) == 1 else state)


def _constant(ctx: TorchBuilder, numbers: np.ndarray) -> Variable:
    return Variable(ctx.const(numbers), stored=True)


def _cell(ctx: TorchBuilder, packed: Any) -> list[Variable]:
    """Weights and biases of one direction of one layer, in the order that the plain operators have."""
    kind, biases, _, _, weights = _held(packed, "CellParamsBase")
    pairs = [_held(w, "LinearPackedParams") for w in weights]
    matrices = [floats(weight) for weight, _ in pairs]
    lines = [floats(b) for b in (biases if kind == "quantized_dynamic" else [bias for _, bias in pairs])]
    return [_constant(ctx, numbers) for numbers in (*matrices, *lines)]


def _recurrent(name: str) -> Arguments:
    """Weights as they are quantised; activations, which torch rounds to 8 bits in each step, stay floats."""

    def handler(ctx: TorchBuilder, x: Any, *args: Any, **_: Any) -> Any:
        """``(x, hx, params, ...)``, or of packed sequences ``(steps, sizes, hx, params, ...)``."""

        def taken(given: Any) -> Any:
            if isinstance(given, list) and any(isinstance(v, ScriptObject) for v in given):
                return [v for packed in given for v in _cell(ctx, packed)]
            return given

        return call(ctx, name, [x, *map(taken, args[:8])], {})

    return handler


def _recurrent_cell(name: str) -> Arguments:
    """``(x, hx, w_ih, w_hh, b_ih, b_hh)`` with packed weights, which hold the biases too: torch adds those, and not the
    last two arguments, which are random numbers."""

    def handler(ctx: TorchBuilder, x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        matrices, lines = zip(*(_held(w, "LinearPackedParams") for w in (w_ih, w_hh)), strict=True)
        given = [None if v is None else _constant(ctx, floats(v)) for v in (*matrices, *lines)]
        return call(ctx, name, [x, hx, *given], {})

    return handler


def _table(ctx: TorchBuilder, packed: Any) -> Variable:
    _, tensors, *_ = _held(packed, "EmbeddingPackedParams")
    return _constant(ctx, floats(tensors[0]))


def _embedding(ctx: TorchBuilder, packed: Any, indices: Any, pruned_weights: bool = False) -> Any:
    if pruned_weights:
        raise ctx.unsupported("a pruned table")
    return call(ctx, "embedding", [_table(ctx, packed), indices], {})


def _bags(
    ctx: TorchBuilder, packed: Any, indices: Any, offsets: Any = None, scale_grad_by_freq: bool = False, mode: int = 0,
    pruned_weights: bool = False, per_sample_weights: Any = None, compressed_indices_mapping: Any = None,
    include_last_offset: bool = False,
) -> Any:  # fmt: skip
    """Sums of rows; without offsets each row of the indices is a bag."""
    if pruned_weights:
        raise ctx.unsupported("a pruned table")
    at = indices.read(ctx)
    if offsets is None:
        if ctx.rank_of(at) != 2:
            raise ctx.unsupported("bags without offsets", "give the offsets, or indices in rows")
        rows = call(ctx, "embedding", [_table(ctx, packed), indices], {})
        if per_sample_weights is not None:
            rows = call(ctx, "mul", [rows, call(ctx, "unsqueeze", [per_sample_weights, 2], {})], {})
        return call(ctx, "sum", [rows, 1], {})
    given = [_table(ctx, packed), indices, offsets, False, 0, False, per_sample_weights, include_last_offset]
    return call(ctx, "embedding_bag", given, {})[0]


def _half_linear(relu: bool) -> Arguments:
    def handler(ctx: TorchBuilder, x: Any, packed: Any, *_: Any) -> Any:
        weight, bias = _held(packed, "LinearPackedParams")
        line = None if bias is None else _constant(ctx, floats(bias))
        out = call(ctx, "linear", [x, _constant(ctx, floats(weight)), line], {})
        return call(ctx, "relu", [out], {}) if relu else out

    return handler


LAYERS: dict[str, Arguments] = {
    "quantized_lstm": _recurrent("lstm"), "quantized_gru": _recurrent("gru"),
    **{f"quantized_{n}_cell_dynamic": _recurrent_cell(f"{n}_cell") for n in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{f"embedding_{n}": _embedding for n in ("byte", "4bit")},
    **{f"embedding_bag_{n}": _bags for n in ("byte", "4bit", "2bit")},
    "linear_dynamic_fp16": _half_linear(False), "linear_relu_dynamic_fp16": _half_linear(True),
}  # fmt: skip
