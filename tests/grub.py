"""The arguments that GRUB gives the kernel, by the machine's own grub-mkconfig and grub-emu."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.system_programs import needs

MKCONFIG, TEMPLATE = Path("/usr/sbin/grub-mkconfig"), Path("/etc/grub.d/10_linux")
needs_grub = needs("grub-mkconfig", "grub-emu")

_PROBE = """#!/bin/sh
case "$*" in
  *target=device*) echo /dev/sda1 ;;
  *target=fs_uuid*) echo 1234-abcd ;;
  *) echo ext2 ;;
esac
"""
"""grub-probe of a machine with one disk: a container has none that the real one could find."""

_EMULATED = """function linux { for a in "$@"; do echo "<[$a]>"; done; exit; }
function load_video { true; }
set timeout=0
set default="%s"
"""
"""grub-emu has no `linux` command. This one prints what the real one is given, and ends the emulator."""


def grub_config(defaults: Mapping[str, str], folder: Path) -> str:
    """What grub-mkconfig and 10_linux make of files in /etc/default. Only paths are replaced."""
    etc, boot, probe = folder / "etc", folder / "boot", folder / "grub-probe"
    for path in (etc / "default/grub.d", etc / "grub.d", boot):
        path.mkdir(parents=True)
    for name, text in defaults.items():
        (etc / "default" / name).write_text(text)
    (boot / "vmlinuz-6.1.0-9-amd64").write_text("a kernel")
    probe.write_text(_PROBE)
    probe.chmod(0o755)
    template = etc / "grub.d/10_linux"
    template.write_text(TEMPLATE.read_text().replace("/boot/vmlinu", f"{boot}/vmlinu"))
    template.chmod(0o755)
    script = folder / "grub-mkconfig"
    script.write_text(
        re.sub(r"(?m)^grub_probe=.*$", f"export grub_probe={probe}",
               re.sub(r"(?m)^sysconfdir=.*$", f"sysconfdir={etc}", MKCONFIG.read_text()))
    )  # fmt: skip
    done = subprocess.run(
        ["env", "EUID=0", "sh", script, "-o", folder / "grub.cfg"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return (folder / "grub.cfg").read_text()


def kernel_arguments(config: str, folder: Path, entry: str = "0") -> list[str]:
    """What an entry of grub.cfg gives the kernel, after the kernel's own path, by grub-emu."""
    emulated = folder / "emulated"
    emulated.mkdir()
    (emulated / "grub.cfg").write_text(_EMULATED % entry + config)
    terminal = {**os.environ, "TERM": "dumb"}
    done = subprocess.run(
        ["grub-emu", "-d", emulated],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, env=terminal, timeout=60,
    )  # fmt: skip
    lines = re.sub(r"[\r\n]", "", done.stdout)  # long arguments are wrapped
    shown = re.findall(r"<\[(.*?)\]>", lines)
    assert shown, done.stdout
    return shown[1:]
