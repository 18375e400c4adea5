"""Remove what looks like a secret from text, always, with or without --anonymize.

The name of the secret is kept: `NGC_API_KEY=(dropped)` shows that there was one. Certificates are public and
are kept; private keys are never opened.
"""

from __future__ import annotations

import re

from .kernel_arguments import DROPPED, arguments_in_file, arguments_in_log
from .shell_commands import commands_in_file

NEVER_OPENED = "a private key: never opened"
"""The reason in the manifest. Running as root does not change it."""

_HINT = re.compile(
    rb"key|token|pass|pw|secret|psk|credential|bearer|basic|auth|cookie|pin-value|login|mysql|ipmi|://|iscsi:"
    rb"|pbkdf2|[$]|\s-{1,2}u|\s--proxy-u|cred|pin|community|audit|<<<|\||install|remove|exec",
    re.IGNORECASE,
)
"""A fast check: almost no file matches, and the others need no further search."""

_QUOTED = rb""""[^"\\\n]*(?:\\.[^"\\\n]*)*"?|'[^'\n]*'?"""
"""A quotation, up to the end of the line if it has no end: each character is looked at once."""

_VALUE = _QUOTED + rb"""|\\"[^"\n]*"?|[^\s"',;]+(?:[,;](?![\w.-]+=)[^\s"',;]+)*"""
"""Of an assignment; a quotation in JSON that is itself quoted begins with a backslash. What follows a comma
belongs to it, unless that is the next assignment, as among the options of mount(8)."""

_ASSIGNED = re.compile(
    rb"""(?ix)
    (?P<name> (?<![\w.-]) [\w.-]{0,64}?
        (?: passw(?:or)?d | passphrase | secret | token | psk | cred(?:ential)?s? | api[_-]?key | key-data
        | (?: access | auth | private | account | shared | encryption | boot | licen[cs]e | product | master
        | session | app | cipher | luks | seed ) [_-]? key | pin-value | community
        | (?<![A-Za-z0-9]) (?: pin | auth ) (?= \\? ["']? [ \t]* = | \\? ["'] [ \t]* : )
        | (?: wifi | wlan | wep | wpa ) [\w.-]{0,32}? key )
        [\w.-]* (?: \\? ["'}] )? [ \t]* (?: = | : (?!:) ) [ \t]* ) (?P<value> """
    + _VALUE
    + rb")"
)
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

_FOLLOWING = re.compile(
    rb"""(?imx) (?P<name> (?: ^ [ \t]* password (?: _pbkdf2 )? [ \t]+ \S{1,64} (?: [ \t]+ --\w+ )?
        | (?<!\S) (?: rootpw | bindpw ) (?: [ \t]+ --\w+ )? | (?<!\S) password (?= [ \t]+ ["'] )
        | (?<!\S) --? (?: [\w-]{0,32} - )? (?: password | passwd | passphrase | passin | passout | pass
        | pw | pin | auth | cred | credentials? | token | secret | key )
        | \b (?: wandb | huggingface-cli | hf [ \t] auth | ngc ) [ \t] login
        | \b login [ \t]+ \S{1,64} [ \t]+ password | \b wifi [ \t][^\n]{0,160}? [ \t] password
        | \b iw (?: config )? [ \t][^\n]{0,160}? [ \t] keys? | \b ssh-keygen [ \t][^\n]{0,160}? -N
        | \b ipmi\w{0,16} [ \t][^\n]{0,160}? [ \t] -P ) [ \t]+
        | (?: \b sshpass | \b mysql\w{0,16} (?: [ \t][^\n]{0,160}? )?
        | \b (?: docker | podman | nerdctl | buildah | skopeo | helm ) [ \t] (?: registry [ \t] )? login
        (?: [ \t][^\n]{0,160}? )? ) [ \t]+ -p [ \t]* )
        (?P<value> """
    + _QUOTED
    + rb"""| [^\s"'-][^\s"']* )"""
)
"""A secret after a blank: options of programs, nmcli(1), iwconfig(8), ldap.conf(5), netrc(5), and in
grub.cfg `password root x`."""

_LISTED = re.compile(
    rb"""(?ix) (?P<name> \b name \\?["']? [ \t]* : [ \t]* \\?["']? [\w.-]{0,64}?
        (?<!_p) (?: key | token | secret | passw(?:or)?d | pass | psk | credentials? )
        \\?["']? [ \t]{0,64} ,? \s{0,64} \\?["']? value \\?["']? [ \t]* : [ \t]*
        | (?<![\w.-]) [\w.-]{0,256}? (?: secret | token | passw(?:or)?d | api_?key | credentials? ) \w{0,32}
        [ ] set [ ] (?: (?: by | from ) [ ] environment [ ] )? to [ ] ) (?P<value> """
    + _VALUE
    + rb")"
)
"""In the env: of a pod, and in NCCL's log."""

_OF_USER = re.compile(
    rb"""(?ix) (?P<name> (?<!\S) (?: -u | -U | --user | --proxy-user ) [ \t=]* )
        (?P<value> "[^"\n:]*:[^"\n]*"? | '[^'\n:]*:[^'\n]*'? | [^\s"':-][^\s"':]*:[^\s"']+ )"""
)
"""curl -u user:password."""

_ISCSI = re.compile(rb"(?P<name>\biscsi:)(?P<value>[^\s@/]{1,512})(?=@)", re.IGNORECASE)
"""netroot=iscsi:user:password:user:password@server. Source: dracut.cmdline(7)."""

_HASH = re.compile(rb"\bgrub\.pbkdf2\.\S+|\$(?:[1567y]|2[abxy]|gy|sha1|md5)\$[\w./,=$+-]{8,}")
"""Hashes of passwords: crypt(5), grub-mkpasswd-pbkdf2(1)."""

_AUTHORIZATION = re.compile(
    rb"(?P<name>\bauthorization[\"']?[ \t]*[:=][ \t]*[\"']?)(?P<value>[^\s\"'][^\n\"']*)", re.IGNORECASE
)
_BEARER = re.compile(
    rb"(?P<name>\b(?:Bearer|Basic)\s+|\b(?i:bearer)\s+(?=[\w.~+/=-]*\d))(?P<value>[\w.~+/=-]{8,})"
)
_HEADER = re.compile(
    rb"(?P<name>\bx-[\w-]{0,32}(?:auth|key|token|secret|pass)[\w-]{0,32}[\"']?[ \t]*:[ \t]*)"
    rb"(?P<value>[^\n\"']+)",
    re.I,
)
_PIPED = re.compile(rb"(?P<name>\b(?:echo|printf)[ \t]+)(?P<value>[^|;&\n]{1,1024})(?=\|(?!\|))")
_HERE = re.compile(rb"(?P<name><<<[ \t]*)(?P<value>" + _QUOTED + rb"""|[^\s"';|&]+)""")
"""What a program reads: `echo PASSWORD | sudo -S`."""

_AUDITED = re.compile(rb"\baudit\b[^\n]*")
_OF_COMMAND = re.compile(rb"(?P<name>\b(?:proctitle|cmd|data|a\d{1,4})=)(?P<value>\"[^\"\n]*\"?|[^\s\"]+)")
"""Words of a command in the audit records that the kernel logs, also in hexadecimal. Source: the dictionary
of fields of linux-audit/audit-documentation."""

_COOKIE = re.compile(rb"(?P<name>\bcookie2?:[ \t]*)(?P<value>[^\s=\"';]{1,128}=[^\n\"']*)", re.IGNORECASE)
_REGISTRY = re.compile(rb"(?P<name>\"auth\\?\"[ \t]*:[ \t]*)(?P<value>\\?\"[\w+/=-]{12,}\\?\"?)")
"""config.json of Docker: user:password in base64."""

_IN_URL = re.compile(
    rb"(?P<name>\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@\[]{0,64}:)(?P<value>(?!\d{1,5}/)[^\s\"'<>]{1,512})(?=@)",
    re.IGNORECASE,
)
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
_RANDOM = re.compile(rb"(?=[\w-]{0,256}[a-z])(?=[\w-]{0,256}[A-Z])(?=[\w-]{0,256}\d)[\w-]{20,}")
"""A part of an address with capitals, small letters and digits: whoever has it may post, or read. A digest
has no capitals."""

_WELL_KNOWN = re.compile(
    rb"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|A[KS]IA[0-9A-Z]{16}|nvapi-[\w-]{16,}"
    rb"|hf_\w{20,}|sk-[\w-]{20,}|AIza[\w-]{35}|glsa_\w{20,}|hv[bsr]\.[\w-]{20,}|npm_\w{20,}|xox[abprs]-[\w-]{10,}"
    rb"|[rs]k_(?:live|test)_\w{16,}|ya29\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|AGE-SECRET-KEY-1\w{20,}"
    rb"|eyJ[\w+/=-]{10,}(?:\.[\w-]*){0,2})"
)
"""Tokens that show what they are. eyJ begins every JSON object in base64: JWT, and Docker's credentials."""

_PATTERNS = (
    *(_AUTHORIZATION, _REGISTRY, _LISTED, _ASSIGNED, _SHORT, _UPPER_KEY, _FOLLOWING),
    *(_OF_USER, _BEARER, _HEADER, _COOKIE, _PIPED, _HERE, _WEBHOOK, _IN_URL, _USER_IN_URL, _ISCSI),
)
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
    data = arguments_in_log(arguments_in_file(path, data))
    data = commands_in_file(path, data)
    if not _HINT.search(data):
        return _WELL_KNOWN.sub(DROPPED, data)
    data = _PRIVATE_KEY.sub(DROPPED, data)
    data = _HASH.sub(DROPPED, data)
    for pattern in _PATTERNS:
        data = pattern.sub(_dropped, data)
    data = _URL.sub(_without_tokens, data)
    data = _AUDITED.sub(lambda line: _OF_COMMAND.sub(_dropped, line[0]), data)
    return _WELL_KNOWN.sub(DROPPED, data)


def _dropped(match: "re.Match[bytes]") -> bytes:
    value = match.group("value")
    quote = value[:1] if value[:1] in (b'"', b"'") else b""
    return match.group("name") + quote + DROPPED + quote


def _without_tokens(address: "re.Match[bytes]") -> bytes:
    """An address without its query, and without parts of its path that are random."""
    parts = re.split(rb"([/:])", address["path"])
    path = b"".join(DROPPED if _RANDOM.fullmatch(part) else part for part in parts)
    return path + (b"?" + DROPPED if address["query"] else b"")
