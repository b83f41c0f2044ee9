"""Drawn quantised networks beside LiteRT, operator by operator.

    python -m tests.frontends.tflite.chain_trial [--cases 100] [--seed 0] [--kind INT8]

Each operator of a network is given what LiteRT's reference kernels make there, and its numbers are compared with those
of two engines: these kernels, which round twice, and LiteRT as it is used, whose XNNPACK rounds once. Between both lies
what a network may give; how far this engine is from the nearer of the two is said for each operator.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tests.frontends.tflite.build import Graph
from tests.frontends.tflite.cases.draw import Case
from tests.frontends.tflite.chains import chain
from tests.frontends.tflite.compare import ours
from tests.frontends.tflite.litert import Answer, Request, answers


@dataclass(frozen=True)
class Apart:
    """How far an operator's numbers are from the nearer answer: steps, and how many of the numbers differ at all."""

    seed: int
    op: str
    steps: int
    count: int
    size: int


def _alone(kind: str, seed: int, index: int) -> tuple[Case, str, list[int], int]:
    """The network of which one operator is left, its name, the tensors that it takes and the one that it gives."""
    case = chain(kind, seed)
    g: Graph = case.model.graph
    op = g.operators[index]
    constant = {i for i, t in enumerate(g.tensors) if int(t.buffer)}
    taken = list(dict.fromkeys(int(i) for i in op.inputs if int(i) not in constant))
    made = int(op.outputs[0])
    g.operators, g.inputs, g.outputs = [op], taken, [made]
    return case, case.model.codes[int(op.opcode_index)][0], taken, made


def apart(kind: str, seeds: Iterable[int]) -> list[Apart]:
    """Every operator of these networks."""
    seeds = list(seeds)
    whole = {seed: chain(kind, seed) for seed in seeds}
    requests = {}
    for seed, case in whole.items():
        g = case.model.graph
        g.outputs = [int(op.outputs[0]) for op in g.operators]
        requests[str(seed)] = Request(case.model.finish(), case.runs, reference=True)
    defined = answers(requests)
    feeds: dict[str, list[np.ndarray]] = {}
    single: dict[str, Request] = {}
    for seed, case in whole.items():
        values = _values(case, defined[str(seed)])
        for index in range(len(case.model.graph.operators)):
            one, _, taken, made = _alone(kind, seed, index)
            key = f"{seed}-{index}"
            feeds[key] = [*(values[i] for i in taken), values[made]]
            single[key] = Request(one.model.finish(), [feeds[key][:-1]])
    used = answers(single)
    found = []
    for key, request in single.items():
        seed, index = map(int, key.split("-"))
        (mine,) = ours(request.model, request.runs)[0]
        steps = [np.abs(mine.astype(np.int64) - t) for t in (feeds[key][-1], used[key].outputs[0][0])]
        nearer = min(steps, key=lambda s: (int(s.max(initial=0)), np.count_nonzero(s)))
        name = _alone(kind, seed, index)[1]
        found.append(Apart(seed, name, int(nearer.max(initial=0)), int(np.count_nonzero(nearer)), nearer.size))
    return found


def _values(case: Case, answer: Answer) -> dict[int, np.ndarray]:
    """The numbers of all tensors that are made or given."""
    assert not answer.error, answer.error
    g = case.model.graph
    return dict(zip([*g.inputs, *g.outputs], [*case.runs[0], *answer.outputs[0]], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="INT8", choices=["INT8", "INT16"])
    given = parser.parse_args()
    found = apart(given.kind, range(given.seed, given.seed + given.cases))
    for op in sorted({a.op for a in found}):
        mine = [a for a in found if a.op == op]
        worst = max(mine, key=lambda a: (a.steps, a.count / max(a.size, 1)))
        other, numbers = sum(a.count for a in mine), sum(a.size for a in mine)
        print(
            f"{op}: {len(mine)}, {other} of {numbers} numbers differ, {worst.steps} steps at most (seed {worst.seed})"
        )


if __name__ == "__main__":
    main()
