"""Responses that later ones may go on from."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from MNN.llm.server.errors import RequestError

COUNT, BYTES = 1024, 64 << 20
"""How many are kept at most, and how much of them: the oldest go first."""


class KeptResponses:
    """Bodies and conversations by id, in memory alone. Of one event loop."""

    def __init__(self, count: int = COUNT, nbytes: int = BYTES) -> None:
        self._count, self._limit, self._held = count, nbytes, 0
        self._found: OrderedDict[str, tuple[dict[str, Any], list[dict[str, Any]], int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def keep(self, body: dict[str, Any], conversation: list[dict[str, Any]]) -> None:
        """``conversation``: all its messages, the answer included."""
        size = len(json.dumps(body)) + len(json.dumps(conversation))
        self._found[body["id"]] = body, conversation, size
        self._held += size
        while len(self._found) > self._count or (self._held > self._limit and self._found):
            self._held -= self._found.popitem(last=False)[1][2]

    def conversation(self, name: str) -> list[dict[str, Any]]:
        """The messages of a response. RequestError where it is not kept."""
        if name not in self._found:
            raise RequestError(
                400,
                f"previous_response_id: there is no response {name[:100]!r} here; send the whole conversation as input",
                "previous_response_id",
                "previous_response_not_found",
            )
        return self._found[name][1]

    def body(self, name: str) -> dict[str, Any]:
        """A response. RequestError where it is not kept."""
        if name not in self._found:
            raise RequestError(404, f"there is no response {name[:100]!r} here")
        return self._found[name][0]

    def forget(self, name: str) -> None:
        """RequestError where it is not kept."""
        self.body(name)
        self._held -= self._found.pop(name)[2]


__all__ = ["KeptResponses"]
