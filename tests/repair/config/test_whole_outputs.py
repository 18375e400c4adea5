"""Every output of `gdr config`, whole, with the reason of each line.

The expected texts are in expected/. After a change that is meant, look at the difference, and write them
with `python -m tests.repair.config.test_whole_outputs`.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from msgspec import structs

from gdrkit.repair.config import KINDS, ConfigRefused, ConfigRequest, generate
from gdrkit.repair.config.output import explained, rendered
from tests.repair.config.outputs import NODES, node, on_platform, requests, requests_of

EXPECTED = Path(__file__).parent / "expected"
MORE_NODES = (
    *NODES,
    "rail-down",
    "wsl2",
    "peermem-blacklisted",
    "no-gpu",
    "no-rdma-device",
    "a100-nccl-2.20",
)


def asked() -> dict[str, ConfigRequest]:
    """Requests without a node, and with nodes of tests/evidence, by name."""
    more = {
        "unknown-operator": ConfigRequest(path="peermem", operator_version="v24.1.0", role="infra"),
        "between-operators": ConfigRequest(operator_version="25.10.0", ofed_version="doca9.9"),
        "other-parameter": ConfigRequest(parameters=(("nvidia", "NVreg_X", "7"),), interface="it's"),
    }
    named = {name: ConfigRequest(node=node(name)) for name in MORE_NODES}
    peermem = {
        f"{name}, peermem": ConfigRequest(node=node(name), path="peermem")
        for name in ("dgx-a100-proprietary", "h200-vm")
    }
    return requests() | more | named | peermem


def texts(kind: str) -> list[str]:
    """The lines of all outputs of a kind: the first of each form, and how each of the others differs."""
    lines = []
    for form in KINDS[kind].forms or ("",):
        names: dict[str, list[str]] = {}
        for name, request in (asked() | requests_of(kind)).items():
            made = generate(kind, on_platform(KINDS[kind], structs.replace(request, form=form)))
            if isinstance(made, ConfigRefused):
                text = f"refused: {made.why}\ninstead: {made.instead}\n"
            else:
                text = f"{made.kind} {made.form} {made.file}\n{rendered(made, explain=True)}"
                text += "" if made.commentable else explained(made)
            names.setdefault(text, []).append(name)
        first = next(iter(names)).splitlines()
        for text, rows in names.items():
            lines.append(f"=== {form}: {', '.join(rows)}")
            found = difflib.unified_diff(first, text.splitlines(), n=0, lineterm="")
            shown = [row for row in found if not row.startswith(("---", "+++"))]
            lines += shown if text.splitlines() != first else first
    return lines


@pytest.mark.parametrize("kind", KINDS)
def test_all_outputs_of_a_kind_are_as_they_should_be(kind):
    expected = (EXPECTED / f"{kind}.txt").read_text().splitlines()
    difference = "\n".join(difflib.unified_diff(expected, texts(kind), kind, "now", n=0, lineterm=""))
    assert not difference, difference


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    for kind in KINDS:
        (EXPECTED / f"{kind}.txt").write_text("\n".join(texts(kind)) + "\n")
