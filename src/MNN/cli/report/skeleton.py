"""What all pages have in common: one document that needs nothing else, in the style that lies in ``MNN/assets``."""

from __future__ import annotations

from importlib import resources

import MNN
from MNN.cli.report.markup import tag, text


def document(title: str, body: str, data: str | None = None) -> str:
    """A whole page around markup; ``data`` (JSON without ``<``) brings the script that reads it."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        + f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        + tag("title", text(title))
        + f"<style>{_asset('report.css')}</style>"
    )
    scripts = ""
    if data is not None:
        scripts = '<div id="tip" hidden></div>' + f'<script type="application/json" id="data">{data}</script>'
        scripts += f"<script>{_asset('report.js')}</script>"
    main = tag("main", body + tag("footer", text(f"MNN in Python {MNN.__version__}")))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{main}{scripts}</body></html>\n'


def _asset(name: str) -> str:
    return (resources.files("MNN") / "assets" / name).read_text(encoding="utf-8")
