"""A boot loads a module anew: what is promised of it is as sure as the prediction for its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.evidence import EvidenceMissing, Missing
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver import DRIVER
from gdrkit.node import Node
from gdrkit.repair.remedies.predicted_load import loaded_at_boot
from tests.evidence_nodes import build
from tests.hiding_host import HidingHost

RUNNING, NEWER = "5.15.0-119-generic", "5.15.0-125-generic"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return build("ubuntu-22.04-peer-api", tmp_path)


def at_boot(tree: Path, files: dict[str, str]) -> bool | Missing:
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(content)
    return loaded_at_boot(Node(open_host(str(tree))), DRIVER, (DRIVER,))


def kernels(default: str) -> dict[str, str]:
    images = {f"boot/vmlinuz-{kernel}": "" for kernel in (RUNNING, NEWER)}
    entry = f'GRUB_DEFAULT="Advanced options for Ubuntu>Ubuntu, with Linux {default}"\n'
    return {**images, "etc/default/grub": entry}


def test_what_another_kernel_loads_is_not_known(tree):
    found = at_boot(tree, kernels(NEWER))
    assert isinstance(found, Missing) and found.source == f"nvidia of Linux {NEWER}, which boots next"


def test_a_kernel_that_is_only_installed_changes_nothing(tree):
    assert at_boot(tree, {}) == at_boot(tree, kernels(RUNNING))


def test_a_module_that_is_kept_from_loading_is_not_promised(tree):
    with pytest.raises(EvidenceMissing):
        at_boot(tree, {"etc/modprobe.d/no.conf": "install nvidia /bin/false\n"})


def test_a_prediction_that_cannot_be_made_leaves_it_open(tree):
    node = Node(HidingHost(open_host(str(tree)), {"lib/modules"}))
    assert isinstance(loaded_at_boot(node, DRIVER, (DRIVER,)), Missing)
