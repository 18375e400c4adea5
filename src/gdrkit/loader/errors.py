"""Errors of the kernel in the C library's words, as modprobe prints them. PURE.

Source: Linux include/uapi/asm-generic/errno*.h; GNU C library, strerror(3), "C" locale.
"""

from __future__ import annotations

EPERM, ENOENT, EIO, ENOEXEC, EEXIST, EINVAL = 1, 2, 5, 8, 17, 22
EBADMSG, EKEYREJECTED = 74, 129

_WORDS = {
    EPERM: "Operation not permitted",
    # modprobe's own words: kmod tools/modprobe.c, insmod_insert()
    ENOENT: "Unknown symbol in module, or unknown parameter (see dmesg)",
    EIO: "Input/output error",
    ENOEXEC: "Exec format error",
    EINVAL: "Invalid argument",
    28: "No space left on device",
    34: "Numerical result out of range",
    EBADMSG: "Bad message",
    EKEYREJECTED: "Key was rejected by service",
}


def words_of(errno: int) -> str:
    """The words for an error of module loading."""
    return _WORDS.get(errno, f"Unknown error {errno}")
