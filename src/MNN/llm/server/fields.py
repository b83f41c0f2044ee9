"""The fields of a request, each with its type and limits looked at."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from MNN.llm.server.errors import RequestError, wrong


def parsed(body: bytes) -> dict[str, Any]:
    """The object that a request is. RequestError for what is none."""
    try:
        found = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RequestError(400, f"the request is a JSON {type(found).__name__}; an object is expected")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def number(body: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    """A number within limits, or None where the field is absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or value in (math.inf, -math.inf):
        raise wrong(name, f"a number is expected, not {_shown(value)}")
    if not low <= value <= high:
        raise wrong(name, f"{_shown(value)} is {f'less than {low}' if value < low else f'more than {high}'}")
    return float(value)


def whole(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """A whole number within limits, or None."""
    if number(body, name, low, high) is None:
        return None
    value = body[name]  # a float has no room for all of them
    if value != int(value):
        raise wrong(name, f"a whole number is expected, not {value}")
    return int(value)


def flag(body: Mapping[str, Any], name: str) -> bool:
    """True or false; false where the field is absent or null."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong(name, f"true or false is expected, not {_shown(value)}")
    return bool(value)


def texts(body: Mapping[str, Any], name: str, most: int) -> list[str]:
    """A text or a list of texts."""
    value = body.get(name)
    found = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(found, list) or len(found) > most or not all(isinstance(text, str) and text for text in found):
        raise wrong(name, f"a text or a list of at most {most} texts is expected")
    return found


def mapping(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object; empty where the field is absent or null."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong(name, f"an object is expected, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
