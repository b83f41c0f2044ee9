"""A server that speaks OpenAI's protocol (``mnn serve``). Needs the extra ``serve``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from MNN.errors import MNNError

if TYPE_CHECKING:
    from MNN.llm.server.embedding import Embeds
    from MNN.llm.server.jobs import Model
    from MNN.llm.server.ranking import Ranks
    from MNN.llm.speculation import Drafter
    from MNN.llm.speculation.opening import Model as DraftModel


def create_app(
    model: Model | Embeds | Ranks,
    name: str,
    key: str = "",
    waiting: int = 64,
    parallel: int = 32,
    seconds: float | None = None,
    draft: str | DraftModel | Drafter | None = None,
) -> Any:
    """The server as an ASGI application, for any server of such.

    ``model``: a :class:`MNN.llm.LanguageModel`, :class:`MNN.llm.Embedder` or :class:`MNN.llm.Reranker`. ``name``: what
    clients call it. ``key``: what they have to send, if anything. ``waiting``: answers that may wait for their turn.
    ``parallel``: answers that are written at the same time. ``seconds``: how long an answer may take, its wait
    included; no limit by default. ``draft``: what proposes tokens where few answers are written, as
    :meth:`MNN.llm.LanguageModel.stream` has it; a drafter needs a method ``another`` that gives one for another text.
    MNNError where the extra is not installed.
    """
    try:
        from MNN.llm.server.app import Server, Settings
    except ImportError as error:
        raise _missing(error) from error
    return Server(model, Settings(name, key, waiting, parallel, seconds, _drafters(model, draft))).application()


def serve(
    model: Model | Embeds | Ranks,
    name: str,
    host: str,
    port: int,
    key: str = "",
    waiting: int = 64,
    parallel: int = 32,
    seconds: float | None = None,
    draft: str | DraftModel | Drafter | None = None,
) -> None:
    """Serves until it is told to end (Ctrl-C); arguments are those of :func:`create_app`."""
    try:
        import uvicorn
    except ImportError as error:
        raise _missing(error) from error
    app = create_app(model, name, key, waiting, parallel, seconds, draft)
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=5)


def _drafters(model: Any, draft: str | DraftModel | Drafter | None) -> Callable[[], Drafter] | None:
    if draft is None:
        return None
    from MNN.llm.speculation import drafter_of
    from MNN.llm.speculation.together import each_its_own

    if not hasattr(model, "generation"):
        raise MNNError(f"{model!r:.80} writes no text: drafts would change nothing")
    return each_its_own(drafter_of(draft, model.tokenizer, model.heads))


def _missing(error: ImportError) -> MNNError:
    return MNNError(f'the package {error.name} is needed to serve; install it with: pip install "mnn-py[serve]"')


__all__ = ["create_app", "serve"]
