"""RecurrentGemma (Griffin, De et al. 2024, arXiv:2402.19427): layers of channels that each fade by themselves, at rates
that a token says, behind a short convolution and beside a gate; every third of attention with a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary
from MNN.ir.graph import Graph, Value
from MNN.llm.models.blocks import attend, head
from MNN.llm.models.config import Config
from MNN.llm.models.families import KEYS, family, keeps, translates
from MNN.llm.models.layers import Layers
from MNN.llm.models.recurrent import CONVOLUTION, MATRIX, convolved, summed_up
from MNN.llm.models.weights import as_list

_FASTEST = 8.0
"""What rates are multiplied by."""
_KINDS = ("recurrent", "attention")


@translates("recurrent_gemma")
def _usual(values: Mapping[str, object]) -> Mapping[str, object]:
    found = {"attention_window_size": 2048, "partial_rotary_factor": 0.5, "tie_word_embeddings": True, **values}
    found = {"hidden_activation": "gelu_pytorch_tanh", **found}
    return found | {"sliding_window": found["attention_window_size"]}


def _recurrent(config: Config) -> list[bool]:
    """Which layers are no attention: kinds come again and again."""
    kinds = as_list(config.get("block_types"), "block_types", 1) or [*_KINDS[:1] * 2, _KINDS[1]]
    if any(kind not in _KINDS for kind in kinds):
        raise FormatError(f"block_types is {kinds!r:.80}; expected are {' and '.join(_KINDS)}")
    return [kinds[i % len(kinds)] == _KINDS[0] for i in range(config.layers)]


@keeps("recurrent_gemma")
def _states(config: Config) -> Sequence[Sequence[str]]:
    return [(CONVOLUTION, MATRIX) if own else (KEYS,) for own in _recurrent(config)]


@family("recurrent_gemma")
def recurrent_gemma(config: Config, net: Layers) -> Graph:
    heads = config.heads(window=config.window)
    angles = net.angles(config.rotary(heads.size))
    x = net.multiply(net.embed("model.embed_tokens.weight"), _rounded(config.width**0.5))
    for i, own in enumerate(_recurrent(config)):
        at, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp_block"
        y = net.rms_norm(x, f"{at}.temporal_pre_norm", config.epsilon, plus=1.0)
        room = f"{at}.temporal_block"
        x = net.add(x, _fading(config, net, y, room, i) if own else attend(net, y, room, heads, i, angles))
        y = net.rms_norm(x, f"{at}.channel_pre_norm", config.epsilon, plus=1.0)
        x = net.add(x, net.gated(y, f"{mlp}.gate_proj", f"{mlp}.up_proj", f"{mlp}.down_proj", config.activation))
    last = net.rms_norm(net.picked(x), "model.final_norm", config.epsilon, plus=1.0)
    return head(config, net, last, softcap=config.number("logits_soft_cap", 30.0))


def _rounded(x: float) -> float:
    """To the nearest number of bfloat16, as which the model has it."""
    bits = np.float32(x).view(np.uint32)
    return float(((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32))


def _fading(config: Config, net: Layers, y: Value, at: str, layer: int) -> Value:
    """A channel keeps ``a`` of what it was, and takes so much of what is new that its size stays; of a text's first
    token it takes all."""
    gate = net.activation(config.activation, net.linear(y, f"{at}.linear_y"))
    x = convolved(net, net.linear(y, f"{at}.linear_x"), f"{at}.conv_1d", layer)
    rates = np.logaddexp(net.weight(f"{at}.rg_lru.recurrent_param").reshape(-1), 0)
    share, speed = _gates(net, x, f"{at}.rg_lru", len(rates))
    keeps_log = net.multiply(speed, net.const((-_FASTEST * rates).astype(np.float32)))
    decay = net.unary("EXP", keeps_log)
    rest = net.unary("SQRT", net.unary("NEG", net.unary("EXPM1", net.multiply(keeps_log, 2.0))))
    places = net.reshape(net.floats(), 0, 0, 1)
    first = binary(net, "MAXIMUM", binary(net, "SUB", net.const(1.0), places), net.const(0.0))
    taken = net.add(rest, net.multiply(binary(net, "SUB", net.const(1.0), rest), first))
    new = net.reshape(net.multiply(net.multiply(x, share), taken), 0, 0, len(rates), 1)
    one = net.add(net.multiply(net.floats(), 0.0), net.const(1.0))
    out = summed_up(net, one, one, new, decay, layer, (len(rates), 1, 1))
    return net.linear(net.multiply(net.reshape(out, 0, 0, len(rates)), gate), f"{at}.linear_out")


def _gates(net: Layers, x: Value, at: str, width: int) -> list[Value]:
    """How much of what is new comes in, and how fast channels fade: each of blocks of channels."""
    kinds = ("input_gate", "recurrent_gate")
    blocks, shifts = ([net.weight(f"{at}.{kind}_{part}") for kind in kinds] for part in ("weight", "bias"))
    shape = blocks[0].shape
    fits = len(shape) == 3 and shape[0] * shape[1] == width and shape[1] == shape[2]
    if not fits or blocks[1].shape != shape or any(shift.size != width for shift in shifts):
        raise FormatError(f"{at}: the gates {list(shape)} do not fit {width} channels")
    apart = net.permute(net.reshape(x, 0, 0, *shape[:2]), 0, 2, 1, 3)
    both = net.permute(net.matmul(apart, net.const(np.concatenate(blocks, 2))), 0, 2, 1, 3)
    parts = [net.reshape(part, 0, 0, width) for part in net.split(both, [shape[1]] * 2)]
    shifted = [net.add(part, net.const(shift.reshape(-1))) for part, shift in zip(parts, shifts, strict=True)]
    return [net.op("Sigmoid", part) for part in shifted]
