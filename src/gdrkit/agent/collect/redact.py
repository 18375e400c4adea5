"""Remove what looks like a secret from text, always, with or without --anonymize.

The name of the secret is kept: `NGC_API_KEY=(dropped)` shows that there was one. Certificates are public and
are kept; private keys are never opened.
"""

from __future__ import annotations

import re

DROPPED = b"(dropped)"

NEVER_OPENED = "a private key: never opened"
"""The reason in the manifest. Running as root does not change it."""

_HINT = re.compile(
    rb"key|token|pass|pw|secret|psk|credential|bearer|basic|authorization|://|iscsi:|pbkdf2|[$]|\s-{1,2}u"
    rb"|\s--proxy-u",
    re.IGNORECASE,
)
"""A fast check: almost no file matches, and the others need no further search."""

_ASSIGNED = re.compile(
    rb"""(?ix)
    (?P<name> (?<![\w.-]) [\w.-]{0,64}?
        (?: passw(?:or)?d | passphrase | secret | token | psk | credentials? | api_?key
        | access_?key | auth_?key | private_?key | account_?key | shared_?key | encryption_?key
        | (?: wifi | wlan | wep | wpa ) [\w.-]{0,32}? key ) [\w.-]* ["']? [ \t]* (?: = | : (?!:) ) [ \t]* )
    (?P<value> "[^"\n]*" | '[^'\n]*' | [^\s"',;]+ )"""
)
_UPPER_KEY = re.compile(
    rb"""(?P<name>\b(?!CONFIG_)[A-Z][A-Z0-9_]*KEY=)(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s"']+)"""
)
"""Only `=` after KEY, not `:`. The kernel log has `key: <fingerprint>`, which is public and needed."""

_SHORT = re.compile(
    rb"""(?ix) (?P<name> (?<![\w.-]) [\w.-]{0,64}? (?<!by) (?: pw | pass ) ["']? [ \t]* = [ \t]* )
    (?P<value> "[^"\n]*" | '[^'\n]*' | [^\s"',;]+ )"""
)
"""Only `=`, and nothing between: the kernel log has `selftest pass: 3`. kickstart(5) and dracut have
`rootpw=`."""

_FOLLOWING = re.compile(
    rb"""(?imx) (?P<name> (?: ^ [ \t]* (?: rootpw | bindpw | password (?: _pbkdf2 )? [ \t]+ \S{1,64} )
        (?: [ \t]+ --\w+ )? | (?<!\S) --? (?: [\w-]{0,32} - )? (?: password | passwd | passphrase | passin
        | passout | token | secret | api-?key ) | \b sshpass [ \t]+ -p
        | \b wifi [ \t][^\n]{0,160}? [ \t] password
        | \b iw (?: config )? [ \t][^\n]{0,160}? [ \t] keys? ) [ \t]+ )
        (?P<value> "[^"\n]*" | '[^'\n]*' | [^\s"'-][^\s"']* )"""
)
"""A secret after a blank: options of programs, nmcli(1), iwconfig(8), ldap.conf(5), and in grub.cfg
`password root x`."""

_OF_USER = re.compile(
    rb"""(?ix) (?P<name> (?<!\S) (?: -u | -U | --user | --proxy-user ) [ \t=]* )
        (?P<value> "[^"\n:]*:[^"\n]*" | '[^'\n:]*:[^'\n]*' | [^\s"':-][^\s"':]*:[^\s"']+ )"""
)
"""curl -u user:password."""

_ISCSI = re.compile(rb"(?P<name>\biscsi:)(?P<value>[^\s@/]{1,512})(?=@)", re.IGNORECASE)
"""netroot=iscsi:user:password:user:password@server. Source: dracut.cmdline(7)."""

_HASH = re.compile(rb"\bgrub\.pbkdf2\.\S+|\$(?:[1567y]|2[abxy]|gy|sha1|md5)\$[\w./,=$+-]{8,}")
"""Hashes of passwords: crypt(5), grub-mkpasswd-pbkdf2(1)."""

_AUTHORIZATION = re.compile(
    rb"(?P<name>\bauthorization[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<value>[^\s\"'][^\n\"']*)", re.IGNORECASE
)
_BEARER = re.compile(rb"(?P<name>\b(?:Bearer|Basic)\s+)(?P<value>[\w.~+/=-]{8,})")
_IN_URL = re.compile(
    rb"(?P<name>\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,64}:)(?P<value>[^\s/]{1,512})(?=@)", re.IGNORECASE
)
_WELL_KNOWN = re.compile(
    rb"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|A[KS]IA[0-9A-Z]{16}|nvapi-[\w-]{16,}"
    rb"|hf_\w{20,}|sk-[\w-]{20,}|AIza[\w-]{35}|glsa_\w{20,}|hvs\.[\w-]{20,}|npm_\w{20,}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
_PATTERNS = (
    *(_AUTHORIZATION, _ASSIGNED, _SHORT, _UPPER_KEY, _FOLLOWING),
    *(_OF_USER, _BEARER, _IN_URL, _ISCSI),
)
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
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


def without_secrets(data: bytes) -> bytes:
    """The text with the values of secrets replaced."""
    if not _HINT.search(data):
        return _WELL_KNOWN.sub(DROPPED, data)
    data = _PRIVATE_KEY.sub(DROPPED, data)
    data = _HASH.sub(DROPPED, data)
    for pattern in _PATTERNS:
        data = pattern.sub(_dropped, data)
    return _WELL_KNOWN.sub(DROPPED, data)


def _dropped(match: "re.Match[bytes]") -> bytes:
    value = match.group("value")
    quote = value[:1] if value[:1] in (b'"', b"'") else b""
    return match.group("name") + quote + DROPPED + quote
