"""A trained model that a package carries: its answers, its perplexity, PyMNN's interface, the command line."""

from __future__ import annotations

import io
import json
import mmap
import re
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import MNN
from MNN.backends.cpu.amx.tiles import has_tiles
from MNN.backends.cpu.targets import host_target
from MNN.errors import MNNError
from MNN.llm.engine.decoder import CHUNK
from MNN.llm.engine.embeddings import embedded
from MNN.llm.files.mapped import map_file
from tests import zoo
from tests.cli.conftest import run_command

pytestmark = pytest.mark.real
CAPITAL = "What is the capital of France?"
PARIS = "The capital of France is Paris."
"""Three first words of that answer are so near that rounding rows to 8 bits would choose one of them."""
RIVER = (
    "The river rises in the hills north of the town and flows for about ninety kilometres before it reaches the "
    "sea. In spring, when the snow melts, the water is brown and quick; by August it is shallow enough to wade. "
    "Mills were built along it from the twelfth century on, first to grind corn and later to full cloth, and the "
    "ruins of several can still be seen between the two bridges. The railway came in 1872. It followed the "
    "valley, crossed the river five times, and brought with it the summer visitors who painted the view from the "
    "ridge until every hotel had a dozen copies of it on its walls. Nobody remembers most of the painters. What "
    "is left of that time is a row of tall houses with balconies, a bandstand, and the habit of closing the shops"
    " for two hours after lunch."
)
PERPLEXITY = 41.99253463745117
"""Of these 170 tokens, by transformers 5.24 in fp32 with the same weights."""


@pytest.fixture(scope="module")
def path() -> Path:
    return zoo.path("smollm2_gguf")


@pytest.fixture(scope="module")
def llm(path: Path) -> MNN.llm.LanguageModel:
    """As users get it: three first words of an answer are so near that rounding rows to 8 bits would choose another."""
    return MNN.llm.load(path, threads=2)


def test_answers(llm: MNN.llm.LanguageModel) -> None:
    answer = llm.stream(CAPITAL)
    pieces = list(answer)
    assert "".join(pieces) == answer.text == PARIS
    assert len(pieces) > 3
    assert answer.ended == "stop"
    assert (answer.cost.prompt, answer.cost.written) == (37, 7)
    assert list(answer) == []  # it is written once


def test_a_conversation_is_computed_once(llm: MNN.llm.LanguageModel) -> None:
    llm.reset()
    first = [{"role": "user", "content": CAPITAL}]
    assert llm.answer(first) == PARIS
    again = [*first, {"role": "assistant", "content": PARIS}, {"role": "user", "content": "And of Italy?"}]
    answer = llm.stream(again)
    assert answer.read() == "The capital of Italy is Rome."
    assert answer.cost.reused == 44
    llm.reset()
    assert llm.answer(again) == answer.text


def test_where_answers_end(llm: MNN.llm.LanguageModel) -> None:
    short = llm.stream(CAPITAL, max_tokens=3)
    assert (short.read(), short.ended, len(short.tokens)) == ("The capital of", "length", 3)
    stopped = llm.stream(CAPITAL, stop=[" is P"])
    assert (stopped.read(), stopped.ended) == ("The capital of France", "stop")
    cancelled = llm.stream(CAPITAL)
    for _ in zip(range(2), cancelled, strict=False):
        pass
    cancelled.cancel()
    assert list(cancelled) == []
    assert cancelled.ended == "cancelled"
    assert llm.answer(CAPITAL) == PARIS


def test_sampling_follows_its_seed(llm: MNN.llm.LanguageModel) -> None:
    hot = {"temperature": 1.2, "top_p": 0.95, "max_tokens": 20}
    texts = [llm.answer("Tell me a story.", seed=seed, **hot) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def _of_12_bits() -> float:
    """How far rows of 12 bits may move the perplexity: matrix units round what prompts are made of to bf16, as the page
    on language models says."""
    return 3e-3 if has_tiles(host_target()) else 1e-3


def test_perplexity(path: Path) -> None:
    llm = MNN.llm.load(path, threads=2)
    found = MNN.llm.perplexity(llm.decoder, llm.tokenizer.encode(RIVER))
    assert found.tokens == 169
    assert abs(found.value / PERPLEXITY - 1) <= 3e-3
    twelve = MNN.llm.load(path, threads=2, activation_bits=12)
    assert abs(MNN.llm.perplexity(twelve.decoder, llm.tokenizer.encode(RIVER)).value / PERPLEXITY - 1) <= _of_12_bits()
    exact = MNN.llm.load(path, threads=2, activation_bits=32)
    assert abs(MNN.llm.perplexity(exact.decoder, llm.tokenizer.encode(RIVER)).value / PERPLEXITY - 1) <= 1e-4
    rounded = MNN.llm.load(path, threads=2, activation_bits=8)
    assert abs(MNN.llm.perplexity(rounded.decoder, llm.tokenizer.encode(RIVER)).value / PERPLEXITY - 1) <= 5e-3


@pytest.mark.parametrize(("bits", "apart"), [(32, 2e-3), (12, 2e-3), (10, 1e-2), (8, 2e-2)])
def test_long_prompts_are_read_in_chunks(path: Path, bits: int, apart: float) -> None:
    """With the fewer bits, differences of the last digit of a float become the greater."""
    llm = MNN.llm.load(path, threads=2, activation_bits=bits)
    tokens = (llm.tokenizer.encode(RIVER) * 4)[: CHUNK + 90]
    whole, text = llm.logits(tokens), llm.decoder.text()
    llm.decoder.feed(text, tokens[:100])
    last = llm.decoder.feed(text, tokens[100:])[-1]
    if has_tiles(host_target()) and bits in (10, 12):
        apart = 1e-2  # matrix units round what many rows are made of to bf16
    assert np.abs(last - whole[-1]).max() <= apart * np.abs(whole[-1]).max()


def test_what_cannot_be_answered(llm: MNN.llm.LanguageModel) -> None:
    with pytest.raises(MNNError, match="no messages"):
        llm.stream([])
    with pytest.raises(MNNError, match="has room for 8192"):
        llm.stream([1] * 8192)
    with pytest.raises(MNNError, match="49152 is no token"):
        llm.stream([49152])
    with pytest.raises(MNNError, match="no option 'heat'; options"):
        llm.stream(CAPITAL, heat=1.0)
    with pytest.raises(MNNError, match="one token at least"):
        llm.stream(CAPITAL, max_tokens=0)
    wrong: list[Any] = [5, None, b"hi", {"role": "user", "content": CAPITAL}]
    for prompt in wrong:
        with pytest.raises(
            MNNError, match=f"list of messages, or one of tokens is expected, not {type(prompt).__name__}"
        ):
            llm.stream(prompt)
    most: list[Any] = ["3", 1.5]
    for count in most:
        with pytest.raises(MNNError, match=f"max_tokens is {count!r}; a whole number"):
            llm.stream(CAPITAL, max_tokens=count)
    with pytest.raises(MNNError, match="a list of tokens is expected, not int"):
        llm.logits(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        '{"a"', "[]", None, 5, {"thread_num": "two"}, {"max_new_tokens": 1.5}, {"max_new_tokens": float("inf")},
        {"max_all_tokens": []}, {"temperature": "hot"}, {"topP": float("nan")}, {"topK": -1}, {"system_prompt": 5},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_be_used(settings: Any) -> None:
    llm = MNN.llm.create("nowhere")
    given = {"seed": 7, **settings} if isinstance(settings, dict) else settings
    with pytest.raises(MNNError, match=r" is .*expected| are a dict or its JSON"):
        llm.set_config(given)
    assert llm._settings == {}


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt, "USER_CANCEL"), (MNNError, "INTERNAL_ERROR")], ids=["ctrl-c", "error"]
)
def test_an_answer_that_is_broken_off_has_ended(llm: MNN.llm.LanguageModel, error: Any, status: str) -> None:
    """PyMNN's programs ask for it; the next one is answered."""
    asked = MNN.llm.create("loaded already")
    asked._model = llm
    asked.set_config({"max_new_tokens": 2})
    with mock.patch.object(llm.decoder, "feed", side_effect=error), pytest.raises(error):
        asked.response(CAPITAL)
    assert (asked.stoped(), asked.context.status.name) == (True, status)
    assert asked.response(CAPITAL) == "The capital"
    wrong: list[Any] = [5, None, [1], b"hi"]
    for prompt in wrong:
        with pytest.raises(MNNError, match="a text, a message or a list of messages is expected"):
            asked.response(prompt)
    with pytest.raises(MNNError, match="max_new_tokens is 'x'; a whole number"):
        asked.generate([1], "x")  # type: ignore[arg-type]


def test_pymnn(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    llm = MNN.llm.create(str(path))
    with pytest.raises(MNNError, match="call load"):
        llm.response(CAPITAL)
    assert llm.set_config({"thread_num": 2, "max_new_tokens": 16})
    assert not llm.set_config({"no_such_setting": 1})
    llm.load()
    assert llm.response(CAPITAL, True) == PARIS
    assert capsys.readouterr().out == PARIS + "\n"
    context = llm.context
    assert (context.prompt_len, context.gen_seq_len, context.all_seq_len) == (37, 7, 44)
    assert context.status is MNN.llm.LlmStatus.NORMAL_FINISHED
    assert str(context.status) == "LlmStatus.NORMAL_FINISHED"
    assert context.prefill_us > 0
    assert llm.stoped()
    prompt = llm.apply_chat_template(CAPITAL)
    assert CAPITAL in prompt
    tokens = llm.tokenizer_encode(prompt)
    assert llm.generate(tokens) == context.output_tokens
    assert "".join(llm.tokenizer_decode(token) for token in llm.generate(tokens)) == PARIS
    llm.reset()
    logits = llm.forward(tokens)
    assert logits.shape == [1, 1, 49152]
    assert int(np.array(logits.read()).argmax()) == context.output_tokens[0]
    llm.generate_init()
    assert not llm.stoped()
    llm.set_config({"max_new_tokens": 3})
    assert llm.response(CAPITAL) == "The capital of"
    assert llm.context.status is MNN.llm.LlmStatus.MAX_TOKENS_FINISHED


def test_chat(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = run_command("chat", path, "--prompt", CAPITAL, "--threads", 2, "--temperature", 0)
    assert (once.code, once.out) == (0, PARIS + "\n")
    assert re.search(r"37 tokens read at \d+/s, 7 written at [\d.]+/s", once.err)
    saved = tmp_path / "talk.json"
    lines = [
        CAPITAL, "", "And of Italy?", "/again", "/tokens", f"/save {saved}", "/reset", "/tokens", f"/open {saved}",
        "/set max_tokens 2", "/set", CAPITAL, "/help", "/exit", "never asked",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    talk = run_command("chat", path, "--quiet", "--threads", 2, "--temperature", 0)
    rome = "The capital of Italy is Rome."
    wanted = [PARIS, rome, rome, "72 of 8192", f"written to {saved}", "forgotten", "0 of 8192", "5 messages"]
    assert talk.out.splitlines()[:7] == wanted[:7]
    assert re.fullmatch(r"\d messages", talk.out.splitlines()[7])
    assert "max_tokens 2" in talk.out
    assert "\nThe capital\n" in talk.out
    assert "/system TEXT" in talk.out
    assert (talk.err, talk.code) == ("", 0)
    messages = json.loads(saved.read_text(encoding="utf-8"))
    assert [m["content"] for m in messages if m["role"] == "assistant"] == [PARIS, rome]


def test_a_conversation_in_a_file(llm: MNN.llm.LanguageModel, path: Path, tmp_path: Path) -> None:
    llm.reset()
    with pytest.raises(MNNError, match="hold nothing"):
        llm.save_cache(tmp_path / "talk")
    assert llm.answer(CAPITAL) == PARIS
    llm.save_cache(tmp_path / "talk")
    other = MNN.llm.load(path, threads=2)
    other.load_cache(tmp_path / "talk")
    answer = other.stream(CAPITAL)
    assert answer.read() == PARIS
    assert answer.cost.reused == 36
    for known in ("", " (36 known)"):
        told = (
            "--prompt",
            CAPITAL,
            "--threads",
            2,
            "--temperature",
            0,
            "--cache-file",
            tmp_path / "chat",
            "--cache-memory",
            1,
        )
        once = run_command("chat", path, *told)
        assert (once.code, once.out) == (0, PARIS + "\n")
        assert f"37 tokens read{known} at" in once.err
    rounded = MNN.llm.load(path, threads=2, kv_bits=8)
    with pytest.raises(MNNError, match="by this one with other bits"):
        rounded.load_cache(tmp_path / "talk")


def test_a_chat_in_which_nothing_was_said(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    talk = run_command("chat", path, "--threads", 2, "--cache-file", tmp_path / "chat")
    assert (talk.code, talk.err) == (0, "")
    assert not (tmp_path / "chat").exists()


def test_beams(llm: MNN.llm.LanguageModel, path: Path) -> None:
    found = llm.beams(CAPITAL, 3, max_tokens=12)
    assert (found[0].text, found[0].ended) == (PARIS, "stop")
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    once = run_command("chat", path, "--prompt", CAPITAL, "--threads", 2, "--beams", 3, "--max-tokens", 12)
    assert (once.code, once.out) == (0, PARIS + "\n")
    with pytest.raises(MNNError, match="nothing is drawn, so leave out top_k"):
        llm.beams(CAPITAL, 2, top_k=3)
    with pytest.raises(MNNError, match="no option 'heat'"):
        llm.beams(CAPITAL, 2, heat=3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/nothing", "no command /nothing"), ("/set heat 3", "no option 'heat'"), ("/set temperature hot", "no number"),
        ("/again", "nothing was asked"), ("/file missing.txt", "missing.txt"),
        ("/open talk.json", "no saved conversation"),
    ],
)  # fmt: skip
def test_chat_says_what_is_wrong(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("talk.json").write_text('{"role": 1}')
    monkeypatch.setattr(sys, "stdin", io.StringIO(line))
    talk = run_command("chat", path)
    assert talk.code == 2
    assert message in talk.err


def test_llm_commands(path: Path, tmp_path: Path) -> None:
    info = run_command("llm", "info", path)
    assert info.code == 0
    assert "family llama" in info.out
    assert "Q4_1" in info.out
    text = tmp_path / "river.txt"
    text.write_text(RIVER, encoding="utf-8")
    for options, off in (
        (("--precision", "high"), 1e-4),
        (("--activation-bits", 32), 1e-4),
        (("--activation-bits", 12), _of_12_bits()),
        ((), 3e-3),
    ):
        found = run_command("llm", "perplexity", path, text, "--threads", 2, *options)
        assert found.code == 0
        assert float(found.out.split()[1]) == pytest.approx(PERPLEXITY, rel=off)
    refused = run_command("llm", "perplexity", path, text, "--activation-bits", 16)
    assert (refused.code, "activations can have 8, 10, 12 or 32 bits, not 16" in refused.err) == (2, True)
    out = tmp_path / "speed.json"
    options = ("llm", "bench", path, "--prompt", 40, "--generate", 24, "--runs", 1, "--json", out, "--draft", "lookup")
    assert "--draft and --text belong together" in run_command(*options).err
    text.write_text(f"Repeat the following text word for word:\n\n{RIVER[:120]}", encoding="utf-8")
    speed = run_command(*options, "--text", text)
    assert speed.code == 0, speed
    row = json.loads(out.read_text(encoding="utf-8"))[0]
    assert row["writing"] > 0
    assert row["drafts"]["same"]
    assert 8 < row["drafts"]["taken"] <= row["drafts"]["drafted"]
    assert "with drafts" in speed.out
    assert row["weights"] == path.stat().st_size  # its table of embeddings is its last layer


def test_drafts_from_the_text(llm: MNN.llm.LanguageModel, path: Path) -> None:
    question = "Repeat the following text word for word:\n\n" + RIVER[:300]
    llm.answer(question, max_tokens=1)  # so that neither of them reads the question, which may be rounded otherwise
    plain = llm.stream(question, max_tokens=60)
    plain.read()
    drafted = llm.stream(question, max_tokens=60, draft="lookup")
    assert drafted.read() == plain.text
    assert drafted.cost.kept > 30
    result = run_command(
        "chat",
        str(path),
        "--prompt",
        question,
        "--max-tokens",
        "30",
        "--temperature",
        "0",
        "--repetition-penalty",
        "1",
        "--draft",
        "lookup",
    )
    assert plain.text.startswith(result.out.strip())
    assert "drafted ones taken" in result.err
    wrong = run_command("chat", path, "--prompt", "Hello", "--draft", "layers:x")
    assert wrong.code == 2
    assert "ranges of layers are expected" in wrong.err


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what of a file is in memory")
def test_a_file_that_was_read_is_given_back(path: Path) -> None:
    """Weights are computed with as they are packed; the file's own bytes take no memory beside them."""

    def resident() -> int:
        found, inside = 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
                inside = line.endswith(str(path.resolve()))
            elif inside and line.startswith("Rss:"):
                found += int(line.split()[1]) * 1024
        return found

    raw = map_file(path.resolve())
    assert raw[:: mmap.PAGESIZE].sum(dtype=np.int64) > 0
    assert resident() > 0.9 * len(raw)
    opened = MNN.llm.load(path, cache=False)
    assert resident() < 0.2 * len(raw)
    assert raw[:4].tobytes() == b"GGUF"  # it is read again where it is looked at
    assert opened.max_length
    # Rows of a prompt's tokens: the system maps 64 KB around each that it finds in its cache.
    embedded(opened.decoder.embeddings, np.random.default_rng(0).integers(0, 49152, 300))
    assert resident() < 0.01 * len(raw)
