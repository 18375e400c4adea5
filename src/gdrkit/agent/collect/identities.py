"""Where a text names the machine, its disks, networks and users: patterns for --anonymize.

`name` is what shows that an identity follows, `value` the identity.
"""

from __future__ import annotations

import re
from typing import Dict, Pattern, Tuple

_FIRST = re.compile(rb"(?P<name>\A\s*)(?P<value>[^\s(]\S*)")  # but not (none)
HOSTNAME_AT: Dict[str, Pattern[bytes]] = {
    "etc/hostname": _FIRST,
    "proc/sys/kernel/hostname": _FIRST,
    "proc/sys/kernel/domainname": _FIRST,
    "sos_commands/kernel/uname_-a": re.compile(rb"\A(?P<name>Linux )(?P<value>\S+)"),
}
"""Files with the machine's name, even if it is an ordinary word."""

HOSTNAMES: Tuple[Pattern[bytes], ...] = (
    re.compile(rb"(?P<name>\bHostname set to <)(?P<value>[^>\n]+)"),  # systemd, in the kernel log
    re.compile(
        rb"(?m)^(?P<name>(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.+Z-]{8,32}) )"
        rb"(?P<value>[\w.-]+)(?= [\w./()-]+(?:\[\d+\])?:)"
    ),
    re.compile(
        rb"(?i)(?P<name>\b(?:hostname|host_name|nodename|fqdn)[\"']?[ \t]*[=:][ \t]*[\"']?)"
        rb"(?P<value>(?!localhost\b)[a-z0-9][\w.-]*)"
    ),
    re.compile(
        rb"(?P<name>\bip=(?:(?:\[[^\]\s]{0,64}\]|[^\s:\[]{0,64}):){4})(?P<value>[A-Za-z0-9][\w.-]*)(?=:)"
    ),
)
"""Where journalctl(1), systemd(1) and dracut.cmdline(7) have a host's name."""

TOKENS: Tuple[Tuple[bytes, Pattern[bytes]], ...] = (
    (b"2000-01.invalid:%04d", re.compile(rb"(?P<name>\b[in]qn\.)(?P<value>\d{4}-\d\d\.[^\s,\"';]+)")),
    (
        b"DISK%04d",
        re.compile(rb"(?P<name>/by-(?:id|label|partlabel)/|\bLABEL=)(?P<value>[^\s,\"';/]+)"),
    ),
    (
        b"SSID%04d",
        re.compile(
            rb"(?i)(?P<name>(?<![a-z_])e?ssid[\"']?[ \t]*(?:[=:][ \t]*|(?=[\"']))|\bwifi[ \t]+connect[ \t]+)"
            rb"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;]+)"
        ),
    ),
    (
        b"%032x",
        re.compile(
            rb"(?i)(?P<name>\bmachine[-_]?id[\"']?[ \t]*[=:][ \t]*[\"']?)(?P<value>[0-9a-f]{32})"
            rb"(?![0-9a-f])"
        ),
    ),
    (
        b"(dropped)",
        re.compile(
            rb"(?P<name>\b(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-[\w-]{1,32}|sk-(?:ssh|ecdsa)-[\w.@-]{1,48})"
            rb"[ \t]+)(?P<value>AAAA[\w+/=]+(?:[ \t]+[^\s\"']+)?)"
        ),
    ),
)
"""Replacements, and what they replace: names of iSCSI and NVMe (RFC 3720 3.2.6, NVM Express 4.5), disks,
wireless networks, machine-id(5), and public keys of users (authorized_keys in sshd(8))."""

CGROUP = re.compile(
    rb"(?:\b\d{1,3}:[\w,=-]{0,64}:/|\bunit (?=[\w.@:\\-]{1,100}\.(?:service|scope)\b))[^\s\"]{0,4096}"
)
UNIT = re.compile(
    rb"(?P<name>/|\bunit )(?P<value>[\w.@:\\-]{1,100}?)(?=\.(?:service|scope|slice)(?![\w.-]))"
)
"""A line of cgroups(7), also as a job of `gdr ps`, and the units of systemd in it, which users may name."""
OWN_UNITS = re.compile(
    rb"-|init|system|user|machine|app|session|background|(?:user|session)[-@]c?\d{1,12}|kubepods[\w-]{0,80}"
    rb"|(?:docker|crio|cri-containerd|libpod)-[0-9a-f]{64}|docker|containerd|kubelet|slurmd|slurmstepd|sshd?"
    rb"|(?:nvidia|gdrkit)-[\w-]{1,40}"
)
"""Units that systemd, runtimes and drivers name: systemd.special(7); jobs/running/workload.py reads them."""

ADDRESS_BEFORE = re.compile(
    rb"""(?ix) (?: mac | mac_?addr(?:ess)? | [bh]w_?addr(?:ess)? | lladdr | ether | [be]ssid | bootif
        | ifname | ww[pn]?n | naa | eui | guid | (?:port|node)[_ ]name | zfcp )
        (?: [\s:="'(,.-] | 0x[0-9a-f]{16}, | \d\.\d\.[0-9a-f]{4}, | \w+: ){1,4} \Z"""
)
"""What precedes an address that is written without separators."""
