"""A model with two adapters: on the command line, from a server, and by PyMNN's names."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import openai
import pytest

import MNN
from MNN.errors import MNNError
from tests.cli.conftest import run_command
from tests.llm.adapters.cases import NAMES, write_adapters
from tests.llm.adapters.test_switching import recorded
from tests.llm.official.sources import write
from tests.llm.server.running import NAME, served

QUESTION = "What is the capital of France?"
WORDS = 320


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model with a tokenizer, in which its adapters lie."""
    case = recorded("qwen2")
    case.config["vocab_size"] = WORDS
    for name, shape in case.shapes.items():
        if name in ("model.embed_tokens.weight", "lm_head.weight"):
            shape[0] = WORDS
    made = write(tmp_path_factory.mktemp("model") / "it", case.notes())
    write_adapters(case, made)
    return made


@pytest.fixture(scope="module")
def llm(folder: Path) -> MNN.llm.LanguageModel:
    return MNN.llm.load(folder, 2, cache=False, adapters={name: folder / name for name in NAMES})


@pytest.fixture(scope="module")
def answers(llm: MNN.llm.LanguageModel) -> dict[str, str]:
    found = {name: llm.answer(QUESTION, max_tokens=12, adapter=name) for name in ("", *NAMES)}
    assert len(set(found.values())) == 3
    for name in NAMES[::-1]:
        assert llm.answer(QUESTION, max_tokens=12, adapter=name) == found[name]
    return found


def test_server(llm: MNN.llm.LanguageModel, answers: dict[str, str]) -> None:
    names = {NAME: "", **{f"{NAME}:{name}": name for name in NAMES}}
    with (
        served(llm) as (url, _),
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=120) as client,
    ):
        assert [model.id for model in client.models.list()] == list(names)
        for _ in range(2):  # what one has read is of no use to another
            streams = {
                name: client.chat.completions.create(
                    model=name, messages=[{"role": "user", "content": QUESTION}], temperature=0, max_tokens=12,
                    stream=True,
                )
                for name in names
            }  # fmt: skip
            for name, stream in streams.items():
                chunks = list(stream)
                assert {chunk.model for chunk in chunks} == {name}
                assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == answers[names[name]]
        with pytest.raises(openai.NotFoundError, match="no model 'test-model:new' here, but"):
            client.chat.completions.create(model=f"{NAME}:new", messages=[{"role": "user", "content": "?"}])


def test_commands(folder: Path, answers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:

    lines = [
        QUESTION,
        f"/adapter {NAMES[1]}",
        "/reset",
        QUESTION,
        "/adapter none",
        "/reset",
        QUESTION,
        "/adapter",
        "/exit",
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    told = [f"--lora={name}={folder / name}" for name in NAMES]
    options = ["--quiet", "--threads", 2, "--temperature", 0, "--max-tokens", 12]
    talk = run_command("chat", folder, *options, "--repetition-penalty", 1, *told)
    assert talk.code == 0
    for answer in answers.values():
        assert f"{answer}\n" in talk.out
    assert "none of one, two" in talk.out
    wrong = run_command("chat", folder, *told, told[0])
    assert "the name 'one' is there twice" in wrong.err
    assert "there is no such folder" in run_command("chat", folder, "--lora", "nowhere").err


def test_as_pymnn_has_them(folder: Path, answers: dict[str, str]) -> None:
    model = MNN.llm.create(str(folder / "config.json"))
    model.set_config({"thread_num": 2, "max_new_tokens": 12, "use_template": True})
    model.load()
    assert not model.select_module(1)
    assert model.apply_lora(str(folder / NAMES[0])) == 1
    assert model.response(QUESTION) == answers[NAMES[0]]
    assert model.apply_lora(str(folder / NAMES[1])) == 2
    assert model.response(QUESTION) == answers[NAMES[1]]
    assert model.select_module(0)
    assert model.response(QUESTION) == answers[""]
    assert model.select_module(1)
    assert model.response(QUESTION) == answers[NAMES[0]]
    assert model.release_module(1)
    assert not model.select_module(1)
    assert not model.release_module(1)
    assert model.response(QUESTION) == answers[""]
    assert model.apply_lora(str(folder / NAMES[0])) == 3  # in the room of the first
    assert model.response(QUESTION) == answers[NAMES[0]]
    with pytest.raises(MNNError, match="adapter_config"):
        model.apply_lora("nowhere")
