"""A graph cut over two machines: which primitives a device computes and which the host, transfers included.

Every primitive has a cost on either machine, every tensor one for being brought from one to the other, once. The
cheapest assignment is a minimum cut of a network that has a node for every primitive and two for every tensor (one for
each direction), as in Stone, "Multiprocessor Scheduling with the Aid of Network Flow Algorithms" (1977).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from MNN.backends.base.backend import Backend
from MNN.compiler.minimum_cut import INFINITY, FlowNetwork
from MNN.compiler.usage import consumers
from MNN.compiler.work import nbytes
from MNN.ir import prims as p
from MNN.ir.prims import Prim, Tensor


@dataclass(frozen=True)
class Part:
    """Primitives, in order, that one machine computes without a break; tensors that come in and that others need."""

    backend: Backend
    prims: tuple[Prim, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def cut(prims: Sequence[Prim], outputs: Sequence[Tensor], device: Backend, host: Backend) -> list[Part]:
    """The parts of a program in an order in which they can run, with as few changes of machine as that takes.

    ``prims`` in order, none without use; inputs and ``outputs`` are the host's."""
    chosen = _assigned(prims, set(outputs), device, host)
    return [_part(prims, run, device if on_device else host, outputs) for on_device, run in _runs(prims, chosen)]


def _assigned(prims: Sequence[Prim], outputs: set[Tensor], device: Backend, host: Backend) -> list[bool]:
    """Whether each primitive is the device's."""
    network = FlowNetwork(len(prims) + 2)
    source, sink = len(prims), len(prims) + 1  # the device's side, the host's
    number = {prim: i for i, prim in enumerate(prims)}
    makers = {t: i for i, prim in enumerate(prims) for t in prim.outputs}
    for i, prim in enumerate(prims):
        cost = device.cost(prim)
        network.edge(source, i, host.cost(prim) or 0.0)
        network.edge(i, sink, INFINITY if cost is None else cost)
    users = consumers(prims)
    for tensor, own in users.items():
        if tensor.const is not None:
            continue  # brought over once, when the program is bound
        maker = makers.get(tensor, sink)
        transfer = device.transfer_cost(nbytes([tensor]))
        back, over = network.node(), network.node()
        network.edge(maker, back, transfer)
        network.edge(over, maker, transfer)
        for user in [number[u] for u in own] + [sink] * (tensor in outputs):
            network.edge(back, user, INFINITY)
            network.edge(user, over, INFINITY)
    for tensor in (outputs & makers.keys()) - users.keys():
        network.edge(makers[tensor], sink, device.transfer_cost(nbytes([tensor])))
    there = network.cut(source, sink)
    return [i in there for i in range(len(prims))]


def _runs(prims: Sequence[Prim], on_device: Sequence[bool]) -> list[tuple[bool, list[Prim]]]:
    """Primitives machine by machine: each goes on for as long as it has what it needs."""
    maker = {t: prim for prim in prims for t in prim.outputs}
    waits: dict[Prim, set[Prim]] = {q: {maker[t] for t in q.inputs if t in maker} for q in prims}
    effects = [q for q in prims if isinstance(q, p.Host) and not q.pure]
    for before, after in itertools.pairwise(effects):  # such as drawing random numbers: in the same order
        waits[after].add(before)
    side = dict(zip(prims, on_device, strict=True))
    left, found = list(prims), list[tuple[bool, list[Prim]]]()
    done: set[Prim] = set()
    here = False
    while left:
        run: list[Prim] = []
        rest: list[Prim] = []
        for prim in left:  # in order, so that what a primitive needs has had its turn
            if side[prim] == here and waits[prim] <= done:
                run.append(prim)
                done.add(prim)
            else:
                rest.append(prim)
        if run:
            found.append((here, run))
        left, here = rest, not here
    return found


def _part(prims: Sequence[Prim], run: Sequence[Prim], backend: Backend, outputs: Sequence[Tensor]) -> Part:
    own = {t for prim in run for t in prim.outputs}
    inside = set(run)
    needed = {t for prim in prims if prim not in inside for t in prim.inputs} | set(outputs)
    inputs = dict.fromkeys(t for prim in run for t in prim.inputs if t.const is None and t not in own)
    results = dict.fromkeys(t for prim in run for t in prim.outputs if t in needed)
    return Part(backend, tuple(run), tuple(inputs), tuple(results))


__all__ = ["Part", "cut"]
