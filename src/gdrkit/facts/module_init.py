"""The outcome of a module's init function, for the few modules for which it is known."""

from __future__ import annotations

import enum

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.driver_files import DRIVER, peermem_path
from gdrkit.facts.kernel import boot_parameter, config_option
from gdrkit.facts.loaded_modules import is_loaded
from gdrkit.facts.module_arguments import Argument, number, split_arguments
from gdrkit.facts.module_files import ModInfo, image, imports, information, weak_imports
from gdrkit.facts.module_index import dependencies, module_path
from gdrkit.facts.peer_memory import peermem_linkage
from gdrkit.facts.symvers import PEER_API
from gdrkit.node import Node, fact, if_absent, if_missing

# Parameters of nvidia-peermem, in the order in which its init checks them. The first is in every version
# since 470, the second since 560.28.03: open-gpu-kernel-modules nvidia-peermem.c.
_PARAMETER = "peerdirect_support"
_CHECKED = (_PARAMETER, "persistent_api_support")
# Imports that compilers and kernel headers add to a module that does nothing: x86 and arm64, gcc and clang.
# Before 560.28.03 a stub checks its parameter first, nv_mem_param_conf_check(), and so imports printk.
_TRIVIAL = (
    *("param_ops_int", "param_ops_uint", "_mcount", "alt_cb_patch_nops", "alt_cb_patch_nops_bti"),
    *("_printk", "printk"),  # the name changed in Linux 5.15
)


_ALIAS = "init_module"  # module_init() gives this name to every module's init function


class InitOutcome(enum.StrEnum):
    """The outcome of a module's init function."""

    STUB = "stub"  # always returns EINVAL
    REGISTERS = "registers"  # registers with the RDMA core, which is loaded, and succeeds
    UNKNOWN = "unknown"


@fact
def init(node: Node, name: str) -> InitOutcome:
    """The outcome of a module's init function, as far as it is known.

    nvidia-peermem is recognized by its contents, never by its name: it has peermem's parameter, and imports
    either the peer-memory API or no function but printk. Source: nvidia-peermem.c in every tag from
    515.43.04 to 595.45.04: everything but the parameters, the check of one of them in 515 to 555, and
    `return -EINVAL` is compiled only with NV_MLNX_IB_PEER_MEM_SYMBOLS_PRESENT.
    """
    path = module_path(node, name)
    if _PARAMETER not in information(node, path).parameters:
        return InitOutcome.UNKNOWN
    if not _uses_peer_api(node, path):
        return InitOutcome.STUB if _is_trivial(node, path) else InitOutcome.UNKNOWN
    needed = dependencies(node, name)
    if DRIVER in needed and all(is_loaded(node, other) for other in needed):
        return InitOutcome.REGISTERS
    return InitOutcome.UNKNOWN


@fact
def barred_entry(node: Node, name: str) -> str:
    """A module's init function, if the kernel does not run it because its command line names it, else "": it
    counts as one that returned EPERM. Raises EvidenceMissing if its name was not collected.

    Source: Linux init/main.c, initcall_blacklist() and initcall_blacklisted(); it has CONFIG_KALLSYMS alone.
    """
    values = if_absent((), boot_parameter, node, "initcall_blacklist")
    listed = {function for value in values for function in value.split(",")}
    if not listed or if_missing("y", config_option, node, "CONFIG_KALLSYMS") != "y":
        return ""
    path = module_path(node, name)
    entry = image(node, path).entry_name()
    if entry == _ALIAS and entry not in listed:
        raise EvidenceMissing(
            Missing(f"{path} (init function)", MissingReason.NOT_COLLECTED, f"nm {quoted(f'/{path}')}")
        )
    return entry if entry in listed else ""


@fact
def refused_argument(node: Node, name: str, text: str) -> Argument | None:
    """The first argument whose value nvidia-peermem's init refuses with EINVAL; None if it refuses none.

    Its parameters take 0 and 1. Source: nvidia-peermem.c, nv_mem_param_conf_check() in 515 to 555,
    nv_mem_param_peerdirect_conf_check() and nv_mem_param_persistent_api_conf_check() since 560.28.03, where
    a stub no longer calls them. Only NVIDIA's own module, which has a version, is known to check.
    """
    module = information(node, module_path(node, name))
    if _PARAMETER not in module.parameters or not module.version:
        return None
    given = {
        argument.name.replace("-", "_"): argument for argument in split_arguments(text)
    }  # the last wins
    return next((given[key] for key in _CHECKED if key in given and _is_refused(module, given[key])), None)


def is_legacy(text: str) -> bool:
    """Whether arguments set persistent_api_support to 0, so that both clients are registered."""
    given = [
        argument for argument in split_arguments(text) if argument.name.replace("-", "_") == _CHECKED[1]
    ]
    return bool(given) and number(given[-1].shown) == 0


def _is_refused(module: ModInfo, argument: Argument) -> bool:
    kind = module.parameters.get(argument.name.replace("-", "_"))
    return kind == "int" and number(argument.shown) not in (0, 1)


def _uses_peer_api(node: Node, path: str) -> bool:
    """For nvidia-peermem, by the fact peermem_linkage, because a rebuild is a supposition about that
    fact."""
    if path == if_absent("", peermem_path, node):
        return peermem_linkage(node).uses_peer_api
    return PEER_API[0] in imports(node, path)


def _is_trivial(node: Node, path: str) -> bool:
    """Whether a module imports only what compilers add, and depends on no other module."""
    symbols = (*imports(node, path), *weak_imports(node, path))
    plain = all(symbol.startswith("__") or symbol in _TRIVIAL for symbol in symbols)
    return plain and not information(node, path).depends
