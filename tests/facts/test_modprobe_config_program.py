"""The order of modprobe's folders, against kmod itself, which is given five of our own with -C."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from gdrkit.facts.modprobe_config import FOLDERS, configuration
from gdrkit.node import Node
from tests.memory_host import MemoryHost
from tests.seed import SEED
from tests.system_programs import needs, program

pytestmark = needs("modprobe")

NAMES = ("10-a.conf", "50-b.conf", "a.conf", "z.conf", "B.conf", "no-configuration")


def printed(folders: list[Path]) -> list[str]:
    """The options of our modules as kmod reads them."""
    given = [word for folder in folders for word in ("-C", str(folder))]
    found = subprocess.run([program("modprobe"), "-c", *given], capture_output=True, text=True, check=True)
    return re.findall(r"^options ours (.*)$", found.stdout, re.M)


def read(files: dict[str, str]) -> list[str]:
    config = configuration(Node(MemoryHost({"proc/cmdline": "", **files}, complete=True)))
    return [entry.value for entry in config.options if entry.name == "ours"]


@pytest.mark.parametrize("number", range(12))
def test_a_name_in_an_earlier_folder_hides_it_in_later_ones_and_names_decide_the_order(
    number: int, tmp_path: Path
):
    drawn = random.Random(f"{SEED} {number}")
    files = {}
    folders = [tmp_path / folder.replace("/", "-") for folder in FOLDERS]
    for at, folder in enumerate(folders):
        folder.mkdir()
        for name in drawn.sample(NAMES, drawn.randint(0, len(NAMES))):
            text = (
                f"options ours from={at}/{name}\n" if drawn.random() < 0.8 else ""
            )  # an empty one hides, too
            folder.joinpath(name).write_text(text)
            files[f"{FOLDERS[at]}/{name}"] = text

    assert read(files) == printed(folders)


def test_kmod_knows_no_folder_beyond_these():
    """By the strings in its program and its library, which have no order, and of which one may be the end of
    another; versions before 31 have fewer."""
    places = [Path(program("modprobe")).resolve(), *Path("/usr").glob("lib*/**/libkmod.so.2")]
    text = b"\0".join(path.read_bytes() for path in places)
    found = {match.decode() for match in re.findall(rb"(?<=\0)/([\w/]+/modprobe\.d)(?=\0)", text)}
    assert {"etc/modprobe.d", "run/modprobe.d"} <= found <= set(FOLDERS)
