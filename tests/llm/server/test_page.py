"""The page of the server in a browser: what a person types, sees, stops and begins anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from MNN.errors import MNNError
from tests.llm.server.browser import Page, opened
from tests.llm.server.running import NAME, Scripted, served
from tests.llm.server.test_clients import settle
from tests.llm.server.test_server import tokenizer

pytestmark = pytest.mark.real
KEY = "a key"
MARKDOWN = """# A *title*

Some **bold _and_ text** with `a < b` and snake_case_names,
on two lines; 2 * 3 * 4.

1. first
2. second
   - inner `code`

```python
if a < b:
    print("<b>no **markup**</b>")
```

> quoted

| a | b |
|---|---|
| 1 | **2** |

---
<img src=x onerror="document.title = 'broken'"> and [a page](https://example.org/a) and [no](javascript:alert(1))"""
STRUCTURE = "H1 P OL PRE BLOCKQUOTE TABLE HR P"


def script(prompt: str, options: dict[str, Any]) -> str:
    question = prompt.rpartition("<|im_start|>user\n")[2].partition("<|im_end|>")[0]
    if "refuse" in question:
        raise MNNError("the model cannot")
    if "long" in question:
        return " ".join(map(str, range(3000)))
    if "markdown" in question:
        return MARKDOWN
    questions, answers = (prompt.count(f"<|im_start|>{role}\n") for role in ("user", "assistant"))
    return f"You said: {question}. There were {questions} questions and {answers - 1} answers."


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Any]]:
    with (
        served(Scripted(tokenizer(), script, pause=0.002, pages=4000, max_length=8000), key=KEY) as (url, server),
        opened(tmp_path_factory.mktemp("profile")) as page,
    ):
        page.open(url + "/")
        yield page, server


def last(selector: str = ".assistant") -> str:
    """An expression for what the last of such elements shows."""
    return f"([...document.querySelectorAll({json.dumps(selector)})].at(-1)?.innerText ?? '')"


DONE = "document.querySelector('#send').textContent === 'Send'"
WRITES = "document.querySelector('#send').textContent === 'Stop'"


def test_a_person_chats(chat: tuple[Page, Any]) -> None:
    """One visit, from a missing key to a new chat."""
    page, server = chat
    # without the key: an error that says what is missing, and what was typed is still there
    page.type("Hello")
    page.wait(f"{last('.error')}.includes('a valid API key is expected')")
    assert page.value("document.querySelector('#text').value") == "Hello"
    page.click("summary")
    page.click("#key")
    page.type(KEY, enter=False)
    page.click("summary")
    # a question, its answer, and a next question in the same conversation
    page.click("#text")
    page.type("")
    page.wait(f"{last()}.includes('You said: Hello. There were 1 questions and 0 answers.')")
    page.wait(f"{last('.speed')}.includes('tokens')")
    assert page.value("document.querySelector('#name').textContent") == NAME
    page.wait(DONE)
    page.type("And now?")
    page.wait(f"{last()}.includes('You said: And now?. There were 2 questions and 1 answers.')")
    page.wait(DONE)
    # markdown becomes elements, and nothing of it becomes a program
    page.type("markdown, please")
    page.wait(f"document.querySelectorAll('.assistant').length === 3 && {DONE}")
    text = "[...document.querySelectorAll('.text')].at(-1)"
    assert page.value(f"[...{text}.children].map((node) => node.tagName).join(' ')") == STRUCTURE
    assert page.value(f"{text}.querySelector('pre').textContent") == 'if a < b:\n    print("<b>no **markup**</b>")'
    assert page.value(f"{text}.querySelector('ol > li:nth-child(2) > ul > li > code').textContent") == "code"
    assert page.value(f"{text}.querySelector('h1 em').textContent") == "title"
    assert page.value(f"{text}.querySelector('p strong em').textContent") == "and"
    assert "snake_case_names,\non two lines; 2 * 3 * 4." in page.value(f"{text}.querySelector('p').innerText")
    assert (
        page.value(f"[...{text}.querySelectorAll('td')].map((node) => node.innerHTML).join()") == "1,<strong>2</strong>"
    )
    assert page.value(f"[...{text}.querySelectorAll('a')].map((node) => node.href).join()") == "https://example.org/a"
    assert page.value(f"{text}.querySelectorAll('img').length") == 0
    assert "onerror" in page.value(f"{text}.innerText")
    # stopped in mid-stream: the text that came stays, and the server works on nothing
    cancelled = server.metrics.value("mnn_cancelled_total")
    page.type("something long")
    page.wait(f"{WRITES} && {last()}.includes(' 20 ')")
    page.click("#send")
    page.wait(DONE)
    assert settle(lambda: server.metrics.value("mnn_cancelled_total") == cancelled + 1)
    came = page.value(last())
    assert " 20 " in came
    assert "2999" not in came
    page.type("And now?")
    page.wait(f"{last()}.includes('There were 5 questions and 4 answers.')")
    # a new chat, begun while an answer is written: nothing of it is in the next
    page.wait(DONE)
    page.type("something long")
    page.wait(f"{WRITES} && {last()}.includes(' 20 ')")
    page.click("#clear")
    page.wait(f"{DONE} && !document.querySelector('.message')")
    page.type("Good day")
    page.wait(f"{last()}.includes('You said: Good day. There were 1 questions and 0 answers.')")
    page.wait(DONE)
    assert page.value("document.querySelectorAll('.message').length") == 2
    assert settle(lambda: server.metrics.value("mnn_running") == 0)
    # the model's own errors are shown, and the chat goes on without what was not answered
    page.type("please refuse")
    page.wait(f"{last('.error')}.includes('the model cannot')")
    page.wait(DONE)
    page.type("Still there?")
    page.wait(f"{last()}.includes('There were 2 questions and 1 answers.')")
    assert page.value("document.title") == "MNN chat"
    assert {problem for problem in page.problems if "401" not in problem and "400" not in problem} == set()


PARTS = [
    "\n",
    "\n",
    "\n\n",
    "# ",
    "> ",
    "- ",
    "  - ",
    "1. ",
    "   ",
    "```",
    "`",
    "**",
    "*",
    "_",
    "|",
    "|---|",
    "---",
    "[",
    "](",
    " ",
    " ",
]


def test_markdown_of_any_text(chat: tuple[Page, Any]) -> None:
    """Whatever comes, and wherever it is cut off: it ends, and no word is lost or moved."""
    page, _ = chat
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(600):
        parts = rng.choice(PARTS, int(rng.integers(1, 40)))
        texts.append("".join(f"{part}w{n}w" if rng.random() < 0.6 else part for n, part in enumerate(parts)))
    shown = page.value(f"{json.dumps(texts)}.map((text) => element('div', ...markdown(text)).textContent)")
    for text, found in zip(texts, shown, strict=True):
        fences = [line for line in text.split("\n") if "```" in line]
        said = re.findall(r"w\d+w", "\n".join(fences))  # what stands behind a fence names its language
        assert [word for word in re.findall(r"w\d+w", text) if word not in said] == [
            word for word in re.findall(r"w\d+w", found) if word not in said
        ], text
