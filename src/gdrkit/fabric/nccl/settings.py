"""NCCL's variables as it reads them, as far as they affect paths and GPUDirect RDMA.

Source: NCCL src/misc/param.cc, ncclLoadParam(): strtoll() with base 0, so that a word is 0 (the default from
2.32 on) and an empty value is the default; src/graph/paths.cc, ncclGetLevel(); topo.cc,
getNetDevsPolicyOnce().
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from gdrkit.formats.whole_number import integer
from gdrkit.programs.nccl import settings as nccl_levels
from gdrkit.programs.nccl.releases import VARIABLE_SINCE, VARIABLE_UNTIL, Release


class Ignored(Struct, frozen=True):
    """A variable that is set and has no effect, and why."""

    name: str
    value: str
    why: str


class Settings(Struct, frozen=True):
    """Variables as this version reads them. None: not set, or unknown to this version."""

    gdr_level: str | None = None
    gdr_read: int = -2
    gdr_c2c: int | None = None
    gdr_mlopart: int = 0
    dmabuf: bool = True
    ib_disable: bool = False
    ib_hca: str = ""
    net: str = ""
    p2p_level: str | None = None
    shm_disable: bool = False
    net_disable_intra: bool = False
    nvb_disable: bool = False
    pxn_disable: bool = False
    pxn_c2c: bool = False
    merge_nics: bool = True
    merge_level: str = "PORT"
    force_merge: str = ""
    nets_policy: str = ""  # "", "ALL", or a number
    scatter_start_net: bool = False
    ignored: tuple[Ignored, ...] = ()


MERGE_LEVELS = ("LOC", "PORT", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
"""topo.cc, nicPathKvList: matched by prefix; anything else counts as LOC."""


MODELLED = frozenset(
    ("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ", "NCCL_NET_GDR_C2C", "NCCL_NET_GDR_MLOPART",
     "NCCL_DMABUF_ENABLE", "NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE",
     "NCCL_SHM_DISABLE", "NCCL_NET_DISABLE_INTRA", "NCCL_NVB_DISABLE", "NCCL_PXN_DISABLE", "NCCL_PXN_C2C",
     "NCCL_IB_MERGE_NICS", "NCCL_NETDEVS_POLICY", "NCCL_TOPO_SCATTER_START_NET")
)  # fmt: skip
"""Variables whose every value is modelled."""
KNOWN = MODELLED | {"NCCL_NET", "NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE"}
"""Variables that can change what is modelled."""


def not_modelled(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The settings that this model does not cover, or whose value it does not cover: see merge.py."""
    followed = {"NCCL_NET": ("", "ib", "socket"), "NCCL_NET_MERGE_LEVEL": ("loc", "port")}
    return tuple(
        f"{name}={value}"
        for name, value in environment.items()
        if name not in MODELLED and value.lower() not in followed.get(name, ())
    )


def settings(rules: Release, environment: Mapping[str, str]) -> Settings:
    """The settings of a version in an environment, and the variables that it ignores. Never fails, as
    NCCL."""
    reader = _SettingsReader(rules, environment)
    return Settings(
        gdr_level=reader.level("NCCL_NET_GDR_LEVEL"),
        gdr_read=reader.number("NCCL_NET_GDR_READ", -2),
        gdr_c2c=None if rules.gdr_c2c is None else reader.number("NCCL_NET_GDR_C2C", rules.gdr_c2c),
        gdr_mlopart=reader.number("NCCL_NET_GDR_MLOPART", 0) if rules.mlopart else 0,
        dmabuf=reader.number("NCCL_DMABUF_ENABLE", 1) != 0,
        ib_disable=reader.number("NCCL_IB_DISABLE", 0) != 0,
        ib_hca=reader.text("NCCL_IB_HCA"),
        net=reader.text("NCCL_NET"),
        p2p_level=reader.p2p_level(),
        shm_disable=reader.number("NCCL_SHM_DISABLE", 0) == 1,
        net_disable_intra=reader.number("NCCL_NET_DISABLE_INTRA", 0) == 1,
        nvb_disable=reader.number("NCCL_NVB_DISABLE", 0) != 0,
        pxn_disable=reader.number("NCCL_PXN_DISABLE", 0) == 1,
        pxn_c2c=rules.pxn_c2c is not None and reader.number("NCCL_PXN_C2C", rules.pxn_c2c) != 0,
        merge_nics=reader.number("NCCL_IB_MERGE_NICS", 1) != 0,
        merge_level=reader.merge_level(),
        force_merge=reader.text("NCCL_NET_FORCE_MERGE"),
        nets_policy=reader.nets_policy(),
        scatter_start_net=reader.number("NCCL_TOPO_SCATTER_START_NET", 0) != 0,
        ignored=reader.all_ignored(),
    )


def _why_unread(name: str, rules: Release) -> str:
    if name in rules.removed:
        return f"not read since {VARIABLE_UNTIL[name]}"
    return f"unknown before {VARIABLE_SINCE[name]}"


class _SettingsReader:
    """Reads variables one by one and notes those without effect."""

    def __init__(self, rules: Release, environment: Mapping[str, str]) -> None:
        self.rules = rules
        unknown = VARIABLE_SINCE.keys() - rules.variables
        self.environment = {name: v for name, v in environment.items() if name not in unknown}
        self.ignored = [
            Ignored(name, value, _why_unread(name, rules))
            for name, value in environment.items()
            if name in unknown
        ]

    def text(self, name: str) -> str:
        return self.environment.get(name, "")

    def number(self, name: str, default: int) -> int:
        value = self.text(name)
        if not value:
            return default
        read = integer(value)
        if read is not None:
            return read
        self._ignore(name, "a word is read as 0" if self.rules.words_are_zero else "a word is ignored")
        return 0 if self.rules.words_are_zero else default

    def level(self, name: str) -> str | None:
        if name not in self.environment:
            return None
        level = nccl_levels.level(self.environment[name], self.rules)
        if level is None:
            known = " ".join(nccl_levels.levels(self.rules))
            self._ignore(name, f"unrecognized, the default applies; valid: {known} and numbers")
        return level

    def p2p_level(self) -> str | None:
        """The level; NCCL_P2P_DISABLE=1 sets one, too, and takes precedence: ncclGetLevel()."""
        if self.number("NCCL_P2P_DISABLE", 0) == 1:
            if "NCCL_P2P_LEVEL" in self.environment:
                self._ignore("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE=1 takes precedence")
            return "LOC"
        return self.level("NCCL_P2P_LEVEL")

    def merge_level(self) -> str:
        value = self.environment.get("NCCL_NET_MERGE_LEVEL")
        if value is None:
            return "PORT" if self.rules.merges == "topology" else "LOC"
        known = (level for level in MERGE_LEVELS if level == "PORT" or level in self.rules.path_types)
        level = next((level for level in known if value.startswith(level)), None)
        if level is None:
            self._ignore("NCCL_NET_MERGE_LEVEL", "unrecognized, so it counts as LOC: no NIC is merged")
        return level or "LOC"

    def nets_policy(self) -> str:
        value = self.text("NCCL_NETDEVS_POLICY")
        if value.upper() in ("", "AUTO"):
            return ""
        if value.upper() == "ALL":
            return "ALL"
        match = re.match(r"max:\s*\+?(\d+)", value, re.IGNORECASE)
        if match and int(match[1]) > 0:
            return match[1]
        self._ignore("NCCL_NETDEVS_POLICY", "unrecognized, AUTO applies")
        return ""

    def _ignore(self, name: str, why: str) -> None:
        self.ignored.append(Ignored(name, self.environment.get(name, ""), why))

    def all_ignored(self) -> tuple[Ignored, ...]:
        return tuple(self.ignored)
