"""A graph as SVG: operators in layers from top to bottom, each below everything it depends on.

The layout is that of Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures"
(1981), without dummy nodes: layers by longest path, order within a layer by the mean place of the neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from MNN.conversion_report import Outline, Step
from MNN.formatting import plural
from MNN.ops.core.base import operators

WIDTH, HEIGHT, GAP_X, GAP_Y = 150, 26, 14, 24
MOST_STEPS = 3000
"""Graphs of more operators are cut there: no browser shows them well."""
_SWEEPS = 4
_HUES = {"linear": 210, "sequences": 210, "quantized": 210, "images": 160, "reducing": 130, "elementwise": 35}
"""Colours by the family of an operator; those that only arrange elements are grey."""
_STRANGE = 350
"""Of an operator that is not the engine's own."""


def draw(part: Outline, changed: frozenset[str] = frozenset()) -> str:
    """The SVG of an outline; operators with an output named in ``changed`` are marked."""
    steps = part.steps[:MOST_STEPS]
    layers = _ordered(steps, _layers(steps))
    places = {}
    widest = max((len(layer) for layer in layers), default=1)
    for row, layer in enumerate(layers):
        shift = (widest - len(layer)) * (WIDTH + GAP_X) / 2
        for column, index in enumerate(layer):
            places[index] = (shift + column * (WIDTH + GAP_X) + GAP_X, row * (HEIGHT + GAP_Y) + GAP_Y)
    width, height = widest * (WIDTH + GAP_X) + GAP_X, len(layers) * (HEIGHT + GAP_Y) + GAP_Y
    makers = {name: i for i, step in enumerate(steps) for name in step.outputs}
    lines = [_edge(places[makers[n]], places[i]) for i, s in enumerate(steps) for n in s.inputs if n in makers]
    boxes = [_box(places[i], step, any(n in changed for n in step.outputs)) for i, step in enumerate(steps)]
    cut = len(part.steps) - len(steps)
    more = f"and {plural(cut, 'more operator')}" if cut else ""
    note = f'<text x="{GAP_X}" y="{height - 6}">{more}</text>' if cut else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="system-ui, sans-serif" font-size="11">'
        f"{''.join(lines)}{''.join(boxes)}{note}</svg>"
    )


def _layers(steps: Sequence[Step]) -> list[list[int]]:
    """Operators by the longest way from an input."""
    made: dict[str, int] = {}
    layers: list[list[int]] = []
    for index, step in enumerate(steps):  # in an order in which they can run
        depth = 1 + max((made[n] for n in step.inputs if n in made), default=-1)
        made.update(dict.fromkeys(step.outputs, depth))
        while len(layers) <= depth:
            layers.append([])
        layers[depth].append(index)
    return layers


def _ordered(steps: Sequence[Step], layers: list[list[int]]) -> list[list[int]]:
    """Each layer sorted by the mean place of what its operators take (downwards) or feed (upwards)."""
    makers = {name: i for i, step in enumerate(steps) for name in step.outputs}
    above: dict[int, list[int]] = {i: [makers[n] for n in s.inputs if n in makers] for i, s in enumerate(steps)}
    below: dict[int, list[int]] = {i: [] for i in above}
    for index, sources in above.items():
        for source in sources:
            below[source].append(index)
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        place = {i: k - len(layer) / 2 for layer in layers for k, i in enumerate(layer)}
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            mean = {i: sum(place[n] for n in near[i]) / len(near[i]) if near[i] else place[i] for i in layer}
            layer.sort(key=mean.__getitem__)
            place.update({i: k - len(layer) / 2 for k, i in enumerate(layer)})
    return layers


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    x0, y0, x1, y1 = start[0] + WIDTH / 2, start[1] + HEIGHT, end[0] + WIDTH / 2, end[1]
    bend = (y1 - y0) / 2
    return (
        f'<path d="M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}" '
        'fill="none" stroke="#888" stroke-opacity=".55"/>'
    )


def _box(place: tuple[float, float], step: Step, marked: bool) -> str:
    known = operators().get(step.op)
    hue = _HUES.get(known.family) if known is not None and known.family else _STRANGE
    fill = "#e4e4e8" if hue is None else f"hsl({hue} 70% 86%)"
    edge = ' stroke="#c2185b" stroke-width="2"' if marked else ' stroke="#0002"'
    x, y = place
    label = step.op if len(step.op) <= 22 else step.op[:21] + "…"
    return (
        f"<g><title>{escape(step.op)} {escape(step.name)}&#10;{escape(', '.join(step.inputs))} → "
        f'{escape(", ".join(step.outputs))}</title><rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" '
        f'rx="5" fill="{fill}"{edge}/><text x="{x + WIDTH / 2:.0f}" y="{y + 17:.0f}" text-anchor="middle" '
        f'fill="#222">{escape(label)}</text></g>'
    )
