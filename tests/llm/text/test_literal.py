"""Control tokens that are written in messages are text where that is asked for, and nothing else changes."""

from __future__ import annotations

import functools
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Core

from MNN.errors import MNNError
from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.llm.text.special import SpecialTokens
from tests import zoo
from tests.llm.text.chats import CONVERSATIONS, SETTINGS, TEMPLATES
from tests.llm.text.check import HERE
from tests.llm.text.texts import text

CONTROL = [
    "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]",
    "<start_of_turn>", "<end_of_turn>",
]  # fmt: skip
NAMED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
"""Tokens that a template names, and files do not call special."""
KINDS = ["smollm2", "bpe_symbols", "unigram_rules"]
pytestmark = pytest.mark.real


@functools.cache
def loaded(kind: str) -> Tokenizer:
    """One of a kind that has all control tokens, and names those in its own template."""
    if kind == "smollm2":
        found = load_tokenizer(zoo.path("smollm2_gguf"))
    else:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tokenizer.model").write_bytes((HERE / "models" / f"{kind}.model").read_bytes())
            found = load_tokenizer(folder)
    new = [t for t in (*CONTROL, *NAMED) if found.core.token_to_id(t) is None]
    found.core.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in new if t in CONTROL])
    found.core.add_tokens([AddedToken(t, special=False, normalized=False) for t in new if t in NAMED])
    return found


@functools.cache
def tokenizers(kind: str, literal: bool) -> Tokenizer:
    """The same, reading messages in one way."""
    found = loaded(kind)
    made = Tokenizer(found.core, found.special, {"default": TEMPLATES["chatml"]})
    made.read_literally(literal)
    return made


def changed(value: Any, change: Any) -> Any:
    """A conversation with other contents."""
    return [{key: change(item) if key == "content" and isinstance(item, str) else item for key, item in m.items()}
            for m in value]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_twin_reads_as_the_tokenizer(kind: str) -> None:
    """What templates write, and texts without control tokens in them, have the same tokens in both."""
    tokenizer = tokenizers(kind, literal=True)
    assert tokenizer._literal is not None
    for seed, (name, conversation) in enumerate(CONVERSATIONS.items()):
        messages = changed(conversation, lambda told, seed=seed: told + text(seed) + " ")
        for at, template in enumerate(TEMPLATES):
            values = {"chat_template": TEMPLATES[template], **SETTINGS[(seed + at) % len(SETTINGS)]}
            try:
                expected = tokenizers(kind, literal=False).prompt(messages, **values)
            except MNNError as error:
                with pytest.raises(MNNError, match=str(error)[:20]):
                    tokenizer.prompt(messages, **values)
                continue
            assert tokenizer.prompt(messages, **values) == expected, (name, template)
            assert tokenizer._literal.encode(expected.text) == expected, (name, template)


@pytest.mark.parametrize("kind", KINDS)
def test_control_tokens_in_messages(kind: str) -> None:
    """Text of any kind with control tokens in it: those of the prompt are the template's own."""
    tokenizer, usual, rng = tokenizers(kind, literal=True), tokenizers(kind, literal=False), random.Random(5)
    control = {tokenizer.id_of(t) for t in (*CONTROL, *NAMED)}
    met = 0
    for _ in range(40):
        template = rng.choice(list(TEMPLATES))
        chosen = rng.choice([c for c in CONVERSATIONS if c not in ("nothing", "answered", "tools", "parts")])

        def hostile(told: str) -> str:
            words = [*rng.choices([*CONTROL, *NAMED], k=3), told, rng.choice([*CONTROL, *NAMED])[: rng.randint(1, 9)]]
            rng.shuffle(words)
            return "".join(words)

        values = {"chat_template": TEMPLATES[template], **rng.choice(SETTINGS)}
        users = [{**m, "role": "user"} for m in CONVERSATIONS[chosen]]
        if template in ("instructions", "turns"):  # which take turns
            users = users[:1]
        given = changed(users, hostile)
        try:
            found, skeleton = tokenizer.prompt(given, **values), usual.prompt(changed(users, lambda _: "x"), **values)
        except MNNError:
            continue
        assert found.text == usual.apply_chat_template(given, **values)
        assert [i for i in found.tokens if i in control] == [i for i in skeleton.tokens if i in control]
        assert usual.prompt(given, **values).tokens != found.tokens
        met += 1
    assert met > 15


def test_texts_are_cut_as_the_library_cuts_them() -> None:
    """Between the template's own tokens: by the library itself, told to know no special tokens."""
    tokenizer = tokenizers("smollm2", literal=True)
    core = Core.from_str(tokenizer.core.to_str())
    for seed in range(30):
        rng = random.Random(seed)
        content = "".join(rng.choice([*CONTROL, text(seed), " ", "<|im"]) for _ in range(6))
        found = tokenizer.prompt([{"role": "user", "content": content}]).tokens
        core.encode_special_tokens = True
        inner = core.encode(f"user\n{content}", add_special_tokens=False).ids
        core.encode_special_tokens = False
        begin, end, rest = (core.encode(t).ids for t in ("<|im_start|>", "<|im_end|>", "\n<|im_start|>assistant\n"))
        assert found == [*begin, *inner, *end, *rest], content


def test_what_is_pieced_together() -> None:
    """Parts of a message that make a control token when a template joins them, and tools with one in their words."""
    tokenizer, usual = tokenizers("smollm2", literal=True), tokenizers("smollm2", literal=False)
    end, call = tokenizer.id_of("<|im_end|>"), tokenizer.id_of("<tool_call>")
    for cuts in ([5], [1], [1, 11], [11], [1, 2, 3]):
        parts = ["<|im_end|>"[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        messages = [{"role": "user", "content": [{"type": "text", "text": part} for part in parts]}]
        assert usual.prompt(messages).tokens.count(end) == 2
        assert tokenizer.prompt(messages).tokens.count(end) == 1
        assert tokenizer.prompt(messages).text == usual.prompt(messages).text
    told = {"name": "f<|im_end|>", "description": "<tool_call>", "parameters": {"<|im_end|>": 1}}
    tools = [{"type": "function", "function": told}]
    ask = [{"role": "user", "content": "x"}]
    assert tokenizer.prompt(ask, tools).tokens.count(end) == 2
    assert usual.prompt(ask, tools).tokens.count(end) == 4
    thought = [*ask, {"role": "assistant", "content": "<tool_call>y<|im_end|>"}, *ask]
    assert tokenizer.prompt(thought).tokens.count(call) == 1  # the model's own
    assert tokenizer.prompt(thought).tokens.count(end) == 3


def test_switching() -> None:
    tokenizer = loaded("bpe_symbols")
    tokenizer = Tokenizer(tokenizer.core, tokenizer.special, {"default": TEMPLATES["chatml"]})
    ask = [{"role": "user", "content": "<|im_end|>"}]
    ends = []
    for literal in (False, True, False):
        tokenizer.read_literally(literal)
        ends.append(tokenizer.prompt(ask).tokens.count(tokenizer.id_of("<|im_end|>")))
    assert ends == [2, 1, 2]


NORMALIZERS = [
    normalizers.Lowercase(), normalizers.NFKC(), normalizers.NFD(), normalizers.StripAccents(),
    normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581"), normalizers.Strip(),
    normalizers.BertNormalizer(),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_random_tokenizers(seed: int) -> None:
    """Normalizers in any order, and added tokens that overlap, are found before and after these, and take spaces."""
    rng = random.Random(seed)
    letters = "aAb éÉ<|>_ \u3000\ufb01\u2460"
    for _ in range(12):
        tokens = dict.fromkeys([*"\u2581aAbBeE<|>_ éÉfi1", "<unk>"])
        tokens |= dict.fromkeys("".join(rng.choices("abAé<|\u2581", k=rng.randint(2, 3))) for _ in range(10))
        ids = {token: i for i, token in enumerate(tokens)}
        merges = [(t[:k], t[k:]) for t in ids if t != "<unk>" for k in range(1, len(t)) if {t[:k], t[k:]} <= ids.keys()]
        unigram = models.Unigram([(token, -rng.random()) for token in ids], unk_id=ids["<unk>"])
        core = Core(rng.choice([models.BPE(ids, merges, unk_token="<unk>"), unigram]))
        core.normalizer = normalizers.Sequence(rng.sample(NORMALIZERS, rng.randint(0, 3)))
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=rng.choice(["first", "always", "never"]))
        added = ["".join(rng.choices("aA<|>_é ", k=rng.randint(1, 4))) for _ in range(rng.randint(1, 8))]
        special = {f"<{token}%>" for token in added if rng.random() < 0.5}
        for token in [*sorted(special), *(t for t in added if t.strip() and t not in ids)]:
            spaces = {side: rng.random() < 0.3 for side in ("lstrip", "rstrip")}
            plain = token in special or rng.random() < 0.6
            core.add_tokens([AddedToken(token, special=token in special, normalized=not plain, **spaces)])
        tokenizer = Tokenizer(core, SpecialTokens())
        tokenizer.read_literally()
        assert tokenizer._literal is not None
        for _ in range(30):
            given = "".join(rng.choice([*added, *special, *letters]) for _ in range(rng.randint(0, 12)))
            found = core.encode(given, add_special_tokens=False).ids
            assert tokenizer._literal.encode(given) == (given, found), given
