"""Write sbom.cdx.json: what gdrkit runs with, as a software bill of materials (CycloneDX 1.6).

Run it as `python -m tools.sbom` after tools/pin.py. The wheel has it in `.dist-info/sboms` (PEP 770). It has
no time and no random number, so the same pins give the same bytes; the hashes of every file of a package are
in requirements-run.txt. Source: cyclonedx.org, JSON reference 1.6; github.com/package-url, type pypi.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

from tools.pin import REQUIREMENT, RUN

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "sbom.cdx.json"


def bill() -> str:
    """The bill: gdrkit, and each pinned package that it needs with the marker under which it does."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = _component(project["name"], project["version"], "application", "")
    own["licenses"] = [{"expression": project["license"]}]
    parts = []
    for pin, marker in REQUIREMENT.findall(RUN.read_text()):
        name, _, version = pin.partition("==")
        parts.append(_component(name, version, "library", marker.removeprefix(" ; ").strip()))
    needs = [{"ref": own["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}]
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": parts,
        "dependencies": needs,
    }
    return json.dumps(whole, indent=1) + "\n"


def _component(name: str, version: str, kind: str, marker: str) -> dict[str, object]:
    address = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    found: dict[str, object] = {
        "type": kind, "bom-ref": address, "name": name, "version": version, "purl": address,
    }  # fmt: skip
    if marker:
        found["properties"] = [{"name": "python:marker", "value": marker}]
    return found


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    OUTPUT.write_text(bill())
