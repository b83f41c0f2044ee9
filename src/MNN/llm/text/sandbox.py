"""Jinja for chat templates: the dialect of transformers, without what could harm or never end.

Templates reach a fixed list of methods and filters and no attributes besides. Turns of loops, calls and joined texts
are counted, so that each template ends.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from MNN.errors import MISFITS, MNNError

STEPS = 1_000_000
"""Turns of loops, calls, filters and joined texts of one rendering, all together."""
SECONDS = 5.0
CHARACTERS = 32 << 20
"""Length of any text on the way."""
WRITTEN = 8 * CHARACTERS
"""Characters written by one rendering, those that macros and blocks keep for later among them."""
ITEMS = 1 << 20
"""Length of any list on the way, with all that is inside of its items, as often as it is there."""
DIGITS = 4096
"""Bits of a product or power."""

_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "split rsplit splitlines partition rpartition strip lstrip rstrip startswith endswith lower upper title"
        " capitalize swapcase casefold replace join find rfind index rindex count removeprefix removesuffix isdigit"
        " isalpha isalnum isspace isupper islower isnumeric isdecimal istitle isidentifier format".split()
    ),
    dict: frozenset("items keys values get".split()),
    list: frozenset("index count".split()),
    tuple: frozenset("index count".split()),
    LoopContext: frozenset(
        "index index0 revindex revindex0 first last length depth depth0 previtem nextitem cycle changed".split()
    ),
    Macro: frozenset("name arguments catch_kwargs catch_varargs caller".split()),
}
"""All that templates may reach of values. Items of dictionaries and lists are no attributes, and are always reached."""

_FILTERS = (
    "abs batch capitalize count d default dictsort e escape first float forceescape groupby int items join last"
    " length list lower map max min reject rejectattr replace reverse round safe select selectattr slice sort string"
    " sum title trim truncate unique upper wordcount"
).split()
_WIDE = re.compile(r"%[^a-zA-Z%]*(\d{4}|\*)|\{[^{}]*(\d{4}|\{)")
"""Formats that ask for more than 999 characters, or for a number of them that is not written there."""


class _Budget:
    """What one rendering may still do."""

    def __init__(self) -> None:
        self.steps = STEPS
        self.written = 0
        self.deadline = time.monotonic() + SECONDS

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise SecurityError(f"it takes more than {STEPS} steps")
        if self.steps % 64 == 0 and time.monotonic() > self.deadline:
            raise SecurityError(f"it takes more than {SECONDS:.0f} seconds")

    def write(self, characters: int) -> None:
        self.written += characters
        if self.written > WRITTEN:
            raise SecurityError(f"it writes more than {WRITTEN} characters")


_budget: ContextVar[_Budget] = ContextVar("budget")


class _Namespace(Namespace):
    """One that can hold itself, or another one many times: it is not written out."""

    def __repr__(self) -> str:
        return "<namespace>"


def _sized(value: Any) -> Any:
    """The value itself, of which everything inside is counted: a list of twice the same list, of twice the same list
    and so on takes next to nothing, and its text would never end."""
    if isinstance(value, str | list | tuple):
        _check_length(value, len(value))
    if isinstance(value, list | tuple | dict):
        _check_length(value, _expanded(value, {}))
    return value


def _expanded(value: Any, known: dict[int, int]) -> int:
    """How many items a list or dictionary has if those that are there several times are counted as often; long texts
    count as several. ``known``: numbers of values by their identity."""
    if id(value) not in known:
        total = 1
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, list | tuple | dict):
                total += _expanded(item, known)
            else:
                total += 1 + (len(item) // 32 if isinstance(item, str) else 0)
        known[id(value)] = total
    return known[id(value)]


def _check_length(kind: Any, length: int) -> None:
    """Refuses a text or list that is too long; ``kind`` is a value of its kind."""
    if length > (CHARACTERS if isinstance(kind, str) else ITEMS):
        raise SecurityError(f"it makes a text or list of length {length}")


def _flowing(items: Iterable[Any]) -> Iterator[Any]:
    """What a filter gives one by one, counted together: who takes them may keep them."""
    total = 0
    for item in items:
        total += _expanded([_sized(item)], {})
        _check_length(items, total)
        yield item


def _bounded(items: Iterable[Any], characters: int) -> Iterator[Any]:
    """The items of a loop, counted; ``characters``: that stand inside of it."""
    budget = _budget.get()
    for item in items:
        budget.step()
        budget.write(characters)
        yield item


def _written(value: Any) -> str:
    """What ``{{ }}`` writes."""
    _budget.get().write(len(text := str(value)))
    return text


def _joined(*parts: Any) -> str:
    """The ``~`` operator."""
    _budget.get().step()
    texts = [str(part) for part in parts]
    if sum(map(len, texts)) > CHARACTERS:
        raise SecurityError(f"it makes a text of more than {CHARACTERS} characters")
    return "".join(texts)


def _check_call(function: Any, arguments: tuple[Any, ...]) -> None:
    """Refuses calls of methods whose result would be too large, before it is made."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if not isinstance(owner, str):
        return
    if name == "replace" and len(arguments) >= 2:
        _check_replace(owner, *arguments[:2])
    if name == "join" and arguments and isinstance(arguments[0], Collection):
        _check_join(owner, arguments[0])


def _check_replace(text: str, old: Any, new: Any) -> None:
    if isinstance(old, str) and isinstance(new, str) and (text.count(old) + 1) * len(new) + len(text) > CHARACTERS:
        raise SecurityError(f"it makes a text of more than {CHARACTERS} characters")


def _check_format(text: str, sign: str, values: Iterable[Any]) -> None:
    """Refuses ``text`` if all its signs stood for the longest of the values, and this were too long."""
    longest = max((len(str(value)) for value in values), default=0)
    if len(text) + text.count(sign) * max(longest, 999) > CHARACTERS:
        raise SecurityError(f"it may make a text of more than {CHARACTERS} characters")


def _check_join(separator: str, items: Collection[Any]) -> None:
    most = CHARACTERS - len(separator) * len(items)
    if most < 0 or sum(len(item) if isinstance(item, str) else 16 for item in items) > most:
        raise SecurityError(f"it makes a text of more than {CHARACTERS} characters")


class _Generation(Extension):
    """``{% generation %}``, which marks the model's own words for training: the words themselves."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("*", "**", "+", "%"))

    def __init__(self) -> None:
        tags = [_Generation, loopcontrols]
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=tags, finalize=_written, cache_size=0)
        known = {name: self.filters[name] for name in _FILTERS if name in self.filters}
        self.filters = {name: _counted(name, function) for name, function in known.items()}
        self.filters["tojson"] = _counted("tojson", _to_json)
        self.filters["indent"] = _counted("indent", _indented)
        self.globals = {name: self.globals[name] for name in ("dict", "range", "cycler", "joiner")}
        self.globals |= {"raise_exception": _refuse, "strftime_now": _now, "namespace": _Namespace}
        self.globals |= {"_bounded": _bounded, "_joined": _joined, "_sized": _sized}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """The tree, with loops counted, and lists and joined texts measured."""
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                raise SecurityError("it has a recursive loop")
            characters = sum(len(text.data) for text in loop.find_all(nodes.TemplateData))
            loop.iter = _calling("_bounded", [loop.iter, nodes.Const(characters)])
        _rewrite(tree)
        for kind in (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends):
            if tree.find(kind) is not None:
                raise SecurityError("it asks for other templates")
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """``message.role``: of dictionaries their items, but for the few methods that templates use."""
        if isinstance(obj, dict) and attribute not in _METHODS[dict]:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
        raise SecurityError(f"it reaches for the attribute {attribute!r} of a {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> Any:
        owner, made = getattr(value, "__self__", None), super().wrap_str_format(value)
        if made is None or not isinstance(owner, str):
            return made
        if _WIDE.search(owner):
            raise SecurityError("it formats to a width of more than 999")

        def checked(*args: Any, **kwargs: Any) -> str:
            _check_format(owner, "{", [*args, *kwargs.values()])
            return str(made(*args, **kwargs))

        return checked

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, Namespace):
            return not attr.startswith("_")
        return any(attr in names for kind, names in _METHODS.items() if isinstance(obj, kind))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as jinja2 has it
        _budget.get().step()
        _check_call(__obj, args)
        return _sized(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        _budget.get().step()
        sequences = [x for x in (left, right) if isinstance(x, str | list | tuple)]
        if operator == "+" and sequences:
            _check_length(sequences[0], sum(map(len, sequences)))
        if operator in ("*", "**"):
            _check_product(operator, left, right, sequences)
        if operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise SecurityError("it formats to a width of more than 999")
        if operator == "%" and isinstance(left, str):
            _check_format(left, "%", right if isinstance(right, tuple) else [right])
        return _sized(super().call_binop(context, operator, left, right))


def _check_product(operator: str, left: Any, right: Any, sequences: list[Any]) -> None:
    bits = [int(x).bit_length() if isinstance(x, int) else 64 for x in (left, right)]
    if sequences:
        times = next((x for x in (left, right) if isinstance(x, int)), 1)
        _check_length(sequences[0], len(sequences[0]) * max(times, 0))
        return
    if operator == "*":
        large = sum(bits) > DIGITS
    else:
        large = isinstance(left, int) and isinstance(right, int) and (bits[1] > 16 or bits[0] * right > DIGITS)
    if large:
        raise SecurityError("it makes a product or power that is too large")


def _calling(name: str, arguments: list[Any]) -> nodes.Call:
    function = nodes.Name(name, "load")
    return nodes.Call(function, arguments, [], None, None, lineno=arguments[0].lineno)


def _rewrite(node: nodes.Node) -> None:
    """Has calls look at the lengths of ``a ~ b``, and of lists that are not of constants, everywhere below."""
    for field, value in list(node.iter_fields()):
        if isinstance(value, nodes.Node):
            _rewrite(value)
            setattr(node, field, _measured(value))
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, nodes.Node):
                    _rewrite(item)
                    value[i] = _measured(item)


def _measured(node: nodes.Node) -> nodes.Node:
    if isinstance(node, nodes.Concat):
        return _calling("_joined", node.nodes)
    if isinstance(node, nodes.Name) and node.ctx == "load" and node.name in ("varargs", "kwargs"):
        return _calling("_sized", [node])  # all that a macro is called with
    made = isinstance(node, nodes.List | nodes.Dict) or (isinstance(node, nodes.Tuple) and node.ctx == "load")
    return _calling("_sized", [node]) if made and node.find(nodes.Name) is not None else node


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that counts as a step; its marks (``pass_environment``) are kept."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        budget = _budget.get(None)
        if budget is not None:
            budget.step()
        if any(isinstance(x, int) and abs(x) > ITEMS for x in (*args[1:], *kwargs.values())):
            raise SecurityError(f"it calls the filter {name} with a number that is too large")
        values: list[Any] = [x for x in args if isinstance(x, str | list | tuple)]
        if name == "replace" and len(values) >= 3:
            _check_replace(*values[:3])
        if name == "join":
            items = args[1] if isinstance(args[1], Collection) else list(args[1])
            args = (args[0], items, *args[2:])
            _check_join(str(args[2] if len(args) > 2 else kwargs.get("d", "")), items)
        made = function(*args, **kwargs)
        return _flowing(made) if isinstance(made, Iterator) else _sized(made)

    for mark in ("jinja_pass_arg", "jinja_async_variant"):
        if hasattr(function, mark):
            setattr(counted, mark, getattr(function, mark))
    return counted


def _indented(text: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    pad = width if isinstance(width, str) else " " * min(int(width), 999)
    lines = str(text).splitlines()
    if (len(pad) + 1) * len(lines) > CHARACTERS:
        raise SecurityError(f"it makes a text of more than {CHARACTERS} characters")
    kept = [pad + line if (line or blank) and (i or first) else line for i, line in enumerate(lines)]
    return "\n".join(kept) + ("\n" if str(text).endswith("\n") else "")


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers' templates expect it: not escaped for HTML, with other letters than ASCII's."""
    if indent is not None and not (isinstance(indent, int) and 0 <= indent <= 64):
        raise SecurityError(f"it indents JSON by {indent!r}")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: Any = "") -> str:
    raise jinja2.TemplateError(str(message)[:1000])


def _now(format: Any) -> str:
    text = str(format)
    if len(text) > 100 or re.search(r"%[^a-zA-Z%]*\d", text):
        raise SecurityError(f"it asks for a date as {text[:40]!r}")
    return datetime.datetime.now().strftime(text)


def compiled(source: str) -> jinja2.Template:
    """The template, compiled. MNNError where it is none."""
    token = _budget.set(_Budget())
    try:
        return _Environment().from_string(source)
    except (jinja2.TemplateError, SyntaxError, RecursionError, *MISFITS) as error:
        raise MNNError(f"the chat template cannot be read: {error or type(error).__name__}") from error
    finally:
        _budget.reset(token)


def rendered(template: jinja2.Template, values: dict[str, Any]) -> str:
    """The text for these values. MNNError where the template refuses them, fails, or does too much."""
    token = _budget.set(_Budget())
    try:
        parts, length = [], 0
        for part in template.generate(values):
            length += len(part)
            if length > CHARACTERS:
                raise SecurityError(f"it makes a text of more than {CHARACTERS} characters")
            parts.append(part)
        return "".join(parts)
    except SecurityError as error:
        raise MNNError(f"the chat template is stopped: {error}") from error
    except jinja2.TemplateError as error:
        raise MNNError(f"the chat template refuses the messages: {error}") from error
    except (RecursionError, *MISFITS) as error:
        raise MNNError(f"the chat template fails: {type(error).__name__}: {error}") from error
    finally:
        _budget.reset(token)
