"""The cheapest way to part a graph in two: a minimum cut, found as a maximum flow.

Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation" (1970).
"""

from __future__ import annotations

from collections import deque

INFINITY = float("inf")
_LEAST = 1e-15


class FlowNetwork:
    """Nodes are numbers from 0 on; edges have capacities."""

    def __init__(self, nodes: int = 0) -> None:
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._to: list[int] = []
        self._left: list[float] = []

    def node(self) -> int:
        """A new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, source: int, target: int, capacity: float) -> None:
        """What it costs to have ``source`` on the side of the cut's beginning and ``target`` on the other one."""
        for node, to, left in ((source, target, capacity), (target, source, 0.0)):
            self._edges[node].append(len(self._to))
            self._to.append(to)
            self._left.append(left)

    def cut(self, source: int, sink: int) -> set[int]:
        """The nodes on the source's side of a cheapest cut: as few as possible."""
        while True:
            levels = self._levels(source)
            if sink not in levels:
                return set(levels)
            looked = [0] * len(self._edges)
            while self._augment(source, sink, levels, looked):
                pass

    def _levels(self, source: int) -> dict[int, int]:
        """Distances from the source over edges with capacity left."""
        levels, queue = {source: 0}, deque([source])
        while queue:
            node = queue.popleft()
            for e in self._edges[node]:
                to = self._to[e]
                if self._left[e] > _LEAST and to not in levels:
                    levels[to] = levels[node] + 1
                    queue.append(to)
        return levels

    def _augment(self, source: int, sink: int, levels: dict[int, int], looked: list[int]) -> bool:
        """Sends flow along one path of the level graph; False when there is none left. ``looked``: how many edges of
        every node lead nowhere any more."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self._edges[node]
            while looked[node] < len(edges):
                e = edges[looked[node]]
                if self._left[e] > _LEAST and levels.get(self._to[e], -1) == levels[node] + 1:
                    break
                looked[node] += 1
            else:
                if not path:
                    return False
                node = self._to[path.pop() ^ 1]
                looked[node] += 1
                continue
            path.append(e)
            node = self._to[e]
        flow = min(self._left[e] for e in path)
        for e in path:
            self._left[e] -= flow
            self._left[e ^ 1] += flow
        return True


__all__ = ["INFINITY", "FlowNetwork"]
