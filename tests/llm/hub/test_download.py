"""Models are fetched from a server of this machine that speaks the Hub's protocol."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.errors import MNNError
from tests.cli.conftest import run_command
from tests.llm import cases
from tests.llm.files.writing import safetensors
from tests.llm.hub.server import COMMIT, Hub, running
from tests.llm.test_families import RECORDED

NAME = "owner/model"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with a small Llama in safetensors, beside what is not needed here."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "llama")
    weights = safetensors(cases.weights(notes["shapes"], notes["seed"]))
    files = {
        "README.md": b"read me", "config.json": json.dumps(notes["config"]).encode(), "model.safetensors": weights,
        "tokenizer.json": b"{}", "pytorch_model.bin": b"pickled" * 400, "onnx/model.onnx": b"graph" * 400,
        "onnx/config.json": b"{}",
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    with running(files) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.address)
        yield found


def held(folder: str) -> set[str]:
    """What lies in a model's folder."""
    return {file.relative_to(folder).as_posix() for file in Path(folder).rglob("*") if file.is_file()}


def test_a_model_that_runs(hub: Hub, tmp_path: Path) -> None:
    result = run_command("llm", "download", NAME)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("model: ")
    assert held("model") == {"config.json", "model.safetensors", "tokenizer.json"}
    assert [name for name, _ in hub.fetched()] == ["model.safetensors", "tokenizer.json", "config.json"]
    notes = next(n for n in RECORDED if n["config"]["model_type"] == "llama")
    wanted = cases.weights(notes["shapes"], notes["seed"])
    for name, tensor in MNN.llm.files.open_weights("model").items():
        np.testing.assert_array_equal(tensor.float32(), wanted[name])
    assert MNN.llm.download(NAME) == Path("model")  # all is there
    assert len(hub.fetched()) == 3
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"


def test_chosen_files_of_a_revision(hub: Hub) -> None:
    hub.files |= {f"model.Q{bits}_0.gguf": b"GGUF" + bytes(bits * 1000) for bits in (4, 8)}
    result = run_command(
        "llm", "download", NAME, "some/where", "--file", "*Q4*", "--file", "onnx/*", "--revision", "v1"
    )
    assert result.code == 0, result
    assert held("some/where") == {"model.Q4_0.gguf", "onnx/model.onnx", "onnx/config.json"}
    assert hub.asked[0][1] == "/api/models/owner/model/revision/v1"
    message = run_command("llm", "download", NAME, "x", "--file", "*Q5*").err
    assert "has no file like *Q5*; it has model.safetensors (" in message
    assert not Path("x").exists()


def test_a_download_that_was_broken_off_goes_on(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.file_download as library

    data = np.random.default_rng(0).bytes(40_000_000)
    hub.files = {"model.gguf": data}
    hub.cut = [25_000_000, 12_000_000, 0]  # the library writes pieces of 10 MiB
    monkeypatch.setattr(library.time, "sleep", lambda seconds: None)  # between tries
    told: list[tuple[str, int, int]] = []
    MNN.llm.download(NAME, told=lambda *found: told.append(found))
    assert Path("model/model.gguf").read_bytes() == data
    begins = [int(span.removeprefix("bytes=").rstrip("-") or 0) for _, span in hub.fetched()]
    assert begins[0] == 0 < begins[1] < begins[2] <= begins[3] < 40_000_000
    assert {(text, total) for text, _, total in told[1:]} == {("model.gguf, MB", 40)}
    assert told[-1][1] == 40
    assert max(done for _, done, _ in told) == 40


def test_a_process_that_was_ended_goes_on(hub: Hub) -> None:
    data = np.random.default_rng(1).bytes(40_000_000)
    hub.files = {"model.gguf": data, "other.gguf": b"GGUF" * 1000}

    def ended(text: str, done: int = 0, total: int = 0) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MNN.llm.download(NAME, files=["model.gguf"], told=ended)
    assert [name.endswith(".part") for name in held("model")] == [True]
    data, hub.files["model.gguf"] = hub.files["model.gguf"], data[:-1] + b"x"  # it changed: from the beginning
    MNN.llm.download(NAME, "new", files=["model.gguf"])
    assert Path("new/model.gguf").read_bytes()[-1:] == b"x"
    hub.files["model.gguf"] = data
    MNN.llm.download(NAME, files=["model.gguf"])
    assert held("model") == {"model.gguf"}
    assert Path("model/model.gguf").read_bytes() == data
    assert [span for _, span in hub.fetched()] == ["", "", "bytes=10485760-"]


def test_a_server_that_cannot_go_on(hub: Hub) -> None:
    """What came before is not put in front of the whole."""
    data = np.random.default_rng(2).bytes(40_000_000)
    hub.files, hub.ranges = {"model.gguf": data}, False
    digest = hashlib.sha256(data).hexdigest()[:12]
    Path("model").mkdir()
    Path(f"model/model.gguf.{digest}.part").write_bytes(data[:5_000_000])
    MNN.llm.download(NAME)
    assert Path("model/model.gguf").read_bytes() == data


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_what_is_damaged_is_not_kept(hub: Hub, name: str) -> None:
    hub.promised[name] = bytes(len(hub.files[name]))
    with pytest.raises(MNNError, match=f"{name} came damaged: .* run it again"):
        MNN.llm.download(NAME)
    assert not any(name in file for file in held("model"))
    hub.promised[name] = hub.files[name] + b"more"
    with pytest.raises(MNNError, match="should be of size"):
        MNN.llm.download(NAME)
    hub.promised = {}
    MNN.llm.download(NAME)
    assert Path("model", name).read_bytes() == hub.files[name]


def test_other_files_are_not_replaced(hub: Hub) -> None:
    MNN.llm.download(NAME)
    Path("model/config.json").write_text("mine")
    Path("model/model.safetensors").unlink()
    with pytest.raises(MNNError, match=r"config.json is there, but is not that of owner/model .*name another folder"):
        MNN.llm.download(NAME)
    assert Path("model/config.json").read_text() == "mine"
    assert not Path("model/model.safetensors").exists()
    Path("file").write_text("x")
    with pytest.raises(MNNError, match="file is a file; name a folder"):
        MNN.llm.download(NAME, "file")


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (404, "RepoNotFound", "there is no model owner/model at http.*, or it is a private one: then set HF_TOKEN"),
        (401, "", "there is no model owner/model|status 401; set HF_TOKEN"),
        (403, "GatedRepo", "is for those who agreed to its terms: do so at http.*/owner/model, and set HF_TOKEN"),
        (404, "RevisionNotFound", "has no revision None"),
        (429, "", "status 429; try again later"),
        (418, "", "the server answered with status 418"),
    ],
)
def test_refusals(hub: Hub, status: int, code: str, message: str) -> None:
    hub.status, hub.code = status, code
    with pytest.raises(MNNError, match=message):
        MNN.llm.download(NAME)
    assert not Path("model").exists()


def test_other_errors_are_sentences(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/b/c", "owner/mo del", "../x", ""):
        with pytest.raises(MNNError, match=r"is no model's name|there is no model"):
            MNN.llm.download(name, "x")
    with pytest.raises(MNNError, match="there is no model owner/other"):
        MNN.llm.download("owner/other")
    with pytest.raises(MNNError, match="has no revision 'v2'"):
        MNN.llm.download(NAME, revision="v2")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: types.SimpleNamespace(free=1))
    with pytest.raises(MNNError, match=r"the model needs .* there is room for 1 B at"):
        MNN.llm.download(NAME)


def test_no_network_and_no_extra(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens
    result = run_command("llm", "download", NAME)
    assert result.code == 2
    assert "owner/model at http://127.0.0.1:9 cannot be reached" in result.err
    assert "run it again" in result.err
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MNNError, match=r'huggingface_hub is needed to fetch models; .*pip install "mnn-py\[hub\]"'):
        MNN.llm.download(NAME)


def test_tokens_come_from_the_environment(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    MNN.llm.download(NAME, "without")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    MNN.llm.download(NAME, "with")
    half = len(hub.asked) // 2
    assert {key for *_, key in hub.asked[:half]} == {""}
    assert {key for *_, key in hub.asked[half:]} == {"Bearer hf_secret"}
    with running({}) as other:
        hub.elsewhere = other.address
        other.files = hub.files
        MNN.llm.download(NAME, "redirected")
    assert {key for verb, path, _, key in other.asked} == {""}  # others do not get it
    assert all(COMMIT in path for _, path, *_ in hub.asked if "/resolve/" in path)
