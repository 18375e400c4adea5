"""Archives for tests, with control over every header field."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from pathlib import Path

SOS_FILES = {
    "sosreport-x/version.txt": b"sosreport: 4.0\n",
    "sosreport-x/sos_commands/kernel/dmesg": b"[    0.000000] Linux version 6.1\n",
    "sosreport-x/etc/os-release": b"ID=debian\n",
    "sosreport-x/etc/modprobe.d/a.conf": b"options a b=1\n",
}


def member(name: str | bytes, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """One member; `fields` set attributes of TarInfo: type, linkname, size."""
    info = tarfile.TarInfo(name if isinstance(name, str) else name.decode("utf-8", "surrogateescape"))
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar_bytes(
    *members: tuple[tarfile.TarInfo, bytes], end: bool = True, form: int = tarfile.GNU_FORMAT
) -> bytes:
    """An archive of the members, with or without the two empty blocks at the end."""
    out = io.BytesIO()
    for info, content in members:
        out.write(info.tobuf(form, "utf-8", "surrogateescape"))
        out.write(content + bytes(-len(content) % 512))
    return out.getvalue() + (bytes(1024) if end else b"")


def sos_bytes(*more: tuple[tarfile.TarInfo, bytes], **options: object) -> bytes:
    """A small sosreport with further members."""
    return tar_bytes(*(member(name, content) for name, content in SOS_FILES.items()), *more, **options)  # type: ignore[arg-type]


def zstd_compress(data: bytes) -> bytes:
    """Compress with the zstd library that this Python has, with a checksum, as zstd(1) does."""
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd
    return bytes(zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}))


PACK = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd_compress}


def write(folder: Path, data: bytes, name: str = "evidence") -> str:
    """Write a file whose name does not show its format; returns its path."""
    (folder / name).write_bytes(data)
    return str(folder / name)
