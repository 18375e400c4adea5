"""The verdict in one sentence of at most 80 characters."""

from __future__ import annotations

from gdrkit.agent.streams import visible
from gdrkit.report.path_words import gain
from gdrkit.rules.capabilities import WITHOUT_NIC
from gdrkit.rules.rule import Failed
from gdrkit.verdict.node_state import ConsumerState
from gdrkit.verdict.path_state import State

WIDTH = 80


def summary(state: ConsumerState) -> str:
    """One sentence about a state. It is shown next to the name of the state and does not repeat it."""
    pair = state.pairs[0] if state.pairs else None
    worst = state.worst
    match state.state:
        case State.ACTIVE:
            sentence = f"{gain(state.path).memory} over {state.path}: seen in use"
        case State.READY:
            one_device = pair and state.path not in WITHOUT_NIC and len({p.device for p in state.pairs}) == 1
            where = f" to {pair.device}" if pair and one_device else ""
            sentence = f"{gain(state.path).memory}{where} over {state.path}"
        case State.UNKNOWN:
            missing = f": {worst.missing[0].source}" if worst and worst.missing else ""
            sentence = f"evidence missing{missing}"
        case State.BLOCKED | State.IMPOSSIBLE:
            first = state.cause
            outcome = first.outcome if first else None
            what = f"{first.rule.code}: {outcome.seen}" if first and isinstance(outcome, Failed) else ""
            sentence = what or f"{state.consumer} has no direct path"
    return clip(sentence, WIDTH)


def clip(sentence: str, width: int) -> str:
    """The sentence, cut at a word if it is longer than `width`; a long path is cut within."""
    if len(sentence) <= width:
        return sentence
    cut = sentence[: width - 3]
    words = cut.rsplit(" ", 1)[0].rstrip(",;:")
    return f"{words if len(words) > width // 2 else cut}..."


def clause(sentence: str, width: int) -> str:
    """The sentence, or as many of its first clauses as fit; cut at a word if none does."""
    for end in ("; ", ": ", " ("):
        at = sentence.rfind(end, 0, width + 1)
        if len(sentence) > width and at > 0:
            return sentence[:at]
    return clip(sentence, width)


def in_line(text: str, width: int = WIDTH) -> str:
    """The text on one line of at most `width` characters, as it leaves: what a terminal would obey is an
    escape, which is longer than the character."""
    return clip(visible(" ".join(text.split())), width)
