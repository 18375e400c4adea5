"""Module parameters: on modprobe's command line, in its configuration, on the kernel command line."""

from __future__ import annotations

from lab.case import Case, one

_TAKER = (one("taker"),)


def _case(name: str, *arguments: str, config: str = "", why: str = "") -> Case:
    return Case(
        name=name, modules=_TAKER, load="{module:taker}", arguments=arguments, config=config, why=why
    )


CASES = (
    _case("parameter-good", "{parameter:number}=5", "{parameter:flag}=y", "{parameter:words}=hello"),
    _case("parameter-bad-int", "{parameter:number}=notanumber"),
    _case("parameter-hex", "{parameter:number}=0x1f", "{parameter:count}=017"),
    _case("parameter-overflow", "{parameter:number}=99999999999"),
    _case("parameter-negative-uint", "{parameter:count}=-1"),
    _case("parameter-bad-bool", "{parameter:flag}=maybe"),
    _case("parameter-bool-alone", "{parameter:flag}"),
    _case("parameter-int-alone", "{parameter:number}", why="a value is expected"),
    _case("parameter-empty", "{parameter:number}="),
    _case("parameter-unknown", "nosuchthing=1", why="said, and ignored"),
    _case("parameter-good-then-bad", "{parameter:count}=1", "{parameter:number}=x", "nosuchthing=1"),
    _case("parameter-words-alone", "{parameter:words}"),
    _case("parameter-quoted", '{parameter:words}="two words"', "{parameter:number}=7"),
    _case("parameter-dash", "no-such-thing=1"),
    _case("options-good", config="options {module:taker} {parameter:number}=3\n"),
    _case("options-bad", config="options {module:taker} {parameter:number}=three\n"),
    _case(
        "options-overridden", "{parameter:number}=4", config="options {module:taker} {parameter:number}=3\n"
    ),
    _case(
        "options-bad-then-good",
        "{parameter:number}=4",
        config="options {module:taker} {parameter:number}=x\n",
    ),
    _case("options-unknown", config="options {module:taker} zz_unheard=1\n"),
    Case(
        name="options-of-dependency",
        modules=(one("taker"), one("wisher")),
        load="{module:wisher}",
        config=(
            "softdep {module:wisher} pre: {module:taker}\noptions {module:taker} {parameter:number}=bad\n"
        ),
        why="a soft dependency that fails stops nothing",
    ),
)
