"""LSTM, GRU and RNN: directions, clips, activations, layouts, lengths, peepholes, outputs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand
from tests.random.judges import peer

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
OTHERS = ["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Elu", "LeakyRelu", "ScaledTanh", "Affine", "Softplus",
          "ThresholdedRelu"]  # fmt: skip
ALPHAS = {"HardSigmoid": 0.3, "Elu": 0.7, "LeakyRelu": 0.1, "ScaledTanh": 0.9, "Affine": 0.5, "ThresholdedRelu": 0.2}
BETAS = {"HardSigmoid": 0.4, "ScaledTanh": 1.1, "Affine": 0.2}
NO_DEFAULTS = ("Affine", "ScaledTanh", "ThresholdedRelu")
"""Their numbers are always given: the specification has none, or (a threshold of 1) not ONNX Runtime's."""
BOUNDED = ("Sigmoid", "Tanh", "HardSigmoid", "Softsign", "ScaledTanh")


def case(draw: Draw) -> Case:
    kind = draw.choice(list(GATES))
    direction = draw.choice(["forward", "reverse", "bidirectional"])
    d, gates = 1 + (direction == "bidirectional"), GATES[kind]
    steps, batch = draw.choice([1, 2, 5, 9]), draw.choice([1, 1, 2, 3, 5])
    width, hidden = draw.int(1, 12), draw.choice([1, 2, 3, 7, 8, 16, 17])

    def some(*shape: int) -> np.ndarray:
        return draw.normal(*shape) / np.float32(np.sqrt(shape[-1]))

    x, w, r = some(steps, batch, width) * 3, some(d, gates * hidden, width), some(d, gates * hidden, hidden)
    bias = some(d, 2 * gates * hidden) if draw.flag(0.7) else None
    lengths = draw.rng.integers(1, steps + 1, batch).astype(np.int32) if draw.flag(0.4) else None
    first = some(d, batch, hidden) if draw.flag() else None
    given: list[Any] = [x, w, r, bias, lengths, first]
    attributes: dict[str, Any] = {"hidden_size": hidden}
    if direction != "forward" or draw.flag():
        attributes["direction"] = direction
    if kind == "LSTM":
        given += [some(d, batch, hidden) if draw.flag() else None, some(d, 3 * hidden) if draw.flag(0.4) else None]
        if draw.flag(0.2):
            attributes["input_forget"] = 1
    if kind == "GRU" and draw.flag(0.7):
        attributes["linear_before_reset"] = draw.int(0, 1)
    if draw.flag(0.3):
        attributes["clip"] = draw.choice([0.5, 1.0])
    if draw.flag(0.4):
        functions = OTHERS if steps < 3 else BOUNDED  # others grow from step to step
        names = [draw.choice(functions) for _ in USUAL[kind] * d]
        attributes["activations"] = names
        if draw.flag() or any(n in NO_DEFAULTS for n in names):
            # each function that takes a number takes the next of the list
            alphas, betas = ([table[n] for n in names if n in table] for table in (ALPHAS, BETAS))
            attributes |= {"activation_alpha": alphas} if alphas else {}
            attributes |= {"activation_beta": betas} if betas else {}
    while given[-1] is None:
        given.pop()
    outputs = 3 if kind == "LSTM" else 2
    unnamed = tuple(k for k in range(outputs) if draw.flag(0.2))
    unnamed = () if len(unnamed) == outputs else unnamed
    constant = draw.flag(0.8)
    inputs = [None if a is None else Operand(a, k in (0, 4, 5, 6) or not constant) for k, a in enumerate(given)]
    made = Case(kind, inputs, attributes, outputs, draw.choice([7, 14, 22]), unnamed=unnamed, slack=20)
    made.low = "ThresholdedRelu" not in attributes.get("activations", [])  # which has a step
    return _batch_first(made, steps, batch, lengths) if made.opset > 7 and draw.flag(0.25) else made


def _batch_first(made: Case, steps: int, batch: int, lengths: Any) -> Case:
    """The same with layout 1, which ONNX Runtime refuses: it is asked for layout 0."""
    plain = dataclasses.replace(made)
    turned = [
        i if i is None or k not in (0, 5, 6) else Operand(np.swapaxes(i.array, 0, 1).copy(), i.fed)
        for k, i in enumerate(made.inputs)
    ]
    kept = [k for k in range(made.outputs) if k not in made.unnamed]

    def oracle(arrays: list[Any]) -> list[Any]:
        back = [a if a is None or k not in (0, 5, 6) else np.swapaxes(a, 0, 1) for k, a in enumerate(arrays)]
        found = peer(plain, back)
        # Y[steps, d, batch, hidden] to [batch, steps, d, hidden]; states [d, batch, hidden] to [batch, d, hidden]
        return [f.transpose(2, 0, 1, 3) if k == 0 else f.transpose(1, 0, 2) for k, f in zip(kept, found, strict=True)]

    return dataclasses.replace(
        made, inputs=turned, attributes=made.attributes | {"layout": 1}, oracle=oracle, excuse="layout 1 is refused"
    )
