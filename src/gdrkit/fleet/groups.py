"""Groups of nodes that share a verdict and its causes, and what frees the most of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gdrkit.catalogue import CODES
from gdrkit.evidence.quoting import quoted
from gdrkit.fleet.document import INTERRUPTED, SILENT, WELL, Fix, Group, NodeRow, Standing
from gdrkit.fleet.hostlist import expand, fold
from gdrkit.fleet.launcher import BY_ENGINE
from gdrkit.repair.remedies import remedy_of
from gdrkit.report.answers import naming
from gdrkit.report.pages import advice
from gdrkit.rules.remedy_names import RemedyName

ORDER = list(Standing)


def groups(rows: Iterable[NodeRow]) -> tuple[Group, ...]:
    """The groups, the most urgent first, and of those the largest."""
    alike: dict[tuple[Standing, tuple[str, ...], tuple[int, ...], str], list[NodeRow]] = {}
    for row in rows:
        alike.setdefault((row.standing, row.causes, row.rails, _what_to_do(row)), []).append(row)
    ordered = sorted(alike.items(), key=lambda item: (ORDER.index(item[0][0]), -len(item[1]), item[0]))
    return tuple(
        Group(
            number=number,
            standing=standing,
            causes=causes,
            rails=rails,
            summary=nodes[0].summary,
            advice=_shared(nodes),
            nodes=fold(node.name for node in nodes),
            count=len(nodes),
        )
        for number, ((standing, causes, rails, _), nodes) in enumerate(ordered, 1)
    )


def numbers_of(found: Iterable[Group]) -> dict[str, int]:
    """The number of each node's group, by its name."""
    return {name: group.number for group in found for name in expand(group.nodes)}


def fixes(rows: Iterable[NodeRow]) -> tuple[Fix, ...]:
    """What makes blocked nodes ready, by the number of nodes. A plan frees a node as a whole: a step of it
    alone does not."""
    alike: dict[tuple[str, tuple[str, ...], bool], list[NodeRow]] = {}
    for row in rows:
        if row.standing is Standing.BLOCKED:
            alike.setdefault((_what_to_do(row), row.remedies, row.needs_reboot), []).append(row)
    found = [
        Fix(
            advice=_shared(nodes),
            remedies=nodes[0].remedies,
            needs_reboot=reboot,
            by_hand=nodes[0].by_hand,
            frees=len(nodes),
            nodes=fold(node.name for node in nodes),
        )
        for (_, _, reboot), nodes in alike.items()
    ]
    return tuple(sorted(found, key=lambda fix: (-fix.frees, fix.by_hand or not fix.remedies, fix.advice)))


def by_advice(found: Iterable[Group]) -> dict[str, list[Group]]:
    """The groups in need that no fix is about, by what to do: those of blocked nodes are in `fixes`."""
    alike: dict[str, list[Group]] = {}
    for group in found:
        if group.standing not in WELL and group.standing is not Standing.BLOCKED and group.advice:
            alike.setdefault(group.advice, []).append(group)
    return alike


def target_of(row: NodeRow) -> str:
    """What gdr takes to open a node again, quoted for a shell."""
    engine = row.target.partition("://")[0]
    return quoted(f"ssh://{row.name}" if engine in BY_ENGINE else row.target)


def _shared(rows: Sequence[NodeRow]) -> str:
    """What to do about nodes of one cause; where it differs, what to do about the first. Commands that judge
    a node name the first."""
    words = naming(_advice(rows[0]), target_of(rows[0]))
    same = all(_advice(row) == _advice(rows[0]) for row in rows)
    return words if same else f"for example on {rows[0].name}: {words}"


def _what_to_do(row: NodeRow) -> str:
    """What to do about a node, without the words that name a device, a line or a version: a cable and a
    subnet manager are not one thing to do, though both are about a port that is down. Without evidence, the
    cause says enough."""
    words = () if row.standing in SILENT else _advice(replace(row, to_find_out=())).split()
    return " ".join(word for word in words if not any(map(str.isdigit, word)))


def _advice(row: NodeRow) -> str:
    """What to do about a node, in a line."""
    match row.standing:
        case Standing.UNREACHABLE | Standing.UNREADABLE if row.summary == INTERRUPTED:
            return "--resume asks it"
        case Standing.UNREACHABLE:
            return f"{row.advice or 'check that it is up'}; --resume asks it again"
        case Standing.UNREADABLE:
            return row.advice or "collect it again"
        case Standing.UNKNOWN:
            return _find_out(row, _of_first_cause(row))
        case Standing.NEXT_BOOT:
            return row.advice
    if row.remedies and not row.by_hand:
        return f"gdr fix: {plan_in_words(row)}"
    if row.standing in WELL:
        return ""
    return _of_first_cause(row)


def plan_in_words(plan: NodeRow | Fix) -> str:
    """The steps of a plan by name; of a single one also what it does."""
    first, *others = plan.remedies
    words = ", then ".join(plan.remedies) if others else f"{first}: {remedy_of(first).title}"
    is_said = RemedyName.REBOOT in plan.remedies
    return f"{words}, with a reboot" if plan.needs_reboot and not is_said else words


def _of_first_cause(row: NodeRow) -> str:
    """What the first cause says to do; "" where nothing is wrong that has a code."""
    return row.advice or advice(row.causes[0]) if row.causes and row.causes[0] in CODES else ""


def _find_out(row: NodeRow, known: str) -> str:
    """Root reads what was denied; anything else has its own command. What is `known` to be wrong comes
    first."""
    missing = row.causes[1:] if known else row.causes
    words = f"to find out, run: {row.to_find_out[0]}" if row.to_find_out else "see gdr doctor -v"
    if missing and all(cause.endswith(": denied") for cause in missing):
        words = "run again with --sudo, or collect as root"
    return f"{known} {words[:1].upper()}{words[1:]}" if known else words
