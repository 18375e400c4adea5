"""depmod's compiled indexes: modprobe reads them, and never the text beside them."""

from __future__ import annotations

from lab.case import Case, one

_TREE = "/usr/lib/modules/KERNEL"
_BUSYBOX = "/bin/busybox"
_DEPMOD = (("/usr/sbin/depmod", "-a"),)


def _gone(index: str) -> tuple[tuple[str, ...], ...]:
    return ((_BUSYBOX, "rm", f"{_TREE}/modules.{index}.bin"),)


def _cut(index: str, size: int) -> tuple[tuple[str, ...], ...]:
    file = f"{_TREE}/modules.{index}.bin"
    return ((_BUSYBOX, "truncate", "-s", str(size), file),)


def _case(name: str, before: tuple[tuple[str, ...], ...], why: str = "", **more: str) -> Case:
    return Case(
        name=f"index-{name}", why=why, modules=(one("aliased"),), load=more.get("load", "{module:aliased}"),
        judged="{module:aliased}", before=before, after=_DEPMOD, groups=("modprobe",),
        config=more.get("config", ""),
    )  # fmt: skip


CASES = (
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
