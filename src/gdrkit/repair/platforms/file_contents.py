"""Contents of the files that gdrkit writes.

`gdr fix` writes them on a machine, `gdr config` puts them into declarative configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

HEAD = "# written by gdrkit"
PEERMEM_MODULE = "nvidia-peermem"

MODULES_LOAD = "/etc/modules-load.d/nvidia-peermem.conf"
PEERMEM_UNIT = "/etc/systemd/system/gdrkit-peermem.service"
OPENIBD_DROP_IN = "/etc/systemd/system/openibd.service.d/50-gdrkit-peermem.conf"
ACS_UNIT = "/etc/systemd/system/gdrkit-acs.service"
LIMITS = "/etc/security/limits.d/90-gdrkit-memlock.conf"
SYSTEMD_LIMITS = "/etc/systemd/system.conf.d/90-gdrkit-memlock.conf"
NCCL_CONF = "/etc/nccl.conf"


def modules_load(*modules: str) -> str:
    """A file for modules-load.d(5): one module per line."""
    return "\n".join((HEAD, *modules, ""))


def modprobe_options(module: str, parameters: Mapping[str, str]) -> str:
    """A file for modprobe.d(5) that sets a module's parameters."""
    words = " ".join(f"{name}={value}" for name, value in parameters.items())
    return f"{HEAD}\noptions {module} {words}\n"


def modprobe_blacklist(module: str) -> str:
    """A file for modprobe.d(5) that keeps devices from loading a module."""
    return f"{HEAD}\nblacklist {module}\n"


def peermem_unit(modprobe: str = "/sbin/modprobe", rmmod: str = "/sbin/rmmod") -> str:
    """A unit that loads nvidia-peermem after OFED starts, and unloads it before OFED stops.

    nvidia-peermem uses ib_core or ib_uverbs, so openibd cannot restart while it is loaded. PartOf= stops
    this unit with openibd; After= makes it stop first. `modprobe -r` would also unload the driver. kmod is
    below /sbin on every system: the kernel itself calls it there (CONFIG_MODPROBE_PATH), and where /sbin is
    not /usr/sbin, /usr/sbin lacks it. Source: systemd.unit(5), PartOf= and After=.
    """
    return (
        f"{HEAD}\n"
        "[Unit]\n"
        "Description=Load nvidia-peermem after OFED\n"
        "After=openibd.service\n"
        "PartOf=openibd.service\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        f"ExecStart={modprobe} {PEERMEM_MODULE}\n"
        f"ExecStop=-{rmmod} {PEERMEM_MODULE}\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def openibd_drop_in() -> str:
    """A drop-in that starts gdrkit-peermem.service with OFED. Source: systemd.unit(5), Wants=."""
    return f"{HEAD}\n[Unit]\nWants=gdrkit-peermem.service\n"


def acs_unit(commands: Iterable[tuple[str, ...]]) -> str:
    """A unit that runs the commands at each boot: ACS control registers are reset by a reboot."""
    lines = "".join(f"ExecStart={' '.join(command)}\n" for command in commands)
    return (
        f"{HEAD}\n"
        "[Unit]\n"
        "Description=Clear ACS redirection between GPUs and NICs\n"
        "DefaultDependencies=no\n"
        "After=systemd-udev-settle.service local-fs.target\n"
        "Before=openibd.service nvidia-persistenced.service multi-user.target\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        f"{lines}"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def memlock_limits(logins: Iterable[str] = ("*", "root")) -> str:
    """A file for limits.d: see limits.conf(5). `*` does not include root."""
    rows = "".join(f"{who} {kind} memlock unlimited\n" for who in logins for kind in ("soft", "hard"))
    return f"{HEAD}\n{rows}"


def manager_limits() -> str:
    """A drop-in with the default limit of all units: systemd-system.conf(5)."""
    return f"{HEAD}\n[Manager]\nDefaultLimitMEMLOCK=infinity\n"


def unit_limits() -> str:
    """A drop-in for a unit that starts jobs: systemd.exec(5)."""
    return f"{HEAD}\n[Service]\nLimitMEMLOCK=infinity\n"


def grub_argument(words: str) -> str:
    """A file for /etc/default/grub.d, which Debian's update-grub sources.

    sh removes the double quotes, and GRUB's script reads what is left: boot_quoting.py quotes for it."""
    return f'{HEAD}\nGRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {words}"\n'


def nccl_conf(settings: Mapping[str, str]) -> str:
    """A file for NCCL: `NAME=value` lines without blanks around `=` (src/misc/param.cc)."""
    return HEAD + "\n" + "".join(f"{name}={value}\n" for name, value in settings.items())


def commented_out(text: str, lines: Iterable[int]) -> str:
    """A text with these lines (numbered from 1) and their continuation lines commented out."""
    numbers = set(lines)
    out = []
    continued = False
    for number, line in enumerate(text.split("\n"), 1):
        if number in numbers or continued:
            out.append(f"# gdrkit: {line.rstrip(chr(92))}" if line.endswith("\\") else f"# gdrkit: {line}")
            continued = line.endswith("\\")
        else:
            out.append(line)
    return "\n".join(out)
