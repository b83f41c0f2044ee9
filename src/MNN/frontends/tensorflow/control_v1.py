"""Control flow of TensorFlow 1, recognised: loops are frames (Enter, Merge, Switch, NextIteration, Exit around a
LoopCond), choices are Switches whose outputs meet in a Merge (Yu et al., Dynamic Control Flow in Large-Scale Machine
Learning, 2018). Those of many branches, which TensorFlow writes when it lowers a Case, are ``_SwitchN``."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from MNN.errors import FormatError
from MNN.frontends.tensorflow.bodies import Body, Ref
from MNN.frontends.tensorflow.messages import Proto
from MNN.frontends.tensorflow.types import text_of

MAX_NESTED = 32
"""How deep choices within choices are followed."""
MAX_BRANCHES = 32
JOINS = ("Exit", "RefExit", "Merge", "RefMerge")
_MERGES = ("Merge", "RefMerge")
_ENTERS = ("Enter", "RefEnter")
_SWITCHES = ("Switch", "RefSwitch", "_SwitchN")
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
    """A Merge of branches: what chooses one, which input of the Merge each is (the first for 0 or False), and what the
    branches use from outside."""

    predicate: Ref
    branches: tuple[int, ...]
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
        all_switches = [body.nodes[u] for u in users.get(joined.name, ()) if body.nodes[u].op in _SWITCHES]
        if not all_switches:  # a value that no one reads after the loop's condition
            continue
        switches = [s for s in all_switches if _of_loop(body, body.refs(s)[1])]
        if not switches:
            raise FormatError(f"node '{all_switches[0].name}': a loop's Switch without a LoopCond")
        condition = body.refs(body.nodes[body.refs(switches[0])[1].node])[0]
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
    if not 2 <= len(refs) <= MAX_BRANCHES:
        raise FormatError(f"node '{merge.name}' (Merge): {len(refs)} inputs, expected 2 to {MAX_BRANCHES} branches")
    switches = [_switches(body, ref) for ref in refs]
    ports: list[dict[Ref, int]] = [{} for _ in refs]
    for side, found in zip(ports, switches, strict=True):
        for switch, port in found:
            side.setdefault(_source(body, body.refs(switch)[1]), port)
    everything = range(len(refs))
    for predicate in dict.fromkeys(p for side in ports for p in side):
        taken = [side.get(predicate) for side in ports]
        free = [n for n in everything if n not in taken]
        # one branch may be a constant, which hangs on no Switch
        taken = [free.pop() if n is None and len(free) == 1 and not ports[i] else n for i, n in enumerate(taken)]
        if sorted(-1 if n is None else n for n in taken) != list(everything):
            continue
        at = [s for side in switches for s, _ in side if _source(body, body.refs(s)[1]) == predicate]
        given = tuple(dict.fromkeys(body.refs(s)[0] for s in at))
        return Choice(predicate, tuple(taken.index(n) for n in everything), given)
    raise FormatError(f"node '{merge.name}' (Merge): its branches do not come from one Switch")


def _source(body: Body, ref: Ref) -> Ref:
    """Where a value that is only passed on comes from."""
    for _ in range(len(body.nodes)):
        node = body.nodes.get(ref.node)
        if node is None or node.op not in _PASSING:
            return ref
        ref = body.refs(node)[0]
    return ref


def _of_loop(body: Body, predicate: Ref) -> bool:
    """Whether a Switch with this predicate is one of a loop."""
    node = body.nodes.get(predicate.node)
    return node is not None and node.op == "LoopCond"


def _switches(body: Body, start: Ref) -> list[tuple[Proto, int]]:
    """The nearest Switches that a value comes from, with the output that is used, through data and control inputs.
    Choices that begin and end within the branch are passed over: behind each Merge, one level of Switches. So are
    loops, whose Switches and Merges choose nothing."""
    found: list[tuple[Proto, int]] = []
    queue, seen = deque([(start, 0)]), set[tuple[Ref, int]]()
    while queue:
        ref, inside = queue.popleft()
        node = body.nodes.get(ref.node)
        if node is None or (ref, inside) in seen:
            continue
        seen.add((ref, inside))
        refs = [r for r in body.refs(node) if body.nodes.get(r.node) is None or body.nodes[r.node].op not in _NEXT]
        switch = node.op in _SWITCHES and len(refs) > 1 and not _of_loop(body, refs[1])
        if switch and not inside:
            found.append((node, ref.index))
            continue
        choosing = node.op in _MERGES and not is_loop_merge(body, node)
        level = inside - 1 if switch else min(inside + 1, MAX_NESTED) if choosing else inside
        queue += [(r, level) for r in (*refs, *(Ref(name, 0) for name in body.controls(node)))]
    return found
