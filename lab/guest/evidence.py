"""Runs in the guest: what a bundle of it would hold right now, as a table of paths. Standard library only.

Files are read each time unless their status has not changed; contents go to the host by digest, once.
"""

import os
import re

FILES = (
    "proc/cmdline", "proc/modules", "proc/version", "proc/keys", "proc/sys/kernel/tainted",
    "proc/sys/kernel/modules_disabled", "proc/sys/kernel/osrelease", "proc/sys/kernel/ostype",
    "proc/sys/kernel/dmesg_restrict", "proc/cpuinfo", "sys/kernel/security/lockdown", "etc/os-release",
    "etc/hostname", "etc/modules", "etc/depmod.conf", "etc/modprobe.conf", "sys/hypervisor/type",
)
FOLDERS = (  # listed, and every regular file in them read
    "etc/modprobe.d", "run/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d", "usr/local/lib/modprobe.d",
    "etc/modules-load.d", "run/modules-load.d", "usr/lib/modules-load.d", "lib/modules-load.d",
    "etc/depmod.d", "run/depmod.d", "usr/lib/depmod.d", "lib/depmod.d", "usr/local/lib/depmod.d",
)
EFI_NAMES = re.compile(r"^(SecureBoot|SetupMode|MokSBState\w*|MokListRT\w*|MokListXRT\w*|MokListTrusted\w*|db|dbx|dbDefault|PK|KEK)-")
MODULE_FILES = ("initstate", "taint", "version", "srcversion", "refcnt", "coresize")


class Collector:
    """Takes snapshots; remembers contents of files whose size and times have not changed."""

    def __init__(self, run):
        self.run = run
        self.release = os.uname().release
        self.known = {}

    def snapshot(self, keep):
        """Manifest parts: files by path with status and content, links, folders, commands."""
        self.keep = keep
        self.files, self.links, self.folders, self.commands = {}, {}, {}, []
        for path in FILES + ("boot/config-" + self.release,):
            self.file(path)
        for path in FOLDERS:
            self.folder(path)
        self.trust()
        self.sys_module()
        self.tree("usr/lib/modules/" + self.release)
        self.links["lib"] = "usr/lib"
        self.command(["dmesg"], "sos_commands/kernel/dmesg")
        self.command(["uname", "-a"], "sos_commands/kernel/uname_-a")
        return {"files": self.files, "links": self.links, "folders": self.folders, "commands": self.commands}

    def file(self, path):
        try:
            status = os.lstat("/" + path)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            stable = path.startswith("usr/lib/modules/") or path.startswith("boot/")
            if not (stable and self.known.get(path, (0,))[0] == stamp):
                with open("/" + path, "rb") as file:
                    self.known[path] = (stamp, self.keep(file.read()))
            self.files[path] = {"status": "found", "content": self.known[path][1]}
        except (FileNotFoundError, NotADirectoryError):
            self.files[path] = {"status": "absent"}
        except PermissionError as error:
            self.files[path] = {"status": "denied", "why": error.strerror}
        except OSError as error:
            self.files[path] = {"status": "denied", "why": error.strerror or str(error)}

    def names(self, path):
        try:
            names = sorted(os.listdir("/" + path))
        except (FileNotFoundError, NotADirectoryError):
            self.folders[path] = {"status": "absent"}
            return []
        self.folders[path] = {"status": "listed", "names": names}
        return names

    def folder(self, path):
        for name in self.names(path):
            if os.path.isfile("/%s/%s" % (path, name)):
                self.file("%s/%s" % (path, name))

    def tree(self, path):
        for name in self.names(path):
            below = "%s/%s" % (path, name)
            if os.path.islink("/" + below):
                self.links[below] = os.readlink("/" + below)
            elif os.path.isdir("/" + below):
                self.tree(below)
            elif not name.endswith(".bin"):  # depmod's indexes: what they hold stands in the text files too
                self.file(below)

    def trust(self):
        efi = "sys/firmware/efi/efivars"
        self.names("sys/firmware")
        for name in self.names(efi):
            if EFI_NAMES.match(name):
                self.file("%s/%s" % (efi, name))
        for name in self.names("sys/firmware/efi/mok-variables"):
            self.file("sys/firmware/efi/mok-variables/" + name)

    def sys_module(self):
        live = {line.split()[0] for line in open("/proc/modules")}
        for name in self.names("sys/module"):
            base = "sys/module/" + name
            if name in live:
                for attribute in MODULE_FILES:
                    self.file("%s/%s" % (base, attribute))
            if name in live or name == "module":
                self.folder(base + "/parameters")

    def command(self, argv, file):
        code, stdout, stderr = self.run(argv)
        status = "found" if code == 0 else "failed"
        self.files[file] = {"status": "found", "content": self.keep(stdout.encode())}
        self.commands.append({"argv": argv, "file": file, "exit_code": code, "status": status, "stderr": stderr[:500]})
