"""OpenAI's protocol over HTTP, in front of one model. Needs the extra ``serve``."""

from __future__ import annotations

import contextlib
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from MNN.errors import MNNError
from MNN.llm.server import fields, requests
from MNN.llm.server.answering import Answering
from MNN.llm.server.embedding import Embeddings, Embeds
from MNN.llm.server.errors import RequestError
from MNN.llm.server.jobs import Jobs, Model
from MNN.llm.server.metrics import Metrics
from MNN.llm.server.ranking import Ranking, Ranks
from MNN.llm.server.responses import Envelope, as_json
from MNN.llm.server.responses_api.kept import KeptResponses
from MNN.llm.server.responses_api.requests import previous, response
from MNN.llm.server.responses_api.responding import Responding
from MNN.llm.speculation import Drafter

OPEN = ("/", "/health")
"""Paths that need no key."""
JSON = "application/json"
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""What the page may do: talk with this server, and nothing else."""


_LOG = logging.getLogger(__name__)  # those who run the server see what its users are not told


@dataclass(frozen=True)
class Settings:
    """``name``: what clients call the model; with a colon and an adapter's name behind it, the model with that adapter.
    ``key``: what they have to send, or empty.

    ``waiting``: answers that may wait. ``parallel``: answers that are written at the same time.
    ``seconds``: how long an answer may take, its wait included. ``draft``: makes for each answer what proposes its
    tokens. ``body``: bytes that a request may have.
    """

    name: str
    key: str = ""
    waiting: int = 64
    parallel: int = 32
    seconds: float | None = None
    draft: Callable[[], Drafter] | None = None
    body: int = 8 << 20


class Server:
    """The handlers of one model's server."""

    def __init__(self, model: Model | Embeds | Ranks, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self._jobs: Jobs | None = None
        self._embeddings: Embeddings | None = None
        self._ranking: Ranking | None = None
        if isinstance(model, Embeds):
            self._embeddings = Embeddings(model, self.metrics)
            self._room = model.longest
        elif isinstance(model, Ranks):
            self._ranking = Ranking(model, self.metrics)
            self._room = model.longest
        else:
            self._jobs = Jobs(model, self.metrics, settings.waiting, settings.parallel, settings.draft)
            self._room = model.max_length
        self._kept = KeptResponses()
        self._started = int(time.time())
        self._page = (resources.files("MNN") / "assets" / "chat.html").read_text(encoding="utf-8")

    def application(self) -> Starlette:
        """The ASGI application."""
        post = {
            "/v1/chat/completions": self.chat,
            "/v1/completions": self.completions,
            "/v1/responses": self.responses,
            "/v1/embeddings": self.embeddings,
            "/v1/rerank": self.rerank,
        }
        get = {
            "/": self.page,
            "/health": self.health,
            "/metrics": self.shown_metrics,
            "/v1/models": self.models,
            "/v1/models/{name:path}": self.model,
            "/v1/responses/{id}": self.kept_response,
        }
        routes = [Route(path, self._guarded(handler), methods=["POST"]) for path, handler in post.items()]
        routes += [Route(path, self._guarded(handler), methods=["GET"]) for path, handler in get.items()]
        routes.append(Route("/v1/responses/{id}", self._guarded(self.forget_response), methods=["DELETE"]))
        handlers: Any = {HTTPException: _http_error}
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        if self._jobs is not None:
            self._jobs.close()

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Keys are looked at, errors told in OpenAI's form, and answers counted."""

        async def guarded(request: Request) -> Response:
            try:
                self._check_key(request)
                response = await handler(request)
            except ClientDisconnect:
                response = Response(status_code=499)
            except RequestError as error:
                headers = {"Retry-After": "1"} if error.status == 429 else None
                response = _Json(error.body, error.status, headers)
            except MNNError as error:
                response = _Json(RequestError(400, str(error)).body, 400)
            except Exception as error:  # noqa: BLE001 - the server goes on
                _LOG.exception("a request could not be answered")
                response = _Json(RequestError(500, f"internal error: {type(error).__name__}").body, 500)
            path = request.scope["route"].path if "route" in request.scope else request.url.path
            self.metrics.add("mnn_requests_total", path=path, status=response.status_code)
            return response

        return guarded

    def _check_key(self, request: Request) -> None:
        if not self.settings.key or request.url.path in OPEN:
            return
        given = request.headers.get("authorization", "")
        scheme, _, key = given.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.strip().encode(), self.settings.key.encode()):
            raise RequestError(401, "a valid API key is expected: Authorization: Bearer KEY", code="invalid_api_key")

    async def _body(self, request: Request) -> dict[str, Any]:
        """The JSON of a request, not larger than allowed."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise RequestError(415, f"the content type {JSON} is expected, not {kind[:60] or 'none'}")
        limit, body = self.settings.body, bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > limit:
                raise RequestError(413, f"the request has more than {limit} bytes", code="request_too_large")
        return fields.parsed(bytes(body))

    @property
    def _models(self) -> dict[str, str]:
        """Names that clients may ask for, and the adapter that each means: those that there are now."""
        name, adapters = self.settings.name, () if self._jobs is None else self._jobs.model.adapters
        return {name: ""} | {f"{name}:{adapter}": adapter for adapter in adapters}

    def _adapter_of(self, name: str) -> str:
        """The adapter that a model's name says, or empty for the model by itself. RequestError for other names."""
        models = self._models
        if name not in models:
            known = ", ".join(map(repr, models))
            raise RequestError(404, f"there is no model {name[:100]!r} here, but {known}", "model", "model_not_found")
        return models[name]

    async def chat(self, request: Request) -> Response:
        asked = requests.chat(await self._body(request))
        return await self._answered(request, asked, "chat.completion")

    async def completions(self, request: Request) -> Response:
        asked = requests.completion(await self._body(request))
        return await self._answered(request, asked, "text_completion")

    async def _answered(self, request: Request, asked: requests.Chat | requests.Completion, kind: str) -> Response:
        adapter = self._adapter_of(asked.model)
        answering = Answering(self._writing(), asked, Envelope(kind, asked.model), adapter, self.settings.seconds)
        return await _told(request, answering, asked.stream)

    def _writing(self) -> Jobs:
        """What writes texts. RequestError where the model writes none."""
        if self._jobs is None:
            does = "embeds" if self._embeddings is not None else "compares"
            raise RequestError(400, f"this model {does} texts; it writes none", "model", "unsupported_endpoint")
        return self._jobs

    async def responses(self, request: Request) -> Response:
        body = await self._body(request)
        before = previous(body)
        asked = response(body, () if before is None else self._kept.conversation(before))
        adapter = self._adapter_of(asked.chat.model)
        answering = Responding(self._writing(), asked, self._kept, adapter, self.settings.seconds)
        return await _told(request, answering, asked.chat.stream)

    async def kept_response(self, request: Request) -> Response:
        return _Json(self._kept.body(request.path_params["id"]))

    async def forget_response(self, request: Request) -> Response:
        name = request.path_params["id"]
        self._kept.forget(name)
        return _Json({"id": name, "object": "response", "deleted": True})

    async def embeddings(self, request: Request) -> Response:
        asked = requests.embedding(await self._body(request))
        self._adapter_of(asked.model)
        if self._embeddings is None:
            does = "compares" if self._ranking is not None else "writes"
            raise RequestError(400, f"this model {does} texts; it gives no embeddings", "model", "unsupported_endpoint")
        return _Json(await run_in_threadpool(self._embeddings.answer, asked))

    async def rerank(self, request: Request) -> Response:
        asked = requests.rerank(await self._body(request))
        self._adapter_of(asked.model)
        if self._ranking is None:
            does = "embeds" if self._embeddings is not None else "writes"
            raise RequestError(400, f"this model {does} texts; it compares none", "model", "unsupported_endpoint")
        return _Json(await run_in_threadpool(self._ranking.answer, asked))

    async def models(self, request: Request) -> Response:
        return _Json({"object": "list", "data": [self._described(*one) for one in self._models.items()]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        return _Json(self._described(name, self._adapter_of(name)))

    def _described(self, name: str, adapter: str) -> dict[str, Any]:
        found = {"id": name, "object": "model", "created": self._started, "owned_by": "local"}
        if adapter:
            found["parent"] = self.settings.name
        return found | {"max_model_len": self._room}

    async def health(self, request: Request) -> Response:
        return _Json({"status": "ok"})

    async def shown_metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def page(self, request: Request) -> Response:
        headers = {"Content-Security-Policy": POLICY}
        return HTMLResponse(self._page, headers=headers)


class _Json(Response):
    """A body of JSON."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        return as_json(content)


class _Events(StreamingResponse):
    """An answer as server-sent events. It ends with them, also where the client has left before the first one."""

    def __init__(self, answering: Answering | Responding) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(answering.events(), media_type="text/event-stream", headers=headers)
        self._answering = answering

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answering.cancel()


async def _told(request: Request, answering: Answering | Responding, stream: bool) -> Response:
    """An answer in one piece, or as server-sent events."""
    await answering.prepare()
    if stream:
        return _Events(answering)
    return _Json(await answering.whole(request.is_disconnected))


async def _http_error(request: Request, error: HTTPException) -> Response:
    """Unknown paths and methods."""
    told = RequestError(error.status_code, f"{request.method} {request.url.path[:200]}: {error.detail}")
    return _Json(told.body, error.status_code, error.headers)
