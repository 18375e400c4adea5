"""The stages of loading a module, in the order in which modprobe and the kernel reach them.

Source: kmod libkmod-module.c, kmod_module_probe_insert_module(); Linux kernel/module/main.c, load_module().
"""

from __future__ import annotations

import enum

from msgspec import Struct


class Stage(enum.IntEnum):
    """A step of modprobe or of the kernel."""

    MODPROBE = 0  # modprobe alone: its index and its configuration
    DEPENDENCIES = 1  # what the module needs is loaded first
    PERMISSION = 2  # may_init_module()
    SIGNATURE = 3  # module_sig_check()
    FILE = 4  # elf_validity_check(); kmod rejects an empty or unreadable file before that
    BLACKLIST = 5  # blacklisted()
    BUILD = 6  # check_modstruct_version(), check_modinfo()
    SYMBOLS = 7  # simplify_symbols()
    EXPORTS = 8  # complete_formation()
    PARAMETERS = 9  # parse_args()
    INIT = 10  # do_init_module()
    LOADED = 11  # nothing stops it; it only has to be loaded


class LoadPosition(Struct, frozen=True, order=True):
    """The position of a rule in that order."""

    stage: Stage
    rank: int  # among the checks of one stage
