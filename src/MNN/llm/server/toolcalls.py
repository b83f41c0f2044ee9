"""Answers that have to be calls of functions: ``tool_choice`` as a JSON schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from MNN.llm.server.errors import wrong


def forced(tools: Sequence[Mapping[str, Any]], choice: Any) -> dict[str, Any] | None:
    """The schema of a call of one of the ``tools``, or of the one that ``choice`` names; None where the model is free.
    RequestError for a choice that cannot be used."""
    if choice in (None, "auto", "none"):
        return None
    if not tools:
        raise wrong("tool_choice", "there are no tools to choose from")
    if choice == "required":
        return _schema([tool["function"] for tool in tools])
    named = choice.get("function") if isinstance(choice, Mapping) and choice.get("type") == "function" else None
    name = named.get("name") if isinstance(named, Mapping) else None
    if name is None:
        raise wrong("tool_choice", "auto, none, required or a function with a name is expected")
    found = [tool["function"] for tool in tools if tool["function"]["name"] == name]
    if not found:
        raise wrong("tool_choice", f"{str(name)[:100]!r} is none of the tools")
    return _schema(found)


def _schema(functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    try:
        return _any_of(functions)
    except RecursionError as error:
        raise wrong("tools", "parameters lie within each other too deeply") from error


def _any_of(functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What models write to call one of them. References within their parameters are told from the new root on."""
    calls = []
    for i, function in enumerate(functions):
        given = function.get("parameters") or {"type": "object"}
        arguments = _moved(given, f"#/anyOf/{i}/properties/arguments")
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": function["name"]}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": calls}


def _moved(schema: Any, root: str) -> Any:
    if isinstance(schema, Mapping):
        found = {key: _moved(value, root) for key, value in schema.items()}
        target = schema.get("$ref")
        if isinstance(target, str) and (target == "#" or target.startswith("#/")):
            found["$ref"] = root + target[1:]
        return found
    return [_moved(one, root) for one in schema] if isinstance(schema, list) else schema


__all__ = ["forced"]
