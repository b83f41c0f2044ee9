"""Recurrent layers, step by step in numpy."""

from __future__ import annotations

import numpy as np

from tests.frontends.caffe.cases.draw import Case, Draw, family


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


@family("LSTM", "RNN")
def recurrent(d: Draw, kind: str) -> Case:
    """With marks of beginnings, something that does not change with time, and states handed in and out."""
    steps, samples, width, hidden = d.int(1, 5), d.int(1, 3), d.int(1, 4), d.int(1, 4)
    gates, lstm = (4, True) if kind == "LSTM" else (1, False)
    x = d.input(steps, samples, *([width] if d.flag() else [width, 1]))
    marks = d.fed(d.rng.integers(0, 2, (steps, samples)).astype(np.float32), "cont")
    static, exposed = d.flag(), d.flag()
    weights = [d.array(gates * hidden, width), d.array(gates * hidden)]
    names, share = ["data", "cont"], x.reshape(steps, samples, width).astype(np.float64) @ weights[0].T + weights[1]
    if static:
        fixed = d.input(samples, 3, name="fixed")
        weights.append(d.array(gates * hidden, 3))
        share, names = share + fixed @ weights[-1].T, [*names, "fixed"]
    h, c = np.zeros((samples, hidden)), np.zeros((samples, hidden))
    if exposed:
        h = d.input(1, samples, hidden, name="h0")[0].astype(np.float64)
        names.append("h0")
        if lstm:
            c = d.input(1, samples, hidden, name="c0")[0].astype(np.float64)
            names.append("c0")
    weights.append(d.array(gates * hidden, hidden))
    if not lstm:
        weights += [d.array(hidden, hidden), d.array(hidden)]
    tops = ["out"] + (["hT", "cT"][: 2 if lstm else 1] if exposed else [])
    d.add(kind, names, tops, *weights, recurrent_param={"num_output": hidden, "expose_hidden": exposed or None})
    outs = []
    for t in range(steps):
        mark = marks[t][:, None]
        z = share[t] + (mark * h) @ weights[3 if static else 2].T
        if lstm:
            i, f, o, g = np.split(z, 4, 1)
            c = mark * _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
            outs.append(h)
        else:
            h = np.tanh(z)
            outs.append(np.tanh(h @ weights[-2].T + weights[-1]))
    last = [h[None], c[None]][: len(tops) - 1]
    return d.case(*tops, wanted=[np.stack(outs), *last])


@family("LSTM whole")
def lstm_whole(d: Draw) -> Case:
    """Marks that are constant and never begin anew."""
    steps, samples, width, hidden = d.int(1, 5), d.int(1, 3), d.int(1, 4), d.int(1, 4)
    x = d.input(steps, samples, width).astype(np.float64)
    d.add("DummyData", [], ["cont"], dummy_data_param={
        "shape": {"dim": [steps, samples]}, "data_filler": {"type": "constant", "value": 1.0},
    })  # fmt: skip
    w, b, r = d.array(4 * hidden, width), d.array(4 * hidden), d.array(4 * hidden, hidden)
    d.add("LSTM", ["data", "cont"], ["out"], w, b, r, recurrent_param={"num_output": hidden})
    h = c = np.zeros((samples, hidden))
    outs = []
    for t in range(steps):
        i, f, o, g = np.split(x[t] @ w.T + b + h @ r.T, 4, 1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        outs.append(h)
    return d.case(wanted=[np.stack(outs)])
