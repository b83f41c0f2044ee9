"""The code of a TorchScript archive: Python's syntax, parsed, never run as Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from MNN.errors import FormatError
from MNN.frontends.torch.archive import Archive
from MNN.frontends.torch.parsing import parse_module
from MNN.frontends.torch.unpickle import EnumMember

MAX_DEPTH = 200
"""How deeply expressions and blocks may be nested."""
ROOT = "__torch__"


@dataclass
class ScriptClass:
    """A class of the code: its methods, constants, and the order of its fields (of named tuples and objects); of an
    enumeration, ``members`` are the values by name."""

    name: str
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    fields: list[str] = field(default_factory=list)
    is_tuple: bool = False
    members: dict[str, str | int | float] = field(default_factory=dict)


class Code:
    """All functions and classes by their full names, ``__torch__.module.Name``. Files are parsed when first needed."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._files = {
            n[len("code/") : -len(".py")].replace("/", "."): n
            for n in archive.names
            if n.startswith("code/") and n.endswith(".py")
        }
        self._parsed: dict[str, Mapping[str, ScriptClass | ast.FunctionDef]] = {}

    def find(self, name: str) -> ScriptClass | ast.FunctionDef | None:
        """A class or function by its full name; None for names that the code does not define."""
        module, _, last = name.rpartition(".")
        return self._of(module).get(last) if module in self._files else None

    def functions(self) -> Iterator[tuple[str, ast.FunctionDef]]:
        """All functions and methods of the archive, with names to tell them by."""
        for module in self._files:
            for name, found in self._of(module).items():
                if isinstance(found, ast.FunctionDef):
                    yield f"{module}.{name}", found
                else:
                    yield from ((f"{module}.{name}.{method}", tree) for method, tree in found.methods.items())

    def _of(self, module: str) -> Mapping[str, ScriptClass | ast.FunctionDef]:
        if module not in self._parsed:
            self._parsed[module] = self._parse(module)
        return self._parsed[module]

    def member(self, name: str) -> EnumMember | None:
        """A member of an enumeration by its full name; None for other names."""
        kind, _, last = name.rpartition(".")
        owner = self.find(kind)
        found = owner.members.get(last) if isinstance(owner, ScriptClass) else None
        return None if found is None else EnumMember(kind, found)

    def name_of(self, member: EnumMember) -> str:
        """The name that a member of an enumeration has in its class. Raises :class:`FormatError` for none."""
        owner = self.find(member.kind)
        for name, value in owner.members.items() if isinstance(owner, ScriptClass) else ():
            if value == member.value:
                return name
        raise FormatError(f"the enumeration '{member.kind}' has no value {member.value!r}; is the file damaged?")

    def _parse(self, module: str) -> dict[str, ScriptClass | ast.FunctionDef]:
        part = self._files[module]
        where = f"{self._archive.name}, '{part}'"
        data = self._archive.read(part, 32 << 20)
        try:
            tree = parse_module(data.decode("utf-8"))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise FormatError(
                f"{where} is damaged ({type(error).__name__}: {error}); export the model again"
            ) from error
        _check_depth(tree, where)
        found: dict[str, ScriptClass | ast.FunctionDef] = {}
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                found[statement.name] = statement
            elif isinstance(statement, ast.ClassDef):
                found[statement.name] = _class(statement, f"{module}.{statement.name}")
        return found


def _class(tree: ast.ClassDef, name: str) -> ScriptClass:
    bases = {b.id for b in tree.bases if isinstance(b, ast.Name)}
    made = ScriptClass(name, is_tuple="NamedTuple" in bases)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            made.methods[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            made.fields.append(statement.target.id)
            if statement.value is not None:
                made.constants[statement.target.id] = statement.value
        elif isinstance(statement, ast.Assign) and "Enum" in bases:
            target, value = statement.targets[0], _literal(statement.value)
            if isinstance(target, ast.Name) and value is not None:
                made.members[target.id] = value
    return made


def _literal(node: ast.expr) -> str | int | float | None:
    """The number or text that an expression writes out, None for other expressions."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = _literal(node.operand)
        return -found if isinstance(found, (int, float)) else None
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, (str, int, float)) else None


def _check_depth(tree: ast.AST, where: str) -> None:
    """Refuses what could not be walked recursively."""
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise FormatError(f"{where}: its code is nested more than {MAX_DEPTH} deep")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def dotted(node: ast.expr) -> str:
    """``a.b.c`` as a text; empty for other expressions."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def complex_number(node: ast.BinOp) -> complex | None:
    """What ``1.5+2.j`` is; None for other sums."""
    try:
        found = ast.literal_eval(node)
    except ValueError:
        return None
    return found if isinstance(found, complex) else None
