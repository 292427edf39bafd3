"""The page: one HTML file with its facts, style, script and charting library in it. It asks for nothing else.

The policy in its head (Content-Security-Policy) lets only the scripts run that are part of it, by their
hashes, and no request leave it. Names from the disk are only in the JSON, where `<`, `>` and `&` are escaped;
the script shows them as text.

Apache ECharts (`assets/echarts.min.js`, Apache-2.0) draws the charts; `assets/README.md` says which version
it is and how to replace it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from tidelog.version import __version__

__all__ = ["MARK", "facts_json", "page"]

MARK = "<!doctype html><!-- tidelog report -->"
"""What a page begins with."""

_SCRIPTS = (
    "echarts.min.js",
    "exact.js",
    "shared.js",
    "charts.js",
    "overview.js",
    "closer.js",
    "report.js",
)
_ESCAPED = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
_INLINE_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)


def page(
    facts: Mapping[str, Any],
    *,
    live: str | None = None,
    sections: str = "",
    figure: str | None = None,
    view: str = "#/",
) -> str:
    """The page of `facts`, as `facts.gather` has them.

    With `live` it asks that URL of its own server for new facts every few seconds. `sections` is HTML of the
    caller's that is put at the end; scripts in it may run. With `figure` only the chart of that name is
    shown, as it is in the part of the report that `view`, a fragment, leads to.
    """
    asked = {"live": live, "figure": figure, "view": None if figure is None else view}
    scripts = [_asset(name) for name in _SCRIPTS]
    head = {
        "mark": MARK,
        "policy": _policy([*scripts, *_scripts(sections)], live),
        "version": html.escape(__version__),
        "style": _asset("report.css"),
        "asked": "".join(
            f' data-{name}="{html.escape(value, quote=True)}"'
            for name, value in asked.items()
            if value is not None
        ),
        "sections": sections,
        "facts": facts_json(facts),
        "scripts": "".join(f"<script>{text}</script>\n" for text in scripts),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: head[found[1]], _asset("report.html"))


def facts_json(facts: Mapping[str, Any]) -> str:
    """Facts as JSON that may stand in a page: nothing in it ends a script, and all of it is ASCII."""
    return json.dumps(facts, separators=(",", ":")).translate(_ESCAPED)


def _policy(scripts: list[str], live: str | None) -> str:
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in scripts)
    asks = "'none'" if live is None else "'self'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {asks}; base-uri 'none'; form-action 'none'"
    )


def _scripts(sections: str) -> list[str]:
    """The scripts in a caller's HTML."""
    return [
        found["text"] for found in _INLINE_SCRIPT.finditer(sections) if "type=" not in found["attributes"]
    ]


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _asset(name: str) -> str:
    text = resources.files("tidelog.report").joinpath("assets", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
