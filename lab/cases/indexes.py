"""depmod's compiled indexes: modprobe reads them, and never the text beside them."""

from __future__ import annotations

from lab.case import Case, ModuleFile, one

_Steps = tuple[tuple[str, ...], ...]
_TREE = "/usr/lib/modules/KERNEL"
_BUSYBOX = "/bin/busybox"
_DEPMOD = (("/usr/sbin/depmod", "-a"),)


def _gone(index: str) -> _Steps:
    return ((_BUSYBOX, "rm", f"{_TREE}/modules.{index}.bin"),)


def _cut(index: str, size: int) -> _Steps:
    file = f"{_TREE}/modules.{index}.bin"
    return ((_BUSYBOX, "truncate", "-s", str(size), file),)


def _case(name: str, before: _Steps, why: str = "", after: _Steps = _DEPMOD, **more: str) -> Case:
    return Case(
        name=f"index-{name}", why=why, modules=(one("aliased"),), load=more.get("load", "{module:aliased}"),
        judged="{module:aliased}", before=before, after=after, groups=("modprobe",),
        config=more.get("config", ""),
        open_because="what lies behind the end of the index" if name.endswith("behind-header") else "",
    )  # fmt: skip


def _overwritten(index: str, text: str) -> _Steps:
    file = f"{_TREE}/modules.{index}.bin"
    return ((_BUSYBOX, "sh", "-c", f"printf '{text}' | dd of={file} conv=notrunc 2>/dev/null"),)


_OTHER_MAGIC = "\\377\\377\\377\\377"
_STATES = {"gone": _gone, "of-another-kind": lambda index: _overwritten(index, _OTHER_MAGIC)}
_ASKED = {
    "alias": "{alias:handle}",
    "symbols": "symbol:of_nothing_at_all",
    "builtin": "unix",
    "builtin.alias": "net-pf-1",
}


def _each() -> tuple[Case, ...]:
    """Each index in each state, asked for what only it knows."""
    return tuple(
        _case(f"{index.replace('.', '-')}-{state}", before(index), load=asked)
        for index, asked in _ASKED.items()
        for state, before in _STATES.items()
        if (index, state) != ("alias", "gone")
    )


def _wild(name: str, load: str, *modules: ModuleFile, config: str = "") -> Case:
    return Case(
        name=f"index-wild-{name}", modules=modules, load=load, judged="{module:wild}", config=config,
        groups=("modprobe",),
    )  # fmt: skip


_BOTH = (one("wild"), one("wilder"))

CASES = (
    *_each(),
    _case("alias-cut-behind-header", _cut("alias", 16), load="{alias:handle}"),
    _case("builtin-cut-in-header", _cut("builtin", 8), load="unix"),
    _case("alias-of-another-kind-by-name", _overwritten("alias", _OTHER_MAGIC)),
    _case("of-another-kind", _overwritten("dep", _OTHER_MAGIC)),
    _case("of-another-version", _overwritten("dep", "\\260\\007\\364\\127\\000\\001\\000\\000")),
    _case(
        "alias-older",
        (
            (_BUSYBOX, "cp", f"{_TREE}/modules.alias.bin", "/lab/older"),
            (_BUSYBOX, "mv", f"{_TREE}/updates/dkms/{{module:aliased}}.ko", "/lab/aside.ko"),
            *_DEPMOD,
            (_BUSYBOX, "mv", "/lab/aside.ko", f"{_TREE}/updates/dkms/{{module:aliased}}.ko"),
            (_BUSYBOX, "cp", "/lab/older", f"{_TREE}/modules.alias.bin"),
        ),
        "the alias leads to a module that modules.dep.bin lacks",
        load="{alias:handle}",
    ),
    _case("alias-text-gone", ((_BUSYBOX, "rm", f"{_TREE}/modules.alias"),), load="{alias:handle}"),
    _case(
        "builtin-text-gone",
        ((_BUSYBOX, "mv", f"{_TREE}/modules.builtin", "/lab/builtin"),),
        load="unix",
        after=((_BUSYBOX, "mv", "/lab/builtin", f"{_TREE}/modules.builtin"), *_DEPMOD),
    ),
    _wild("matches-two", "lab:v0001d0000001b0x", *_BOTH),
    _wild("matches-none", "lab:v0001d0000002a0x", one("wild")),
    _wild("blacklisted", "lab:v0001d0000001b0x", *_BOTH, config="blacklist {module:wild}\n"),
    _wild("one-fails", "lab:v0001d0000001b0x", one("wild", tamper=("vermagic-flags",)), one("wilder")),
    _case("gone", _gone("dep"), "the text alone finds nothing"),
    _case("empty", _cut("dep", 0)),
    _case("cut-in-header", _cut("dep", 8)),
    _case("cut-behind-header", _cut("dep", 16)),
    _case("and-text-gone", (*_gone("dep"), (_BUSYBOX, "rm", f"{_TREE}/modules.dep"))),
    _case("text-gone", ((_BUSYBOX, "rm", f"{_TREE}/modules.dep"),), "nothing reads the text"),
    _case("text-emptied", ((_BUSYBOX, "truncate", "-s", "0", f"{_TREE}/modules.dep"),)),
    _case(
        "older",
        (
            (_BUSYBOX, "cp", f"{_TREE}/modules.dep.bin", "/lab/older"),
            (_BUSYBOX, "rm", f"{_TREE}/updates/dkms/{{module:aliased}}.ko"),
            *_DEPMOD,
            (_BUSYBOX, "cp", "/lab/older", f"{_TREE}/modules.dep.bin"),
        ),
        "it lists a file that is gone",
    ),
    _case("of-aliases-gone", _gone("alias"), load="{alias:handle}"),
    _case("of-aliases-gone-by-name", _gone("alias")),
    _case("of-symbols-gone", _gone("symbols")),
    _case(
        "gone-with-an-install-line",
        _gone("dep"),
        "the line still makes the name known",
        config="install {module:aliased} /bin/true\n",
    ),
    _case("gone-with-an-alias", _gone("dep"), config="alias lab-nick {module:aliased}\n", load="lab-nick"),
)
