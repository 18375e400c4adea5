"""The frame of every HTML report: one file, a strict content security policy, glyphs, escaped text.

The policy names the hash of the one style and the one script (Content Security Policy Level 3, 2.3.1), so a
browser runs nothing else, whatever a hostile node put into its evidence; it loads nothing from anywhere, and
Trusted Types forbid a script to turn text into markup. That is why no element has a `style` or an `on...`
attribute.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Literal

from gdrkit import __version__
from gdrkit.agent.streams import visible, visible_json
from gdrkit.fabric.picture_svg import PALETTE
from gdrkit.formats.json_text import encode

Glyph = Literal["ok", "warning", "bad", "unknown", "impossible", "note", "staged", "unreachable"]

# The outer shape alone tells the state: disc, triangle, square, diamond, barred ring, ring, dashed ring.
GLYPHS: dict[Glyph, str] = {
    "ok": '<circle cx="8" cy="8" r="7" class="fill"/><path class="on" d="M4.6 8.3l2.3 2.3 4.5-5"/>',
    "warning": '<path class="fill" d="M8 .9L15.6 15H.4z"/><path class="on" d="M8 5.6v4.6M8 11.7v1.8"/>',
    "bad": '<rect x="1" y="1" width="14" height="14" rx="1.5" class="fill"/>'
    '<path class="on" d="M4.7 4.7l6.6 6.6M11.3 4.7l-6.6 6.6"/>',
    "unknown": '<path class="line" d="M8 .6L15.4 8 8 15.4.6 8z"/>'
    '<path class="line" d="M6.2 6.4c0-2.4 3.7-2.3 3.6 0C9.8 7.8 8 7.7 8 9.3M8 10.6v1.4"/>',
    "impossible": '<circle cx="8" cy="8" r="6.8" class="line"/><path class="line" d="M3.3 3.3l9.4 9.4"/>',
    "note": '<circle cx="8" cy="8" r="6.8" class="line"/><path class="line" d="M8 7v5M8 4v1.7"/>',
    "unreachable": '<path class="line" d="M2 2h12v12H2z" stroke-dasharray="2.4 2"/>',
    "staged": '<circle cx="8" cy="8" r="6.6" class="line" stroke-dasharray="2.6 2"/>',
}


def safe(words: object) -> str:
    """Words of a stranger as text of HTML: no markup, no control characters."""
    return html.escape(visible(str(words)))


def rich(words: str) -> str:
    """A sentence with the words in backticks as code, and with names of codes in brackets unbroken."""
    parts = re.split(r"`([^`]+)`", words)
    return "".join(f"<code>{safe(part)}</code>" if i % 2 else _whole(part) for i, part in enumerate(parts))


def _whole(words: str) -> str:
    return re.sub(r"\[[a-z0-9]+(?:-[a-z0-9]+)+\]", r'<span class="nb">\g<0></span>', safe(words))


def glyph(name: Glyph) -> str:
    """The sign of a state. The word next to it serves readers who cannot see the sign."""
    return f'<svg class="g {name}" aria-hidden="true"><use href="#g-{name}"/></svg>'


def sprite() -> str:
    """The glyphs, once for a page."""
    symbols = "".join(
        f'<symbol id="g-{name}" viewBox="0 0 16 16">{d}</symbol>' for name, d in GLYPHS.items()
    )
    return f'<svg width="0" height="0" class="hidden" aria-hidden="true">{symbols}</svg>'


def command(words: str) -> str:
    """A command with a button that copies it."""
    return _copied(words, '<div class="cmd"><code>')


def _copied(words: str, opening: str) -> str:
    return (
        f'{opening}{safe(words)}</code><button type="button" class="copy" '
        f'data-copy="{safe(words)}" aria-label="Copy: {safe(words[:60])}">Copy</button></div>'
    )


def copyable(words: str) -> str:
    """A list, such as names of nodes, with a button that copies it."""
    return _copied(words, '<div class="cmd list"><code tabindex="0">')


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], names: str = "") -> str:
    """A table; the cells of `rows` are HTML."""
    heads = tuple(heads)
    head = "".join(f'<th scope="col">{safe(word)}</th>' for word in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide-table" role="region" tabindex="0" aria-label="{safe(", ".join(heads))}">'
        f'<table class="{names}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def section(of: str, title: str, about: str, content: str) -> str:
    """A part of a page, with a link to it."""
    return f'<section id="{of}"><h2>{safe(title)}</h2><p class="sub">{rich(about)}</p>{content}</section>'


def time(words: str) -> str:
    """A time of a document, 2026-11-22T23:31:05Z, for people: 2026-11-22 23:31 UTC."""
    return f"{words[:10]} {words[11:16]} UTC"


def file(name: str) -> str:
    """A style or a script of this package."""
    return files("gdrkit.html").joinpath(name).read_text("utf-8")


def report(
    *,
    title: str,
    crumb: str,
    main: str,
    origin: Iterable[tuple[str, str]],
    style: str,
    script: str,
    data: object,
) -> str:
    """The page of a report: `crumb` is its subject; `origin` is its source, as pairs of name and words.
    These and `main` are HTML. `style` and `script` are added to those of every report."""
    listed = "".join(f"<div><dt>{name}</dt><dd>{words}</dd></div>" for name, words in origin)
    body = (
        '<a class="skip" href="#verdict">To the report</a><header class="top"><div class="wrap">'
        f'<span class="brand">gdrkit</span><span class="crumb">{crumb}</span></div></header>'
        f'<main class="wrap">{main}</main><footer><div class="wrap"><dl>{listed}</dl></div></footer>'
        '<div id="live" class="hidden" role="status"></div>'
    )
    return page(
        title=f"{title} \N{MIDDLE DOT} gdrkit",
        body=body,
        style=f"\n{PALETTE}{file('report.css')}{style}",
        script=f"\n{file('common.js')}{script}",
        data=data,
        version=__version__,
    )


def by(command: str) -> tuple[str, str]:
    """The row of an origin that names the command."""
    return "By", f"gdrkit {safe(__version__)}, <code>{safe(command)}</code>"


def page(*, title: str, body: str, style: str, script: str, data: object, version: str) -> str:
    """A whole page. `data` is what the script reads as JSON from the element `data`."""
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {_hash(style)}",
            f"script-src {_hash(script)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f'<meta name="generator" content="gdrkit {safe(version)}">\n'
        f'<title>{safe(title)}</title><link rel="icon" href="data:,">\n'
        f"<style>{style}</style></head>\n<body>{sprite()}{body}\n"
        f'<script type="application/json" id="data">{embedded(data)}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )


def _hash(text: str) -> str:
    import hashlib

    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: object) -> str:
    """JSON in which nothing can end the element or begin a comment."""
    text = visible_json(encode(data).decode())
    for character in "&<>\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
