"""A page without script in the style of the report, for results other than runs."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

from sim.report.markup import Markup, escaped, joined, tag
from sim.report.page import asset, policy


def static_page(title: str, lead: object, sections: Sequence[tuple[str, Markup]], *, style: str = "") -> str:
    """Return an HTML page of sections with headings; the content security policy allows only its style.

    `style` is appended to the style of the report.
    """
    sheet = f"{asset('assets/page.css')}\n{style}"
    head = joined(
        [
            Markup('<meta charset="utf-8">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            Markup(f'<meta name="generator" content="lppm-sim {importlib.metadata.version("lppm-sim")}">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy(sheet, "")}">'),
            tag("title", title),
            Markup(f"<style>{sheet}</style>"),
        ]
    )
    body = [tag("section", tag("h2", heading), content) for heading, content in sections]
    header = tag("header", tag("h1", title), tag("p", lead, class_="lead"))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{header}{tag("main", *body)}</body>\n</html>\n'
    )


def shown_text(text: str) -> Markup:
    """Return a block of preformatted text."""
    return tag("pre", escaped(text), tabindex=0)
