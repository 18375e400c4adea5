"""Where between its name and its use a module fails, in the order in which somebody runs into it.

Source: kmod libkmod-module.c, kmod_module_probe_insert_module(); Linux kernel/module/main.c, load_module().
"""

from __future__ import annotations

import enum

from msgspec import Struct


class Stage(enum.IntEnum):
    """A step of modprobe's and of the kernel's, in their order."""

    MODPROBE = 0  # modprobe alone: its index and its configuration
    DEPENDENCIES = 1  # what the module needs is loaded first
    PERMISSION = 2  # may_init_module()
    SIGNATURE = 3  # module_sig_check()
    FILE = 4  # elf_validity_check(); kmod stumbles over an empty or unreadable file before that
    BLACKLIST = 5  # blacklisted()
    BUILD = 6  # check_modstruct_version(), check_modinfo()
    SYMBOLS = 7  # simplify_symbols()
    EXPORTS = 8  # complete_formation()
    PARAMETERS = 9  # parse_args()
    INIT = 10  # do_init_module()
    LOADED = 11  # nothing stops it: somebody has to load it

    @property
    def of_any_module(self) -> bool:
        """Whether it can be told of any module by itself, before its own code runs."""
        return self is not Stage.DEPENDENCIES and self < Stage.INIT


class LoadPosition(Struct, frozen=True, order=True):
    """The place of a rule in that order."""

    stage: Stage
    rank: int  # among the checks of one stage
