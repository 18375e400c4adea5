"""Messages of programs that load or manage modules: modprobe, similar programs, and those that start them.

An `{error}` is the text of the C library or the program's own; errors.py has both, with their causes.
Sources: kmod tools/modprobe.c, insmod.c and libkmod/libkmod-module.c at the tags from v9 to v34 and at the
newest commit; systemd src/shared/module-util.c.
"""

from __future__ import annotations

from gdrkit.messages.message import MessageTemplate

_KMOD = "kmod tools/modprobe.c"
_LIBKMOD = "kmod libkmod/libkmod-module.c"

NOT_FOUND = MessageTemplate(
    "modprobe",
    "modprobe: FATAL: Module {module} not found in directory {directory}",
    ("module-not-found",),
    source=f"{_KMOD}, module_new_from_any(), and insmod() up to 34",
    versions="22 and later",
    loads=True,
)
NOT_FOUND_ANYWHERE = MessageTemplate(
    "modprobe",
    "modprobe: FATAL: Module {module} not found.",
    ("module-not-found",),
    source="module-init-tools modprobe.c, and kmod tools/modprobe.c before 22",
    versions="21 and before",
    loads=True,
)
NOT_FOUND_IN_SHORT = MessageTemplate(
    "modprobe",
    r"Module {module} not found{:\s*$}",
    ("module-not-found",),
    source=f"{_KMOD}: the message without its end, as people and scripts copy it",
    loads=True,
    sample="Module nvidia_peermem not found",
)
INIT_CALL = MessageTemplate(
    "strace",
    r"{:f?}init_module({:.{0,120}?}){:\s+}= -1 E{:\w+} ({error:[^()]+})",
    source="finit_module(2), init_module(2), as strace prints them",
    loads=True,
    sample='finit_module(3, "", 0) = -1 EINVAL (Invalid argument)',
)
COMMAND_FAILED = MessageTemplate(
    "modprobe",
    "modprobe: ERROR: {place}Error running install command '{command}' for module {module}: "
    "retcode {status}",
    ("install-override",),
    source=f"{_LIBKMOD}, command_do()",
    versions="27 and later; 25 gives no status",
    loads=True,
)
DEPENDENCY_GONE = MessageTemplate(
    "modprobe",
    r"modprobe: ERROR: {place}ctx={pointer:\S{1,32}} path={path:\S*} error={error:[A-Z][a-z ]{1,60}}",
    ("dependency-failed",),
    source=f"{_LIBKMOD}, kmod_module_parse_depline()",
    loads=True,
)
UNSUPPORTED = MessageTemplate(
    "modprobe",
    "modprobe: ERROR: module '{module}' is unsupported",
    ("module-unsupported",),
    source="SUSE's kmod; quoted in ltp testcases/network/mpls and in Lustre's guide for SLES",
    loads=True,
)
UNSUPPORTED_HINT = (
    "modprobe: ERROR: Use --allow-unsupported or set allow_unsupported_modules 1 in",
    "modprobe: ERROR: /etc/modprobe.d/10-unsupported-modules.conf",
)
"""The two lines that follow."""
NO_FILE = MessageTemplate(
    "modprobe",
    "modprobe: ERROR: {place}could not find module by name='{module}'",
    ("module-not-found",),
    source=f"{_LIBKMOD}, kmod_module_insert_module()",
    loads=True,
    decides=False,  # the error in the next line may say that this kernel loads no modules at all
)
NOT_UNPACKED = MessageTemplate(
    "modprobe",
    r"modprobe: ERROR: {place:(?:\S{1,40} \S{1,40} )?}{damage:(?:xz|zstd|gzip): [^\n]{1,80}}",
    ("module-corrupt",),
    source="kmod libkmod/libkmod-file-xz.c, -zstd.c, -zlib.c; libkmod-file.c up to 32",
    decides=False,  # it names no file
    sample="modprobe: ERROR: zstd: Failed to determine decompression size",
)
PRESENT = MessageTemplate(
    "modprobe",
    "modprobe: ERROR: could not insert '{module}': Module already in kernel",
    source=f"{_KMOD}, insmod_insert(), and insmod() up to 30",
    loads=True,
)
COULD_NOT = MessageTemplate(
    "modprobe",
    "modprobe: ERROR: could not insert '{module}': {error}",
    source=f"{_KMOD}, insmod_insert(), and insmod() up to 30",
    loads=True,
)
COULD_NOT_QUOTED_OTHERWISE = MessageTemplate(
    "modprobe",
    r"modprobe: ERROR: could not insert {:[\"`]?}{module}{:[\"`]?}: {error}",
    source=f"{_KMOD}, insmod_insert(); a shell takes the marks from what is typed, and people change them",
    loads=True,
    sample="modprobe: ERROR: could not insert nvidia_peermem: Invalid argument",
)

TOOLS = (
    MessageTemplate(
        "insmod",
        "insmod: ERROR: could not insert module {file}: {error}",
        source="kmod tools/insmod.c, do_insmod()",
        loads=True,
    ),
    MessageTemplate(
        "nvidia-installer",
        "Kernel module load error: {error}",
        source="NVIDIA/nvidia-installer kernel.c, test_kernel_modules_helper()",
        loads=True,
    ),
    MessageTemplate(
        "systemd",
        "Failed to insert module '{module}': {error}",
        source="systemd src/shared/module-util.c, module_load_and_warn()",
        loads=True,
    ),
    MessageTemplate(
        "talos",
        "load {module} failed: {error}",
        source="pmorjan/kmod kmod_linux.go, Load(), which talos calls",
        loads=True,
    ),
)

LOADERS = (
    NOT_FOUND,
    NOT_FOUND_ANYWHERE,
    NOT_FOUND_IN_SHORT,
    INIT_CALL,
    COMMAND_FAILED,
    DEPENDENCY_GONE,
    NO_FILE,
    PRESENT,
    COULD_NOT,
    COULD_NOT_QUOTED_OTHERWISE,
    *TOOLS,
)
"""Programs that load modules. Their messages may be in the kernel log too, like systemd's early in a
boot."""

ROWS = (
    NOT_UNPACKED,
    MessageTemplate(
        "depmod",
        r"depmod: WARNING: {folder:\S*/}{module}.ko{packed:\S*} needs unknown symbol {symbol}",
        ("module-symbol-missing",),
        source="kmod tools/depmod.c, depmod_load_module_dependencies()",
        decides=False,  # depmod may have run earlier, or for another kernel
        open_end=True,
    ),
    MessageTemplate(
        "depmod",
        r"depmod: WARNING: {folder:\S*/}{module}.ko{packed:\S*} disagrees about version of symbol",
        ("module-crc-mismatch",),
        source="kmod tools/depmod.c, depmod_load_module_dependencies()",
        decides=False,  # depmod may have run earlier, or for another kernel
        open_end=True,
        sample="depmod: WARNING: /lib/modules/5.4.0/extra/nv_peer_mem.ko disagrees about version of symbol "
        "nvidia_p2p_get_pages",
    ),
    MessageTemplate(
        "modinfo",
        "modinfo: ERROR: Module {:(?:name |alias )?}{module} not found",
        ("module-not-found",),
        source="kmod tools/modinfo.c, modinfo_do()",
        decides=False,  # it may be there for another kernel, or built in
        open_end=True,
        sample="modinfo: ERROR: Module nvidia-peermem not found.",
    ),
    MessageTemplate(
        "systemd",
        "Module '{module}' is {how:deny-listed|blacklisted}",
        ("module-blacklisted",),
        source="systemd src/shared/module-util.c, module_load_and_warn()",
        open_end=True,
        sample="systemd-modules-load[252]: Module 'nvidia_peermem' is deny-listed",
    ),
    MessageTemplate(
        "rmmod",
        r"rmmod: ERROR: Module {owner} is in use by: {users:[\w ]*\b(?:nvidia_peermem|nv_peer_mem)\b}",
        ("peermem-blocks-ofed",),
        source="kmod tools/rmmod.c, check_module_inuse(); openibd and OFED containers show it",
        open_end=True,
        sample="rmmod: ERROR: Module ib_core is in use by: ib_uverbs nvidia_peermem",
    ),
    MessageTemplate(
        "modprobe.d",
        r"alias {name:nvidia[\w-]*} off",
        ("module-blacklisted",),
        source="modprobe.d(5): bumblebee and prime-select write it; a file alone is not proof of use",
        decides=False,
        sample="alias nvidia off",
    ),
    MessageTemplate(
        "modprobe",
        "{what:could not insert 'off'|Module off not found}",
        ("module-blacklisted",),
        source=f"{_KMOD}; modprobe.d(5): an alias sends a module to one that is called off",
        decides=False,
        open_end=True,
        sample="modprobe: FATAL: Module off not found in directory /lib/modules/6.8.0",
    ),
    MessageTemplate(
        "nvidia-installer",
        "Unable to load the kernel module '{module}.ko'",
        (
            "module-unsigned",
            "module-unknown-key",
            "lockdown-blocks-module",
            "module-wrong-kernel",
            "module-symbol-missing",
            "module-crc-mismatch",
            "dependency-failed",
            "init-failed",
        ),
        source="NVIDIA/nvidia-installer kernel.c, ignore_load_error()",
        loads=True,
        open_end=True,
        sample="ERROR: Unable to load the kernel module 'nvidia.ko'.  This happens most frequently when",
    ),
    MessageTemplate(
        "talos",
        r'error loading module {quote:\\?"}{module:nvidia[-_]peermem}{unquote:\\?"}',
        ("talos-no-peermem",),
        source="talos internal/app/machined/pkg/controllers/runtime/kernel_module_spec.go, Run()",
        open_end=True,
        sample='error loading module "nvidia_peermem": load nvidia_peermem failed: invalid argument',
    ),
)
"""Programs that manage modules, or report the message of a loader."""
