"""Exit codes. 0 to 3 are the verdict; 64 and above are those of sysexits.h."""

from __future__ import annotations

OK, WARNING, BLOCKED, UNKNOWN = 0, 1, 2, 3
USAGE, NO_INPUT, UNAVAILABLE, INTERNAL, CANNOT_CREATE, NO_OUTPUT = 64, 66, 69, 70, 73, 74
BUSY, NO_PERMISSION, INTERRUPTED = 75, 77, 130
WORSE = (OK, WARNING, UNKNOWN, BLOCKED)
"""Those of a verdict, each worse than the one before."""

STYLES = {
    "gdr": {OK: 0, WARNING: 1, BLOCKED: 2, UNKNOWN: 3},
    # Monitoring Plugins guidelines: OK, WARNING, CRITICAL, UNKNOWN
    "nagios": {OK: 0, WARNING: 1, BLOCKED: 2, UNKNOWN: 3},
    # node-problem-detector, custom plugin monitor: 0 OK, 1 NonOK, anything else unknown
    "npd": {OK: 0, WARNING: 0, BLOCKED: 1, UNKNOWN: 2},
    # slurm.conf, Prolog: a nonzero exit code drains the node, which an unknown verdict must not do
    "slurm": {OK: 0, WARNING: 0, BLOCKED: 1, UNKNOWN: 0},
}
"""The exit codes that other programs expect for the same verdict."""


def in_style(code: int, words: list[str]) -> int:
    """The exit code that the caller expects: in its style, any code but a verdict's is its *unknown*."""
    table = STYLES[style_of(words)]
    return code if table is STYLES["gdr"] else table.get(code, table[UNKNOWN])


def style_of(words: list[str]) -> str:
    """The style that the arguments ask for, also if they are wrong: a misspelt style or option of a
    Prolog must not drain its nodes. The last one that is understood counts, as in argparse."""
    if not any(word.lower().startswith("--e") for word in words):  # spares the import
        return "gdr"
    from difflib import get_close_matches

    style = "gdr"
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not (name.startswith("--") and get_close_matches(name.lower(), ["--exit-style"], cutoff=0.7)):
            continue
        value = value if equals else words[at + 1] if at + 1 < len(words) else ""
        close = get_close_matches(value.strip().lower(), STYLES, n=1)
        style = close[0] if close else style
    return style
