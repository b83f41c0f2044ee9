"""``mnn serve``: a language model for programs, by OpenAI's protocol."""

from __future__ import annotations

import ipaddress
import os
from typing import Annotated, Any

import typer
from rich.markup import escape

from MNN.cli.display.output import console
from MNN.cli.language.options import (
    ActivationBits,
    Bits,
    CacheMemory,
    Draft,
    KvBits,
    Literal,
    Lora,
    MaxLength,
    NoCache,
    Precision,
    Source,
    Threads,
    drafter,
    opened,
)
from MNN.errors import MNNError

NAME = "serve"
SHORT = "Serve a language model by OpenAI's protocol, with a page to chat in."
"""What the list of commands says."""
KEY = "MNN_API_KEY"


def command(
    model: Source,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8080,
    name: Annotated[str, typer.Option(help="What clients call the model; by default the file's name.")] = "",
    api_key: Annotated[str, typer.Option(envvar=KEY, help="Clients have to send this key.")] = "",
    waiting: Annotated[int, typer.Option(min=1, max=10_000, help="Answers that may wait for their turn.")] = 64,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Answers that are written at the same time.")] = 32,
    time_limit: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds that an answer may take, waiting too.")
    ] = None,
    rerank: Annotated[bool, typer.Option(help="Compare texts by a model that writes yes or no.")] = False,
    threads: Threads = None,
    precision: Precision = "normal",
    max_length: MaxLength = None,
    bits: Bits = None,
    kv_bits: KvBits = "16",
    cache_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens that all conversations together may have in the caches.")
    ] = None,
    cache_memory: CacheMemory = None,
    activation_bits: ActivationBits = None,
    draft: Draft = "",
    lora: Lora = None,
    literal: Literal = False,
    no_cache: NoCache = False,
) -> None:
    """Serve a language model by OpenAI's protocol: chat/completions, completions, responses, embeddings, models,
    /health, /metrics, and a page to chat in; models that compare texts by Jina's, rerank. Ctrl-C ends it."""
    from MNN.llm.embedder import load_embedder  # other commands start without these
    from MNN.llm.files import read_config
    from MNN.llm.models.families import compares, embeds
    from MNN.llm.reranker import load_reranker
    from MNN.llm.server import serve

    if not api_key and not _local(host):
        raise MNNError(f"{host} can be reached from other machines: give an --api-key (or set {KEY})")
    config = read_config(model)
    if draft and (rerank or compares(config) or embeds(config)):
        raise MNNError(f"--draft {draft}: {model} writes no text; drafts would change nothing")
    proposing = None
    if rerank or compares(config):
        serving: Any = load_reranker(model, threads, precision, bits, not no_cache)
    elif embeds(config):
        serving = load_embedder(model, threads, precision, bits, not no_cache)
    else:
        serving = opened(
            model,
            threads,
            precision,
            max_length,
            bits,
            no_cache,
            activation_bits,
            kv_bits,
            cache_tokens,
            lora,
            cache_memory,
            draft,
            literal,
        )
        proposing = drafter(draft, serving, model, threads, precision)
    known = name or os.path.basename(os.path.abspath(model)).removesuffix(".gguf")
    console().print(f"{escape(known)}: http://{host}:{port}/ (page), http://{host}:{port}/v1 (OpenAI's protocol)")
    serve(serving, known, host, port, api_key, waiting, parallel, time_limit, proposing)


def _local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
