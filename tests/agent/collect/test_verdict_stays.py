"""An anonymized bundle has the verdict and the findings of the original: half of the nodes of
tests/evidence, every day others."""

from __future__ import annotations

import io
import random
import tarfile

import pytest

from gdrkit.agent.collect.anonymize import Anonymizer
from gdrkit.agent.collect.bundle import _TABLE
from gdrkit.agent.collect.redact import without_secrets
from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.report.exit_code import exit_code
from tests.evidence_nodes import diagnosed, laid_down, names
from tests.seed import SEED

HOSTS = ("zgx-3285", "nvidia", "node", "options")
"""A name that is replaced everywhere, and words that must not be."""


def in_short(report):
    return {
        "exit code": exit_code(report),
        "layer": report.verdict.first_broken_layer,
        "fallback": report.verdict.best_fallback,
        "consumers": {name: section.state for name, section in report.consumers.items()},
        "findings": sorted((finding.code, finding.status) for finding in report.findings),
        "cells": len(report.pairs),
    }


def cleaned(data, path, anonymizer):
    """What `gdr collect --anonymize` makes of a file; a module is not text."""
    if ".ko" in path or path.endswith(("gdr_manifest.json", ".gz", ".xz")):
        return data
    text = data if _TABLE.search(path) or b"\0" in data else without_secrets(data, path)
    certificates = path.startswith("proc/keys") or "efi/" in path
    return anonymizer.content(text, addresses=not certificates, path=path)


def anonymized(source, target, anonymizer):
    """A copy of a bundle, a log or a tree with its texts anonymized."""
    if source.is_dir():
        for path in source.rglob("*"):
            place = target / path.relative_to(source)
            if path.is_symlink():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(path.readlink())
            elif path.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(cleaned(path.read_bytes(), str(path.relative_to(source)), anonymizer))
        return target
    if not tarfile.is_tarfile(source):
        target.write_bytes(cleaned(source.read_bytes(), source.name, anonymizer))
        return target
    with tarfile.open(source) as old, tarfile.open(target, "w:gz") as new:
        for member in old:
            stream = old.extractfile(member) if member.isfile() else None
            if stream is None:
                new.addfile(member)
                continue
            data = cleaned(stream.read(), member.name.partition("/")[2], anonymizer)
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return target


@pytest.mark.parametrize("name", sorted(random.Random(SEED).sample(names(), len(names()) // 2)))
def test_the_verdict_of_an_anonymized_node_stays(name, tmp_path):
    source = laid_down(name)
    anonymizer = Anonymizer([("host", host) for host in HOSTS])
    copy = anonymized(source, tmp_path / source.name, anonymizer)

    assert in_short(diagnose(open_host(str(copy)))) == in_short(diagnosed(name))
