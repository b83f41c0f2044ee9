"""What transformers makes of conversations: recorded for the tests, or compared for templates in a folder.

    python -m tests.llm.text.record_chats                    # writes tests/llm/text/recorded_chats.json anew
    python -m tests.llm.text.record_chats --compare FOLDER   # templates in FOLDER/*.jinja, against this engine

Needs transformers beside what this package needs (5.24 recorded what is there now).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

from MNN.errors import MNNError
from MNN.llm.text.templates import ChatTemplate
from tests.llm.text.chats import CONVERSATIONS, SETTINGS, TEMPLATES, TEXTS

HERE = Path(__file__).parent


def theirs(source: str, messages: list[dict[str, Any]], settings: dict[str, Any]) -> str | None:
    """The text, or None where the template fails."""
    try:
        found, _ = render_jinja_template([messages], chat_template=source, **{"tools": None, **settings, **TEXTS})
        return str(found[0])
    except (jinja2.TemplateError, TypeError):
        return None


def ours(source: str, messages: list[dict[str, Any]], settings: dict[str, Any]) -> str | None:
    try:
        return ChatTemplate(source).render(messages=messages, **{"tools": None, **settings, **TEXTS})
    except MNNError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args()
    if options.compare:
        for file in sorted(options.compare.glob("*.jinja")):
            source, counts = file.read_text(encoding="utf-8"), [0, 0, 0]
            for messages in CONVERSATIONS.values():
                for settings in SETTINGS:
                    expected, found = theirs(source, messages, settings), ours(source, messages, settings)
                    counts[0 if expected != found else 2 if expected is None else 1] += 1
            print(f"{file.name}: {counts[0]} differ, {counts[1]} agree, {counts[2]} refused by both")
        return
    recorded = {
        f"{template}/{name}/{i}": theirs(source, messages, settings)
        for template, source in TEMPLATES.items()
        for name, messages in CONVERSATIONS.items()
        for i, settings in enumerate(SETTINGS)
    }
    (HERE / "recorded_chats.json").write_text(json.dumps(recorded, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
