"""Chat templates in their sandbox: what known ones say, and what hostile ones cannot do."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from MNN.errors import MNNError
from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.llm.text.templates import ChatTemplate
from tests import zoo
from tests.llm.text.chats import CONVERSATIONS, SETTINGS, TEMPLATES, TEXTS

MESSAGES = [{"role": "user", "content": "Hi"}]


def render(source: str, **values: Any) -> str:
    return ChatTemplate(source).render(**{"messages": MESSAGES, **values})


HOSTILE = {
    "class": "{{ ''.__class__.__mro__ }}",
    "attribute of a method": "{{ messages.index.__self__ }}",
    "globals of a macro": "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
    "private attribute": "{{ messages._x.y }}",
    "attribute of a dictionary": "{{ messages[0].__class__.__mro__ }}",
    "attr filter": "{{ ''|attr('__class__') }}",
    "map attribute": "{{ [messages]|map(attribute='__class__')|list }}",
    "format attribute": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "globals of a function": "{{ raise_exception.__globals__ }}",
    "environment": "{{ self.__init__ }}{{ self._TemplateReference__context.environment }}",
    "append": "{{ messages.append(1) }}",
    "update": "{{ messages[0].update({'a': 1}) }}",
    "endless macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "exponential macro": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "nested loops": "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "recursive loop": "{% for a in [1, 1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "long range": "{% for i in range(10**12) %}{% endfor %}",
    "long text": "{{ 'a' * 10**11 }}",
    "doubled text": "{% set ns = namespace(x='aaaaaaaa') %}"
    "{% for i in range(90) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "doubled by joining": "{% set ns = namespace(x='aaaaaaaa') %}"
    "{% for i in range(90) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "doubled list": "{% set ns = namespace(x=[1, 2]) %}"
    "{% for i in range(90) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "list of twice the same list": "{% set ns = namespace(x=[1]) %}"
    "{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|string|length }}",
    "dictionary of twice the same": "{% set ns = namespace(x={}) %}"
    "{% for i in range(90) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x|tojson }}",
    "list of what a macro takes twice": "{% set ns = namespace(x=[1]) %}{% macro f() %}{% set ns.x = varargs %}"
    "{% endmacro %}{% for i in range(60) %}{{ f(ns.x, ns.x) }}{% endfor %}{{ ns.x }}",
    "names that a macro takes": "{% set ns = namespace(x=[1]) %}{% macro f() %}{% set ns.x = kwargs %}{% endmacro %}"
    "{% for i in range(60) %}{{ f(a=ns.x, b=ns.x) }}{% endfor %}{{ ns.x }}",
    "batch filled with itself": "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
    "{% for b in [ns.x] | batch(2, ns.x) %}{% set ns.x = b %}{% endfor %}{% endfor %}{{ ns.x }}",
    "block of twice itself": "{% set ns = namespace(x='aaaa') %}{% for i in range(99) %}"
    "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    "macro that writes on": "{% set x = 'a' * 30000000 %}{% macro m() %}{% for i in range(200000) %}{{ x }}{% endfor %}"
    "{% endmacro %}{{ m() | length }}",
    "words of a loop": "{% macro m() %}{% for i in range(99999) %}"
    + "y" * 99999
    + "{% endfor %}{% endmacro %}{{ m() }}",
    "format of many": "{{ ('{0}' * 1000000).format('a' * 1000000) }}",
    "percents of many": "{{ '%(a)s' * 1000000 % {'a': 'a' * 1000000} }}",
    "wide format of a dictionary": "{{ '{a:999999999}'.format_map({'a': 1}) }}",
    "join of letters": "{{ ('a' * 1000000).join('b' * 1000000) }}",
    "join one by one": "{{ range(9000) | map('string') | join('a' * 1000000) }}",
    "doubled list of lists": "{% set ns = namespace(x=[1]) %}"
    "{% for i in range(90) %}{% set ns.x = [ns.x] %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x == [ns.x] }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "product": "{% set ns = namespace(x=9**99) %}{% for i in range(90) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "wide format": "{{ '%1000000000d' % 1 }}",
    "wide format by a star": "{{ '%*d' % (1000000000, 1) }}",
    "wide format method": "{{ '{:>1000000000}'.format(1) }}",
    "wide format in two steps": "{{ '{:>{}}'.format(1, 1000000000) }}",
    "replace": "{{ ('a' * 100000).replace('a', 'b' * 100000) }}",
    "replace filter": "{{ ('a' * 100000)|replace('a', 'b' * 100000) }}",
    "join": "{{ ('b' * 100000).join(['a'] * 100000) }}",
    "join filter": "{{ (['a'] * 100000)|join('b' * 100000) }}",
    "center": "{{ 'a'.center(10**10) }}",
    "center filter": "{{ 'a'|center(10**10) }}",
    "batch": "{{ [1]|batch(10**10, 'x')|list }}",
    "slice": "{{ [1]|slice(10**10)|list }}",
    "truncate": "{{ 'a'|truncate(10**12) }}",
    "wide date": "{{ strftime_now('%1000000000Y') }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "deep expression": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "deep blocks": "{% if 1 %}" * 500 + "{% endif %}" * 500,
    "syntax": "{% for %}",
    "unknown filter": "{{ 1|pprint }}",
    "unknown function": "{{ lipsum() }}",
    "of nothing": "{{ nothing.at.all }}",
    "division by zero": "{{ 1 / 0 }}",
    "raise": "{{ raise_exception('no system messages') }}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates(name: str) -> None:
    """Each ends soon in one error of ours."""
    began = time.monotonic()
    with pytest.raises(MNNError, match="chat template"):
        render(HOSTILE[name])
    assert time.monotonic() - began < 15


def test_a_template_of_a_megabyte() -> None:
    with pytest.raises(MNNError, match="characters"):
        ChatTemplate("a" * (1 << 21))
    assert render("a" * 1000) == "a" * 1000


def test_values_are_copied_and_plain() -> None:
    class Other:
        secret = 1

    with pytest.raises(MNNError, match=r"tools\[0\] is a Other"):
        render("{{ tools[0].secret }}", tools=[Other()])
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(MNNError, match="nested"):
        render("", tools=deep)
    with pytest.raises(MNNError, match="is a bytes"):
        render("", tools=b"x")

    class Text(str):
        def __html__(self) -> str:
            raise AssertionError("called")

    assert render("{{ x }}", x=Text("<a>")) == "<a>"


def test_what_templates_use() -> None:
    """The dialect: whitespace, namespaces, loops with breaks, JSON with other letters, generation marks, methods."""
    assert render("{% for m in messages %}\n    {{ m.role }}\n{% endfor %}\n") == "    user\n"
    assert render("{% set ns = namespace(n=0) %}{% for i in range(9) %}{% if i == 4 %}{% break %}{% endif %}"
                  "{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}") == "6"  # fmt: skip
    assert render("{{ {'a': 'ü<&', 'b': [1, none]}|tojson }}") == '{"a": "ü<&", "b": [1, null]}'
    assert render("{{ {'a': 1}|tojson(indent=2) }}") == '{\n  "a": 1\n}'
    assert render("{% generation %}{{ messages[0].content }}{% endgeneration %}!") == "Hi!"
    assert render("{{ messages[0]['content'].strip().split('i')[0] + '|' + messages|length|string }}") == "H|1"
    assert render("{% for k, v in messages[0].items() %}{{ loop.index }}{{ k }}{{ loop.last }}{% endfor %}") == (
        "1roleFalse2contentTrue"
    )
    assert render("{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(',') }}") == "Hi"
    assert render("{{ strftime_now('%Y') }}") == time.strftime("%Y")
    assert render("{{ '' if tools is not defined or not tools else 'x' }}", tools=None) == ""
    assert render("{{ ('a' ~ 1 ~ 'b')|upper }}{{ 7 // 2 }}{{ 'x%d' % 3 }}{{ '%s' % 'y' }}") == "A1B3x3y"
    assert render("{{ messages[0].get('name', 'none') }}{{ 'Hi' in messages[0].content }}") == "noneTrue"
    assert render("{%- macro m(x) -%}[{{ x }}]{%- endmacro -%}{{ m(1) }}{{ m('a') }}") == "[1][a]"
    assert render("{{ messages[1:]|length }}{{ messages[::-1][0].role }}{{ [1, 2] + [3] }}") == "0user[1, 2, 3]"
    assert render("{{ 'a\nb'|indent(2) }}") == "a\n  b"


RECORDED = json.loads((Path(__file__).parent / "recorded_chats.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_templates_as_transformers_has_them(template: str, name: str) -> None:
    """The same text, or an error in both."""
    compiled = ChatTemplate(TEMPLATES[template])
    for i, settings in enumerate(SETTINGS):
        expected = RECORDED[f"{template}/{name}/{i}"]
        values = {"messages": CONVERSATIONS[name], "tools": None, **settings, **TEXTS}
        if expected is None:
            with pytest.raises(MNNError):
                compiled.render(**values)
        else:
            assert compiled.render(**values) == expected


def test_what_a_template_refuses_is_told() -> None:
    with pytest.raises(MNNError, match="refuses the messages: only users"):
        render("{% if messages[0].role != 'system' %}{{ raise_exception('only users') }}{% endif %}")


def test_namespaces_are_not_written_out() -> None:
    """Each of these holds the next one twice: written out, the last would be there 2^30 times."""
    made = "".join(f"{{% set n{i} = namespace() %}}" for i in range(31))
    linked = "".join(f"{{% set n{i}.a = n{i + 1} %}}{{% set n{i}.b = n{i + 1} %}}" for i in range(30))
    assert render(made + linked + "{{ n0 }}") == "<namespace>"


def test_many_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    template = ChatTemplate("{% for i in range(2000) %}{{ i }}{% endfor %}{{ x }}")
    body = "".join(map(str, range(2000)))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: template.render(x=i), range(40)))
    assert found == [body + str(i) for i in range(40)]


def test_few_templates_of_others_are_kept() -> None:
    """A server's clients may give one with each request."""
    tokenizer = load_tokenizer(zoo.path("smollm2_gguf"))
    question = [{"role": "user", "content": "a"}]
    for i in range(30):
        given = f"{i} {{{{ messages[0].content }}}}"
        assert tokenizer.apply_chat_template(question, chat_template=given) == f"{i} a"
    wanted = tokenizer.apply_chat_template(question)
    assert tokenizer.apply_chat_template(question) == wanted
    for i in range(4):  # nor a few that are long
        given = f"{i}{'{# #}' * 40_000}"
        assert tokenizer.apply_chat_template(question, chat_template=given) == str(i)
    assert len(tokenizer._compiled) < 20
    assert sum(map(len, tokenizer._compiled)) < 300_000
    assert tokenizer.chat_template in tokenizer._compiled


def test_few_of_many_named_templates_are_kept() -> None:
    """A model's files may have thousands of names."""
    whole = load_tokenizer(zoo.path("smollm2_gguf"))
    named = {f"n{i}": f"{i}" for i in range(60)} | {"default": "usual", "tool_use": "tools"}
    tokenizer = Tokenizer(whole.core, whole.special, named)
    question = [{"role": "user", "content": "a"}]
    for i in range(60):
        assert tokenizer.apply_chat_template(question, chat_template=f"n{i}") == f"{i}"
    assert tokenizer.apply_chat_template(question) == "usual"
    assert tokenizer.apply_chat_template(question, [{"type": "function"}]) == "tools"
    assert len(tokenizer._compiled) < 20
    assert {"usual", "tools"} <= set(tokenizer._compiled)
