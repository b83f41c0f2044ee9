"""Control flow of TensorFlow 1, recognised: loops are frames (Enter, Merge, Switch, NextIteration, Exit around a
LoopCond), choices are Switches whose outputs meet in a Merge (Yu et al., Dynamic Control Flow in Large-Scale Machine
Learning, 2018)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from MNN.errors import FormatError
from MNN.frontends.tensorflow.bodies import Body, Ref
from MNN.frontends.tensorflow.messages import Proto
from MNN.frontends.tensorflow.types import text_of

MAX_NESTED = 32
"""How deep choices within choices are followed."""
JOINS = ("Exit", "RefExit", "Merge", "RefMerge")
_MERGES = ("Merge", "RefMerge")
_ENTERS = ("Enter", "RefEnter")
_SWITCHES = ("Switch", "RefSwitch")
_NEXT = ("NextIteration", "RefNextIteration")
_PASSING = ("Identity", "StopGradient", "Snapshot")


@dataclass(frozen=True)
class LoopVariable:
    """A value that a loop carries: its first value outside, the nodes that hold it, and its next value inside."""

    first: Ref
    merge: str
    switch: str
    next: Ref


@dataclass(frozen=True)
class Frame:
    """A loop. ``condition``: what LoopCond is given; ``constants``: values from outside that stay as they are."""

    variables: tuple[LoopVariable, ...]
    condition: Ref
    constants: tuple[Ref, ...]


@dataclass(frozen=True)
class Choice:
    """A Merge of two branches: the predicate, the value of each, and what the branches use from outside."""

    predicate: Ref
    yes: Ref
    no: Ref
    outside: tuple[Ref, ...]


def outside(body: Body, node: Proto) -> list[Ref]:
    """What must be known before an Exit or a Merge can be converted."""
    if node.op in _MERGES:
        found = choice(body, node)
        return [found.predicate, *found.outside]
    loop = frame(body, node)
    return [*(v.first for v in loop.variables), *loop.constants]


def frame_name(node: Proto) -> str:
    """The name of the frame that an Enter leads into."""
    return text_of(node.attr["frame_name"].s) if "frame_name" in node.attr else ""


def frame(body: Body, exit_node: Proto) -> Frame:
    """The loop that an Exit leaves."""
    switch = _single(body, exit_node, 0, _SWITCHES)
    merge = _single(body, switch, 0, _MERGES)
    enter = _merged(body, merge)[0]
    name = frame_name(enter)
    variables, constants = [], []
    condition: Ref | None = None
    users = _users(body)
    for node in body.nodes.values():
        if node.op not in _ENTERS or frame_name(node) != name:
            continue
        merges = [body.nodes[u] for u in users.get(node.name, ()) if body.nodes[u].op in _MERGES]
        if not merges:
            constants.append(body.refs(node)[0])
            continue
        joined = merges[0]
        step = _merged(body, joined)[1]
        switches = [body.nodes[u] for u in users.get(joined.name, ()) if body.nodes[u].op in _SWITCHES]
        if not switches:  # a value that no one reads after the loop's condition
            continue
        loop_cond = body.nodes[body.refs(switches[0])[1].node]
        if loop_cond.op != "LoopCond":
            raise FormatError(f"node '{switches[0].name}': a loop's Switch without a LoopCond")
        condition = body.refs(loop_cond)[0]
        variables.append(LoopVariable(body.refs(node)[0], joined.name, switches[0].name, body.refs(step)[0]))
    if condition is None:
        raise FormatError(f"node '{exit_node.name}': the loop '{name}' has no condition")
    return Frame(tuple(variables), condition, tuple(constants))


def _single(body: Body, node: Proto, index: int, ops: tuple[str, ...]) -> Proto:
    refs = body.refs(node)
    found = body.nodes.get(refs[index].node) if index < len(refs) else None
    if found is None or found.op not in ops:
        raise FormatError(f"node '{node.name}' ({node.op}): expected input {index} to be a {ops[0]}")
    return found


def _merged(body: Body, merge: Proto) -> tuple[Proto, Proto]:
    """The Enter and the NextIteration that meet in a loop's Merge."""
    refs = body.refs(merge)
    found = [body.nodes.get(ref.node) for ref in refs]
    enter = next((n for n in found if n is not None and n.op in _ENTERS), None)
    step = next((n for n in found if n is not None and n.op in _NEXT), None)
    if len(refs) != 2 or enter is None or step is None:
        raise FormatError(f"node '{merge.name}' (Merge): expected an Enter and a NextIteration")
    return enter, step


def _users(body: Body) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {}
    for node in body.nodes.values():
        for ref in body.refs(node):
            users.setdefault(ref.node, []).append(node.name)
    return users


def is_loop_merge(body: Body, node: Proto) -> bool:
    """Whether a Merge belongs to a loop and not to a choice."""
    return any(body.nodes[ref.node].op in _NEXT for ref in body.refs(node) if ref.node in body.nodes)


def choice(body: Body, merge: Proto) -> Choice:
    """The choice that ends in a Merge."""
    refs = body.refs(merge)
    if len(refs) != 2:
        raise FormatError(f"node '{merge.name}' (Merge): {len(refs)} inputs, expected the values of two branches")
    switches = [_switches(body, ref) for ref in refs]
    ports: list[dict[Ref, int]] = [{}, {}]
    for side, found in zip(ports, switches, strict=True):
        for switch, port in found:
            side.setdefault(_source(body, body.refs(switch)[1]), port)
    for predicate in dict.fromkeys([*ports[0], *ports[1]]):
        first, second = ports[0].get(predicate), ports[1].get(predicate)
        if first == second or (None in (first, second) and ports[0] and ports[1]):
            continue
        first_is_yes = first == 1 if first is not None else second == 0
        yes, no = (refs[0], refs[1]) if first_is_yes else (refs[1], refs[0])
        at = [s for s, _ in (*switches[0], *switches[1]) if _source(body, body.refs(s)[1]) == predicate]
        return Choice(predicate, yes, no, tuple(dict.fromkeys(body.refs(s)[0] for s in at)))
    raise FormatError(f"node '{merge.name}' (Merge): its branches do not come from one Switch")


def _source(body: Body, ref: Ref) -> Ref:
    """Where a value that is only passed on comes from."""
    for _ in range(len(body.nodes)):
        node = body.nodes.get(ref.node)
        if node is None or node.op not in _PASSING:
            return ref
        ref = body.refs(node)[0]
    return ref


def _switches(body: Body, start: Ref) -> list[tuple[Proto, int]]:
    """The nearest Switches that a value comes from, with the output that is used, through data and control inputs.
    Choices that begin and end within the branch are passed over: behind each Merge, one level of Switches."""
    found: list[tuple[Proto, int]] = []
    queue, seen = deque([(start, 0)]), set[tuple[Ref, int]]()
    while queue:
        ref, inside = queue.popleft()
        node = body.nodes.get(ref.node)
        if node is None or (ref, inside) in seen:
            continue
        seen.add((ref, inside))
        switch = node.op in _SWITCHES and len(body.refs(node)) > 1
        if switch and not inside:
            found.append((node, ref.index))
            continue
        level = inside - 1 if switch else min(inside + 1, MAX_NESTED) if node.op in _MERGES else inside
        refs = [r for r in body.refs(node) if body.nodes.get(r.node) is None or body.nodes[r.node].op not in _NEXT]
        queue += [(r, level) for r in (*refs, *(Ref(name, 0) for name in body.controls(node)))]
    return found
