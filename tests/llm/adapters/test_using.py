"""A model with two adapters: on the command line, from a server, and by PyMNN's names."""

from __future__ import annotations

import io
import json
import sys
import threading
from pathlib import Path

import openai
import pytest

import MNN
from MNN.errors import MNNError
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.files import open_weights
from MNN.llm.files.adapters import read_adapter
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


def test_exchanged_while_answers_are_written(llm: MNN.llm.LanguageModel, answers: dict[str, str], folder: Path) -> None:
    """By another thread than the server's: answers of others are what they were, and the list of models follows."""
    failed: list[Exception] = []
    changes = read_adapter(open_weights(folder), folder / NAMES[1])

    def exchange(decoder: PagedDecoder) -> None:
        try:
            decoder.remove_adapter(NAMES[1])
            for n in range(300):
                decoder.add_adapter(f"other{n}", changes)
                decoder.remove_adapter(f"other{n}")
        except Exception as error:  # noqa: BLE001 - told in the test's thread
            failed.append(error)

    assert isinstance(llm.decoder, PagedDecoder)
    with (
        served(llm) as (url, _),
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=120) as client,
    ):
        thread = threading.Thread(target=exchange, args=[llm.decoder])
        thread.start()
        turns = 0
        while thread.is_alive() or turns < 4:
            name = NAMES[0] if turns % 2 else ""
            told = client.completions.create(
                model=f"{NAME}:{name}" if name else NAME, prompt=llm.prompt(QUESTION), temperature=0, max_tokens=12
            )
            assert told.choices[0].text == answers[name]
            turns += 1
        thread.join()
        assert not failed
        llm.add_adapter("three", folder / NAMES[1])
        assert [model.id for model in client.models.list()] == [NAME, f"{NAME}:{NAMES[0]}", f"{NAME}:three"]
        told = client.completions.create(
            model=f"{NAME}:three", prompt=llm.prompt(QUESTION), temperature=0, max_tokens=12
        )
        assert told.choices[0].text == answers[NAMES[1]]
        with pytest.raises(openai.NotFoundError, match=f"no model '{NAME}:{NAMES[1]}' here, but"):
            client.models.retrieve(f"{NAME}:{NAMES[1]}")


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
    kept = run_command("chat", folder, "--prompt", QUESTION, "--cache-file", folder / "kept", *told)
    assert "--cache-file keeps what the model read by itself" in kept.err
    assert not (folder / "kept").exists()
    assert not kept.out


def test_another_answer_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said before /again stays said; a file that is too long goes with /reset."""
    long, first, second = folder / "long.txt", folder / "first.json", folder / "second.json"
    long.write_text("word " * 3000)
    lines = [QUESTION, f"/save {first}", f"/file {long}", "/again", f"/save {second}", "/reset", QUESTION, "/exit"]
    given = io.StringIO("\n".join(lines))
    given.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", given)
    talk = run_command("chat", folder, "--quiet", "--threads", 2, "--temperature", 0, "--max-tokens", 3)
    assert talk.code == 0
    assert talk.out.count("the prompt has") == 1
    assert json.loads(second.read_text()) == json.loads(first.read_text())


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
