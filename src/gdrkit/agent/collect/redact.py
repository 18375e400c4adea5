"""Remove what looks like a secret from text, always, with or without --anonymize.

The name of the secret is kept: `NGC_API_KEY=(dropped)` shows that there was one. Certificates are public and
are kept; private keys are never opened.
"""

from __future__ import annotations

import re

from .configuration import without_unread
from .module_parameters import DROPPED

NEVER_OPENED = "a private key: never opened"
"""The reason in the manifest. Running as root does not change it."""

_HINT = re.compile(
    rb"key|token|pass|pw|secret|psk|credential|bearer|basic|auth|pin|://|pbkdf2|[$]|cred|community"
)
"""A fast check of small letters: almost no file matches, and the others need no further search."""

_QUOTED = rb""""[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'[^'\n]*'?"""
"""A quotation, up to the end of the line if it has no end: each character is looked at once."""

_VALUE = _QUOTED + rb"""|\\"[^"\n]*"?|[^\s"',;]+(?:[,;](?![\w.-]+=)[^\s"',;]+)*"""
"""Of an assignment; a quotation in JSON that is itself quoted begins with a backslash. What follows a comma
belongs to it, unless that is the next assignment, as among the options of mount(8)."""

_ASSIGNED = re.compile(
    rb"""(?ix)
    (?P<name> (?<![\w.-]) (?= [\w.-]+ (?: \\? ["'}] )? [ \t]* [=:] ) [\w.-]{0,64}?
        (?: passw(?:or)?d | passphrase | secret | token | psk | cred(?:ential)?s? | api[_-]?key | key-data
        | (?: access | auth | private | account | shared | encryption | boot | licen[cs]e | product | master
        | session | app | cipher | luks | seed ) [_-]? key | pin-value | community
        | (?<![A-Za-z0-9]) (?: pin | auth ) (?= \\? ["']? [ \t]* = | \\? ["'] [ \t]* : )
        | (?: wifi | wlan | wep | wpa ) [\w.-]{0,32}? key )
        [\w.-]* (?: \\? ["'}] )? [ \t]* (?: = | : (?!:) ) [ \t]* ) (?P<value> """
    + _VALUE
    + rb")"
)
"""A word that nothing is assigned to is looked at once, and not for each name in it."""

_UPPER_KEY = re.compile(
    rb"(?P<name>\b(?!CONFIG_)[A-Z][A-Z0-9_]*(?<!_P)KEY=)(?P<value>" + _QUOTED + rb"""|[^\s"']+)"""
)
"""Only `=` after KEY, not `:`. The kernel log has `key: <fingerprint>`, which is public and needed.
Partition keys of InfiniBand, as in NCCL_IB_PKEY, are numbers that everybody may know."""

_SHORT = re.compile(
    rb"""(?ix) (?P<name> (?<![\w.-]) [\w.-]{0,64}? (?<!by) (?: pw | pass | pwd (?==[^/]) ) ["']?
        [ \t]* (?: = | (?<=pw) : ) [ \t]* ) (?P<value> """
    + _VALUE
    + rb")"
)
"""Only `=`, and nothing between: the kernel log has `selftest pass: 3`. kickstart(5) and dracut have
`rootpw=`. A shell's PWD is a path."""


_HASH = re.compile(rb"\bgrub\.pbkdf2\.\S+|\$(?:[1567y]|2[abxy]|gy|sha1|md5)\$[\w./,=$+-]{8,}")
"""Hashes of passwords: crypt(5), grub-mkpasswd-pbkdf2(1)."""

_AUTHORIZATION = re.compile(
    rb"(?P<name>\bauthorization[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<value>[^\s\"'][^\n\"']*)", re.IGNORECASE
)
_BEARER = re.compile(
    rb"(?P<name>\b(?:Bearer|Basic)\s+|\b(?i:bearer)\s+(?=[\w.~+/=-]*\d))(?P<value>[\w.~+/=-]{8,})"
)
_BEFORE_PASSWORD = re.compile(
    rb"\b[a-z][a-z0-9+.-]{0,20}://(?=(?P<user>[^\s/:@\[]{0,64}:)(?!\d{1,5}/))", re.IGNORECASE
)
_PASSWORD_CHARACTERS = 512
_END_OF_ADDRESS = re.compile(rb"[\s\"'<>]|\Z")
"""A password in an address goes on to the last @, which it may hold itself."""

_USER_IN_URL = re.compile(
    rb"(?P<name>\b[a-z][a-z0-9+.-]{0,20}://)(?P<value>(?=[^\s/:@]{0,512}\d)[^\s/:@]{16,512})(?=@)",
    re.IGNORECASE,
)
"""A token in place of a user: `https://TOKEN@host/`."""

_WEBHOOK = re.compile(
    rb"(?P<name>\b(?:hooks\.slack\.com/\w{1,16}|discord(?:app)?\.com/api/webhooks|webhook\.office\.com/\w{1,16})/)"
    rb"(?P<value>[^\s\"'<>&]+)",
    re.IGNORECASE,
)
"""Whoever has the address may post: incoming webhooks."""

_URL = re.compile(
    rb"(?P<path>\b[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s\"'<>?]{1,4096})(?P<query>\?[^\s\"'<>]+)?"
)
_PART = re.compile(rb"[^/:]{20,}")
_RANDOM = re.compile(rb"(?=[\w-]{0,256}[a-z])(?=[\w-]{0,256}[A-Z])(?=[\w-]{0,256}\d)[\w-]{20,}")
"""A part of an address with capitals, small letters and digits: whoever has it may post, or read. A digest
has no capitals."""

_WELL_KNOWN = re.compile(
    rb"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|A[KS]IA[0-9A-Z]{16}|nvapi-[\w-]{16,}"
    rb"|hf_\w{20,}|sk-[\w-]{20,}|AIza[\w-]{35}|glsa_\w{20,}|hv[bsr]\.[\w-]{20,}|npm_\w{20,}|xox[abprs]-[\w-]{10,}"
    rb"|[rs]k_(?:live|test)_\w{16,}|ya29\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|AGE-SECRET-KEY-1\w{20,}"
    rb"|dckr_pat_[\w-]{20,}|pypi-[\w-]{30,}|dop_v1_[0-9a-f]{32,}|DHHC-1:\d\d:[\w+/=]{16,}|K10[0-9a-f]{32,}::[\w:.-]+"
    rb"|eyJ[\w+/=-]{10,}(?:\.[\w-]*){0,2})"
)
"""Tokens that show what they are; DHHC-1 is NVMe's (nvme-gen-dhchap-key(1)), K10 that of a K3s cluster. eyJ
begins every JSON object in base64: JWT, and Docker's credentials."""

_PATTERNS = (_AUTHORIZATION, _BEARER, _ASSIGNED, _SHORT, _UPPER_KEY)
"""In this order: of `X_AUTH=Basic VALUE`, an assignment alone would take the word for the value."""
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?"
    rb"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)

_NEVER_OPENED = re.compile(
    r"(?:^|/)(?:[^/]*\.(?:key|priv|pem|p12|pfx|keytab|kdbx)"
    r"|(?:mok|MOK|signing_key|id_(?:rsa|dsa|ecdsa|ed25519))[^/]*"
    r"(?<!\.pub)(?<!\.der)|shadow-?|gshadow-?|\.netrc)\Z"
)
_PUBLIC = ("sys/", "proc/")  # MokListRT is a list of certificates


def is_private(path: str) -> bool:
    """Whether a file has a private key, by its name; such a file is not opened."""
    return not path.startswith(_PUBLIC) and _NEVER_OPENED.search(path) is not None


def without_secrets(data: bytes, path: str = "") -> bytes:
    """The text with the values of secrets replaced. `path`: the file that it is of, relative to the root."""
    data = without_unread(path, data)
    if not _HINT.search(data.lower()):
        return _WELL_KNOWN.sub(DROPPED, data)
    data = _PRIVATE_KEY.sub(DROPPED, data)
    data = _HASH.sub(DROPPED, data)
    data = _without_values(data, *_PATTERNS)
    data = _without_values(_without_passwords(data), _USER_IN_URL, _WEBHOOK)
    data = _URL.sub(_without_tokens, data)
    return _WELL_KNOWN.sub(DROPPED, data)


def _without_values(data: bytes, *patterns: "re.Pattern[bytes]") -> bytes:
    for pattern in patterns:
        data = pattern.sub(_dropped, data)
    return data


def _dropped(match: "re.Match[bytes]") -> bytes:
    return match.group("name") + _in_place_of(match.group("value"))


def _in_place_of(value: bytes) -> bytes:
    quote = value[:1] if value[:1] in (b'"', b"'") else b""
    return quote + DROPPED + quote


def _without_passwords(data: bytes) -> bytes:
    """Addresses without passwords. An expression would look for the end once for each beginning that is in
    sight: it is looked for once."""
    kept, at, end = [], 0, -1
    for found in _BEFORE_PASSWORD.finditer(data):
        begin = found.end("user")
        if end < begin:
            end = _end_of(_END_OF_ADDRESS, data, begin)
        host = data.rfind(b"@", begin + 1, min(end, begin + _PASSWORD_CHARACTERS + 1))
        if found.start() >= at and host >= 0:
            kept += [data[at:begin], DROPPED]
            at = host
    return b"".join((*kept, data[at:]))


def _end_of(ends: "re.Pattern[bytes]", data: bytes, begin: int) -> int:
    found = ends.search(data, begin)
    return found.start() if found else len(data)


def _without_tokens(address: "re.Match[bytes]") -> bytes:
    """An address without its query, and without parts of its path that are random."""
    path = _PART.sub(lambda part: DROPPED if _RANDOM.fullmatch(part[0]) else part[0], address["path"])
    return path + (b"?" + DROPPED if address["query"] else b"")
