"""What the running kernel reads of `pci=config_acs=` and `pci=disable_acs_redir=`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdrkit.formats.regex import regex

_FIRST_WITH_CONFIG_ACS = (6, 11)
"""Commit 47c8846a49ba, "PCI: Extend ACS configurability", which is in 6.11 and not in 6.6."""

_FIRST_OF_NVIDIA = (6, 8)
"""linux-nvidia has that commit in 6.8, as reports of a warning in it show: Launchpad bug 2144814."""

_LISTS_REPAIRED = {(6, 12): 23, (6, 13): 11, (6, 14): 2}
_FIRST_WITH_LISTS = (6, 15)
"""Commit 9cf8a952d57b, "PCI/ACS: Fix 'pci=config_acs=' parameter": before it, kernels with config_acs
configure only the first device of a list, for both options. In 6.15, and queued for those releases of the
stable kernels on 8 April 2025."""

_RELEASE = regex(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,4}))?")


def reads_config_acs(release: str) -> bool:
    """Whether a kernel reads config_acs=. Older ones have disable_acs_redir=, since 4.19."""
    found = _RELEASE.match(release)
    if found is None:
        return False
    since = _FIRST_OF_NVIDIA if "nvidia" in release else _FIRST_WITH_CONFIG_ACS
    return (int(found[1]), int(found[2])) >= since


def reads_lists(release: str) -> bool | None:
    """Whether a kernel configures every device of a list, and not only the first; None if its number does
    not show it, as with the kernels of distributions, whose third number does not count stable releases."""
    found = _RELEASE.match(release)
    if found is None:
        return None
    line, patch = (int(found[1]), int(found[2])), int(found[3] or 0)
    if not reads_config_acs(release) or line >= _FIRST_WITH_LISTS:
        return True
    if patch >= _LISTS_REPAIRED.get(line, 1000):
        return True
    return None if patch == 0 else False


def config_acs(masks: Mapping[str, str], present: Iterable[str] = (), drop: Iterable[str] = ()) -> str:
    """The kernel argument that sets these bits, without quotes. `drop`: devices whose former bits are not to
    be kept."""
    entries = [f"{mask}@{address}" for address, mask in masks.items()]
    return _argument("config_acs", entries, {*masks, *drop}, present)


def disable_acs_redir(bridges: Iterable[str], present: Iterable[str] = ()) -> str:
    """The kernel argument that clears request and completion redirect and egress control, without quotes. It
    leaves Upstream Forwarding: kernel-parameters.txt."""
    entries = list(bridges)
    return _argument("disable_acs_redir", entries, set(entries), present)


def _argument(option: str, entries: list[str], replaced: set[str], present: Iterable[str]) -> str:
    """`pci=` with an option of the kernel that has a list of devices.

    `present`: the values of pci= that the running kernel was started with. Their options are repeated, since
    grubby and pbl replace an argument of the same name. Other devices are kept: one pointer in the kernel
    holds the list, so the last option of a name counts. The first entry that matches a device wins:
    drivers/pci/pci.c, pci_setup(), __pci_config_acs()."""
    others = []
    for word in (word for value in present for word in value.split(",")):
        name, _, value = word.partition("=")
        if name == option:
            entries += [one for one in value.split(";") if one.rpartition("@")[2] not in replaced]
        elif word:
            others.append(word)
    devices = ";".join(dict.fromkeys(filter(None, entries)))
    return "pci=" + ",".join((*dict.fromkeys(others), *((f"{option}={devices}",) if devices else ())))
