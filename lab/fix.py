"""`gdr fix` in guests: break them, repair them with gdr, test with modprobe, undo, compare byte for byte."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from lab.cache import command, folder, say
from lab.case import prepare
from lab.doctor import gdrkit_files
from lab.firmware import firmware
from lab.fix_scenarios import MADE_KEY, PASSWORD, PLAIN, SECURE, Scenario, as_case
from lab.kernels import Kernel
from lab.machine import Boot, run
from lab.modules import built
from lab.profiles import Enrolment, Profile, profile
from lab.rootfs import BASE, modules_archive, packages_archive
from lab.session import own_archive
from lab.variants import key_files

_GUEST = Path(__file__).parent / "guest"
_PACKAGES = (*BASE, "mokutil")
_SECONDS = 240.0  # for a boot, and the same for each scenario: ten times what an idle machine needs
_SEED = 5
_NO_TIMER_CHECK = "no_timer_check"
"""Without it a guest on a busy machine may panic: it misses timer interrupts (Linux
arch/x86/kernel/apic/io_apic.c).
"""


def judge(kernel: Kernel, names: Iterable[str] = ()) -> list[tuple[str, list[str]]]:
    """Every scenario (or those named) with its failures; an empty list is a success."""
    found: list[tuple[str, list[str]]] = []
    for boot_profile, rows in (("plain", PLAIN), ("sb-mok", SECURE), ("sb-microsoft", MADE_KEY)):
        chosen = [row for row in rows if not set(names) or row.name in set(names)]
        if not chosen:
            continue
        results = _boot(kernel, profile(boot_profile), chosen)
        if rows is MADE_KEY:
            results = [_after_reboot(kernel, chosen[0], results[0])]
        for row, result in zip(chosen, results, strict=True):
            wrong = list(complaints(row, result))
            say(f"{boot_profile}/{row.name}: {'; '.join(wrong) or 'as expected'} ({result['seconds']} s)")
            _keep(kernel, row.name, result)
            found.append((row.name, wrong))
    return found


def _keep(kernel: Kernel, name: str, result: dict[str, Any]) -> None:
    """Save all output of a scenario, for debugging."""
    slim = {key: value for key, value in result.items() if key not in ("state", "snapshot")}
    (folder("fix", kernel.flavour.name) / f"{name}.json").write_text(json.dumps(slim, indent=1))


def _boot(
    kernel: Kernel, chosen: Profile, rows: Iterable[Scenario], more: dict[str, bytes] | None = None
) -> list[dict[str, Any]]:
    compiled = built(kernel)
    files: dict[str, bytes] = {**gdrkit_files(), **_keys(), **(more or {})}
    files["lab/guest_fix.py"] = (_GUEST / "fix.py").read_bytes()
    tasks = []
    for row in rows:
        ready = prepare(as_case(row), kernel, compiled, chosen.key, _SEED)
        files |= {f"lab/blobs/{name}": blob for name, blob in ready.blobs.items()}
        tasks.append(_task(row, ready.task["files"]))
    files["lab/fix.json"] = json.dumps(tasks).encode()
    seconds = _SECONDS * (1 + len(tasks))
    setup = "busybox mkdir -p /etc/modules-load.d /etc/modprobe.d; busybox chmod 600 /etc/lab-keys/*.key; "
    line = f"{setup} exec /usr/bin/python3 -S -E /lab/guest_fix.py"
    script = {"name": "fix", "argv": ["/bin/sh", "-c", line], "seconds": seconds}
    plan = {"cases": [], "scripts": [script], "pace": 0, "collect": []}
    with TemporaryDirectory(prefix="gdrkit-lab-") as scratch:
        own = Path(scratch, "own.cpio")
        own.write_bytes(own_archive(kernel, chosen, plan, files))
        archives = (packages_archive(kernel.flavour, _PACKAGES), modules_archive(kernel), own)
        words = f"{chosen.append} {_NO_TIMER_CHECK}".strip()
        machine = Boot(kernel, archives, words, firmware(chosen, kernel.flavour.archive))
        transcript = run(machine, seconds=seconds + _SECONDS)
    (event,) = transcript.of("script")
    results = [json.loads(line) for line in event["stdout"].splitlines() if line.startswith("{")]
    if len(results) != len(tasks):
        raise SystemExit(f"the guest ended early\n{event['stdout'][-2000:]}\n{event['stderr'][-2000:]}")
    return results


def _task(row: Scenario, files: dict[str, str]) -> dict[str, Any]:
    texts = {
        path: {"link": text.link} if text.link else {"text": text.text, "mode": text.mode}
        for path, text in row.texts
    }
    return {
        "name": row.name, "files": files, "texts": texts, "fix": row.fix, "probe": row.probe,
        "secrets": dict(row.secrets), "kill": row.kill, "kill_undo": row.kill_undo, "then": row.then,
        "half": row.half,
    }  # fmt: skip


def _keys() -> dict[str, bytes]:
    """The lab's key, unencrypted and encrypted with a password."""
    private, der, _ = key_files("lab")
    protected = command(
        "openssl", "pkcs8", "-topk8", "-in", private, "-passout", f"pass:{PASSWORD}", "-v2", "aes-256-cbc"
    )
    return {
        "etc/lab-keys/lab.key": private.read_bytes(),
        "etc/lab-keys/lab.der": der.read_bytes(),
        "etc/lab-keys/protected.key": protected,
    }


def _after_reboot(kernel: Kernel, row: Scenario, first: dict[str, Any]) -> dict[str, Any]:
    """The second boot, with the key in the firmware that a person would have enrolled in MokManager."""
    if "state" not in first:
        return first
    certificate = base64.b64decode(first["certificate"])
    name = f"made-{hashlib.sha256(certificate).hexdigest()[:12]}"
    _, der, pem = (folder("keys") / f"{name}.{ending}" for ending in ("priv", "der", "pem"))
    der.write_bytes(certificate)
    body = base64.encodebytes(certificate).decode()
    pem.write_text(f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n")
    enrolled = Profile(name="sb-made", firmware="shim", enrol=Enrolment(mok=(name,)))
    more = {
        "lab/state.tar.gz": base64.b64decode(first["state"]),
        "lab/before.json": json.dumps(first["snapshot"]).encode(),
    }
    (second,) = _boot(kernel, enrolled, [replace(row, half="second")], more)
    der.unlink(), pem.unlink()
    return {**first, **second, "seconds": first["seconds"] + second["seconds"]}


def complaints(row: Scenario, result: dict[str, Any]) -> Iterator[str]:
    """The failures of a scenario."""
    if "broken" in result:
        yield result["broken"]
        return
    before, after = result["before"], result["after"]
    if row.fails and before["exit_code"] == 0 and before["loaded"]:
        yield "the module loaded before the repair"
    reason = result["predicted_before"].get("reason")
    if row.reason is not None and reason != row.reason:
        yield f"gdr modprobe gave the reason {reason!r}, not {row.reason!r}"
    if result["apply"][0] != row.apply_code:
        yield f"apply: exit {result['apply'][0]}: {result['apply'][1][-600:]}"
    for key in ("again", "resume"):
        if key in result and result[key][0] != 0:
            yield f"{key}: exit {result[key][0]}: {result[key][1][-600:]}"
    if row.loads and row.apply_code != 2 and not (after["exit_code"] == 0 and after["loaded"]):
        yield f"afterwards: {after}"
    if row.probe == "boot" and after["exit_code"] != 0:
        yield f"at boot: {after['said']}"
    undo = result["undo_again" if row.kill_undo else "undo"]
    if undo[0] not in (0, 1) or "left alone" in undo[1]:
        yield f"undo: exit {undo[0]}: {undo[1][-600:]}"
    if result["differs"]:
        yield f"not as before: {result['differs']}"
    if (before["exit_code"], before["loaded"]) != (
        result["undone"]["exit_code"],
        result["undone"]["loaded"],
    ):
        yield f"modprobe before {before}, once undone {result['undone']}"
    said = json.dumps({key: value for key, value in result.items() if key not in ("state", "snapshot")})
    if PASSWORD in said or "PRIVATE KEY" in said:
        yield "a secret was printed"
