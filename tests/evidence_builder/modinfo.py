"""The output of `modinfo` for all module files, which sosreports have instead of the files.

Format: kmod tools/modinfo.c."""

from __future__ import annotations

from tests.evidence_builder.install import FLAGS, Build, srcversion
from tests.evidence_builder.modules import Kernel
from tests.module_builder import make_key


def text(builds: list[Build], kernel: Kernel) -> str:
    """The output for all modules, each with its fields."""
    return "".join(_one(build, kernel) for build in builds if not build.root)


def _one(build: Build, kernel: Kernel) -> str:
    shape = build.shape
    rows = [("filename", f"/lib/modules/{kernel.release}/{build.path}"), ("license", shape.license)]
    if shape.version:
        rows.append(("version", shape.version))
    depends = ",".join(sorted({provider for provider in shape.imports.values() if provider}))
    rows += [("srcversion", srcversion(build)), ("depends", depends)]
    if build.folder.startswith("kernel/drivers"):
        rows.append(("intree", "Y"))
    rows += [
        ("name", shape.name),
        ("vermagic", f"{build.release or kernel.release} {FLAGS[kernel.architecture]}"),
    ]
    if build.signer:
        key = make_key(build.signer)
        serial = f"{key.serial:x}".upper()
        serial = "0" * (len(serial) % 2) + serial
        pairs = ":".join(serial[at : at + 2] for at in range(0, len(serial), 2))
        rows += [
            ("sig_id", "PKCS#7"),
            ("signer", build.signer),
            ("sig_key", pairs),
            ("sig_hashalgo", "sha512"),
        ]
    rows += [("parm", f"{name}:{name} ({kind})") for name, kind in shape.parameters.items()]
    return "".join(f"{name + ':':<16}{value}\n" for name, value in rows)
