"""What missing evidence and inits of unknown result leave open in a prediction."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing, MissingReason
from gdrkit.loader import Prediction
from gdrkit.node import Node
from tests.kernel_tree import FOLDER, KernelTree
from tests.known_answers import modprobe
from tests.loader.shared import could_not
from tests.memory_host import MemoryHost


def test_checks_that_could_not_be_made_are_listed_and_the_result_is_likely() -> None:
    tree = KernelTree(complete=False).module("x")
    tree.symvers = False
    tree.module("x", imports={"nowhere": 1})
    found = modprobe(tree.node(), "x")
    assert "module-symbol-missing" in found.unless
    assert found.confidence is Confidence.LIKELY


def test_a_module_whose_file_was_not_collected_is_not_checked() -> None:
    tree = KernelTree(complete=False).module("x")
    tree.put("run/modprobe.d/.keep", "").put("etc/modprobe.d/a.conf", "# none\n")
    for folder in (
        "usr/local/lib/modprobe.d",
        "usr/lib/modprobe.d",
        "lib/modprobe.d",
        "sys/module/x/initstate",
    ):
        tree.put(f"{folder}/.keep", "")
    found = modprobe(tree.without(tree.path("x")).node(), "x")
    assert found.result_unknown
    assert found.unless


def test_without_any_list_of_modules_there_is_no_prediction() -> None:
    with pytest.raises(EvidenceMissing):
        modprobe(KernelTree(complete=False).without("proc/sys/kernel/osrelease").node(), "x")


@pytest.mark.parametrize("gone", ["proc/sys/kernel/osrelease", f"{FOLDER}/modules.dep", FOLDER])
@pytest.mark.parametrize("conf", ["", "alias nvidia-peermem x\n"])
def test_without_an_index_it_is_not_known_which_modules_there_are(gone: str, conf: str) -> None:
    """A container, or a system that keeps its modules elsewhere: no module is known to be absent."""
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", conf).put(".dockerenv", "")
    whole = tree.host()
    files = {path: content for path, content in whole.files.items() if not path.startswith(gone)}
    with pytest.raises(EvidenceMissing) as caught:
        modprobe(Node(MemoryHost(files, complete=True)), "nvidia-peermem")
    assert caught.value.missing.why is MissingReason.UNDECIDED


@pytest.mark.parametrize(
    ("loaded", "exit_code", "unless", "undecided"),
    [
        (True, 0, (), False),
        (True, 0, ("module-symbol-missing",), True),
        (False, 1, ("module-symbol-missing",), False),  # refused, whichever check comes first
        (False, 1, ("install-override",), True),
        (False, 0, ("module-unknown-key",), True),
    ],
)
def test_a_check_that_was_not_made_leaves_only_a_success_open(
    loaded: bool, exit_code: int, unless: tuple[str, ...], undecided: bool
) -> None:
    found = Prediction(module="x", tainted=0, exit_code=exit_code, loaded=loaded, unless=unless)
    assert found.undecided is undecided


def two(tree: KernelTree, **user: object) -> KernelTree:
    """A module, and another one that uses its symbol."""
    tree.module("needed", exports={"alpha": 1}, license="Proprietary")
    return tree.module("x", depends=("needed",), **({"imports": {"alpha": 1}} | user))  # type: ignore[arg-type]


def test_lines_after_an_unknown_init_are_marked_uncertain() -> None:
    found = modprobe(two(KernelTree()).node(), "x")
    assert found.result_unknown and found.assumes == ("needed", "x")
    inherited = "x: module uses symbols alpha from proprietary module needed, inheriting taint."
    assert inherited in found.kernel_log[found.certain_lines :]
    assert any("module license" in line for line in found.kernel_log[: found.certain_lines])


def test_a_failure_after_an_unknown_init_names_that_module() -> None:
    found = modprobe(two(KernelTree(), imports={"alpha": 2}).node(), "x")
    assert (found.exit_code, found.loaded, found.stderr) == (1, False, could_not("Invalid argument"))
    assert (found.result_unknown, found.assumes) == (False, ("needed",))
    assert found.confidence is Confidence.LIKELY


def test_nothing_is_assumed_about_a_module_that_is_already_loaded() -> None:
    tree = KernelTree().module("needed", exports={"alpha": 1}, loaded="OE")
    tree.module("x", depends=("needed",), imports={"alpha": 2})
    found = modprobe(tree.node(), "x")
    assert (found.assumes, found.certain_lines) == ((), None)
