"""Broken guests for `gdr fix` to repair, as rows: modules, files, arguments for gdr, expected results."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from lab.case import Case, ModuleFile, one

FILE = "nvidia-peermem"  # with a dash, like NVIDIA's own file
_GPU, _OFED = one("gpu", key="lab"), one("ofed", key="lab")
KEY = ("--key", "/etc/lab-keys/lab.key", "--certificate", "/etc/lab-keys/lab.der")
PASSWORD = "a password of the lab"
BY_NAME = ("/usr/sbin/modprobe", "nvidia-peermem")
AS_BOOT = ("/usr/sbin/modprobe", "-b", "nvidia-peermem")


class Text(Struct, frozen=True, omit_defaults=True):
    """A text file with its mode, or a link."""

    text: str = ""
    mode: int = 0o644
    link: str = ""


class Scenario(Struct, frozen=True, kw_only=True):
    """One way to break a guest, and the expected results."""

    name: str
    why: str
    modules: tuple[ModuleFile, ...]
    texts: tuple[tuple[str, Text], ...] = ()
    fix: tuple[str, ...] = ("--module",)  # arguments for gdr fix
    probe: tuple[str, ...] | str = BY_NAME  # "boot": all of modules-load.d
    secrets: tuple[tuple[str, str], ...] = ()  # options that take a file descriptor, and its contents
    kill: int = 0  # kill -9 before this line of gdrkit/repair/apply
    kill_undo: int = 0
    then: tuple[str, ...] = ()  # gdr's arguments after the first attempt
    fails: bool = True  # whether modprobe fails before the repair
    reason: str | None = None  # the reason that gdr modprobe gives before; None: not checked
    loads: bool = True  # whether nvidia-peermem is loaded afterwards
    apply_code: int = 0  # gdr's exit code; -9 if it is killed
    half: str = ""  # "first" if there is a reboot in between


def _peermem(**changes: Any) -> ModuleFile:
    return one("peermem-full", file=FILE, **changes)


_WHOLE = (_peermem(), _GPU, _OFED)
_INSTALL = "install nvidia_peermem /bin/false\n"


def _text(path: str, text: str, mode: int = 0o644) -> tuple[tuple[str, Text], ...]:
    return ((path, Text(text=text, mode=mode)),)


PLAIN = (
    Scenario(name="blacklisted", why="modules-load.d obeys blacklists", modules=_WHOLE, loads=True,
             texts=_text("/etc/modprobe.d/blacklist.conf", "# ours\nblacklist nvidia-peermem\n", 0o600),
             probe="boot", fails=False),
    Scenario(name="install-line", why="/bin/false runs instead of the module", modules=_WHOLE,
             texts=_text("/etc/modprobe.d/site.conf", f"options nouveau modeset=0\n{_INSTALL}"),
             reason="install-override"),
    Scenario(name="install-line-of-a-vendor", why="outside /etc: overridden by a file of the same name",
             modules=_WHOLE, texts=_text("/usr/lib/modprobe.d/vendor.conf", _INSTALL),
             reason="install-override"),
    Scenario(name="install-line-goes-on", why="a backslash joins two lines", modules=_WHOLE,
             texts=_text("/etc/modprobe.d/long.conf",
                         "install nvidia_peermem \\\n  /bin/false\nblacklist nouveau\n", 0o640),
             reason="install-override"),
    Scenario(name="two-files", why="one in /etc, one from a vendor", modules=_WHOLE,
             texts=(*_text("/etc/modprobe.d/a.conf", _INSTALL),
                    *_text("/usr/lib/modprobe.d/b.conf", f"blacklist nvidia_peermem\n{_INSTALL}")),
             reason="install-override"),
    Scenario(name="a-link", why="the file in modprobe.d is a link", modules=_WHOLE,
             texts=(*_text("/usr/share/lab/peermem.conf", _INSTALL),
                    ("/etc/modprobe.d/linked.conf", Text(link="/usr/share/lab/peermem.conf"))),
             reason="install-override"),
    Scenario(name="bad-parameter", why="an option that the module cannot read", modules=_WHOLE,
             texts=_text("/etc/modprobe.d/options.conf", "options nvidia_peermem peerdirect_support=on\n"),
             reason="module-bad-parameter"),
    Scenario(name="not-at-boot", why="nothing loads it", modules=_WHOLE, probe="boot", fails=False,
             fix=("--steps", "load-peermem")),
    Scenario(name="old-module", why="nv_peer_mem is installed and loaded at boot",
             modules=(*_WHOLE, one("plain", file="nv_peer_mem")), probe="boot", fails=False,
             texts=_text("/etc/modules-load.d/old.conf", "nv_peer_mem\n"),
             fix=("--steps", "remove-nv-peer-mem,load-peermem")),
    Scenario(name="stub-at-boot", why="a stub is loaded at boot; dma-buf does not need it", loads=False,
             modules=(one("peermem-stub", file=FILE),), probe="boot",
             texts=_text("/etc/modules-load.d/gpu.conf", "# at boot\nnvidia-peermem\n"),
             fix=("--steps", "use-dmabuf"), reason="peermem-stub"),
    Scenario(name="a-reboot-is-due", why="it does not happen, so the change is undone",
             modules=_WHOLE, fails=False, fix=("--steps", "persist-peermem,override-topology-check"),
             apply_code=1),
    Scenario(name="a-command-fails", why="there is no grub, so the change is undone",
             modules=_WHOLE, fails=False, fix=("--steps", "persist-peermem,iommu-passthrough"),
             apply_code=2),
    Scenario(name="killed-and-resumed", why="kill -9 while applying", modules=_WHOLE, apply_code=-9,
             kill=700, texts=_text("/etc/modprobe.d/site.conf", _INSTALL), then=("fix", "--resume", "--yes"),
             reason="install-override"),
    Scenario(name="killed-and-undone", why="kill -9 while applying, then undo", modules=_WHOLE,
             apply_code=-9, kill=600, texts=_text("/etc/modprobe.d/site.conf", _INSTALL), loads=False,
             reason="install-override"),
    Scenario(name="undo-killed", why="kill -9 while undoing", modules=_WHOLE, kill_undo=300,
             texts=_text("/etc/modprobe.d/site.conf", _INSTALL), reason="install-override"),
)  # fmt: skip

SECURE = (
    Scenario(name="unsigned", why="Secure Boot refuses it", modules=(_peermem(key=""), _GPU, _OFED),
             fix=("--module", *KEY), reason="module-unsigned"),
    Scenario(name="unsigned-xz", why="packed", modules=(_peermem(key="", compression="xz"), _GPU, _OFED),
             fix=("--module", *KEY), reason="module-unsigned"),
    Scenario(name="unsigned-zst", why="packed", modules=(_peermem(key="", compression="zst"), _GPU, _OFED),
             fix=("--module", *KEY), reason="module-unsigned"),
    Scenario(name="unknown-key", why="signed with another key",
             modules=(_peermem(key="unknown"), _GPU, _OFED), fix=("--module", *KEY),
             reason="module-unknown-key"),
    Scenario(name="driver-unsigned", why="its dependency is refused", modules=(
             _peermem(key="lab"), one("gpu", key="unknown"), one("ofed", key="")),
             fix=("--module", *KEY), reason="dependency-failed"),
    Scenario(name="sealed-outside", why="signature after the compressed data: refused, nothing is changed",
             modules=(_peermem(key="", compression="xz", seal="lab"), _GPU, _OFED), fix=("--module", *KEY),
             reason="module-corrupt", apply_code=2, loads=False),
    Scenario(name="protected-key", why="SHA-512, and an encrypted key",
             modules=(_peermem(key=""), _GPU, _OFED), secrets=(("--key-password-fd", PASSWORD),),
             fix=("--module", "--key", "/etc/lab-keys/protected.key", *KEY[2:], "--digest", "sha512"),
             reason="module-unsigned"),
    Scenario(name="blacklisted-and-unsigned", why="two faults at once",
             modules=(_peermem(key=""), _GPU, _OFED), fix=("--module", *KEY), probe=BY_NAME,
             texts=_text("/etc/modprobe.d/site.conf", f"blacklist nvidia-peermem\n{_INSTALL}"),
             reason="install-override"),
    Scenario(name="signing-killed", why="kill -9 between signatures", apply_code=-9, kill=2500,
             modules=(_peermem(key=""), one("gpu", key=""), one("ofed", key="")), fix=("--module", *KEY),
             then=("fix", "--resume", "--yes"), reason="dependency-failed"),
)  # fmt: skip

MADE_KEY = (
    Scenario(name="key-made-here", why="gdr makes a key; after a reboot the firmware has it",
             modules=(_peermem(key="", compression="xz"), one("gpu", key=""), one("ofed", key="")),
             secrets=(("--mok-password-fd", PASSWORD),), apply_code=1, half="first",
             reason="dependency-failed"),
)  # fmt: skip


def as_case(scenario: Scenario) -> Case:
    """A case with the modules of a scenario."""
    return Case(name=scenario.name, modules=scenario.modules, real_names=True, load="{module:peermem}")
