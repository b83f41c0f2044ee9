"""Errors in the form that OpenAI's protocol has for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from MNN.errors import MNNError


class RequestError(MNNError):
    """What is told to a client. ``status``: of HTTP; ``param``: the field that is wrong; ``code``: for programs."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    @property
    def body(self) -> dict[str, Any]:
        """The JSON that says so."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


_KINDS = {401: "authentication_error", 429: "rate_limit_error", 503: "server_error"}


@contextlib.contextmanager
def naming(param: str) -> Iterator[None]:
    """What the model says of a request is of its field ``param``."""
    try:
        yield
    except RequestError:
        raise
    except MNNError as error:
        raise RequestError(400, str(error), param) from error


def wrong(param: str, message: str, code: str | None = None) -> RequestError:
    """A request whose field ``param`` cannot be used."""
    return RequestError(400, f"{param}: {message}", param, code)
