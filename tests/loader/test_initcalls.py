"""initcall_blacklist= on the kernel's command line, which counts for modules too."""

from __future__ import annotations

import pytest

from gdrkit.agent.collect import elf_reduce
from gdrkit.loader import Prediction, modprobe
from tests.kernel_tree import CONFIG, KernelTree
from tests.loader.shared import could_not
from tests.module_builder import RELEASE, build_module

BARRED = build_module("x", entry=("x_begin", "x_other"), static_symbols=("x_helper",))


def loaded(command_line: str, content: bytes = BARRED) -> Prediction:
    tree = KernelTree().module("x", content=content).put("proc/cmdline", command_line)
    return modprobe(tree.put(f"boot/config-{RELEASE}", f"#\n{CONFIG}CONFIG_KALLSYMS=y\n").node(), "x")


@pytest.mark.parametrize("words", ["initcall_blacklist=x_begin", "a initcall_blacklist=y,x_begin b",
                                   "initcall_blacklist=x_begin initcall_blacklist=y"])  # fmt: skip
@pytest.mark.parametrize("collected", [False, True])
def test_an_init_that_is_listed_is_not_run(words: str, collected: bool) -> None:
    reduced = elf_reduce.reduce(BARRED, elf_reduce.KEEP_OF_MODULE)
    assert reduced is not None and b"x_helper" not in reduced.data
    found = loaded(words, reduced.data if collected else BARRED)
    assert (found.exit_code, found.loaded, found.result_unknown) == (1, False, False)
    assert found.stderr == could_not("Operation not permitted")
    assert found.kernel_log[-1] == "initcall x_begin blacklisted"


@pytest.mark.parametrize("word", ["x_begi", "x_other", "x_helper", "init_module", "x", ""])
def test_only_the_name_that_the_kernel_has_for_the_function_counts(word: str) -> None:
    assert loaded(f"initcall_blacklist={word}").loaded
    assert loaded(f"module_initcall_blacklist={word}").loaded


def test_without_the_functions_own_name_the_answer_is_open() -> None:
    """As in the bundles of older collectors."""
    found = loaded("initcall_blacklist=anything", build_module("x"))
    assert found.unless == ("module-blacklisted",)
    assert loaded("quiet", build_module("x")).unless == ()
