"""Every action of every procedure on the nodes in tests/evidence, as it was reviewed.

Equal actions of one procedure are listed once, with the nodes and the families of distributions."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gdrkit.node import Node
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import every_remedy
from gdrkit.repair.remedies.remedy import Remedy
from tests.evidence_nodes import names
from tests.known_answers import fields_text
from tests.repair.platforms.test_procedures import CHOICES, FAMILIES, node
from tests.repair.remedies.test_pairs import DERIVED

PLAIN, CHOSEN = CHOICES
VOLATILE = ProcedureChoices(acs="volatile", digest="sha512")


def every_case() -> Iterable[tuple[str, Node, ProcedureChoices]]:
    for name in names():
        yield name, node(name), PLAIN
        yield from ((f"{name} as {family}", node(name, family), PLAIN) for family in FAMILIES)
        yield f"{name}, chosen", node(name), CHOSEN
        yield f"{name}, volatile", node(name), VOLATILE
    yield from ((f"derived:{code}", derived(), PLAIN) for code, derived in DERIVED.items())


@pytest.mark.parametrize("remedy", every_remedy(), ids=lambda remedy: remedy.name)
def test_the_actions_of_a_procedure(remedy: Remedy, snapshot):
    found: dict[str, list[str]] = {}
    for name, where, choices in every_case():
        procedure = procedure_for(where, remedy, choices)
        actions = "\n".join(f"{type(row).__name__}\n{fields_text(row)}" for row in procedure.actions)
        found.setdefault(actions, []).append(name)
    assert "\n".join(f"{actions}\n  at {_listed(where)}" for actions, where in found.items()) == snapshot


def _listed(where: list[str]) -> str:
    """The first cases, and the number of all."""
    return f"{len(where)}: {'; '.join(where[:6])}"
