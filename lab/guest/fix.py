"""Runs in the guest: break it, repair it with gdr, test with modprobe, undo with gdr.

Reads /lab/fix.json; prints one JSON object per scenario. gdr's commands run in forked children of this
process, which has already imported gdrkit: an import takes seconds in an emulated machine.
"""

import base64
import hashlib
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import traceback

sys.path[:0] = ["/lab/gdr", "/lab/site"]
FAMILY = ("nvidia_peermem", "nvidia", "mlx_compat")
RELEASE = os.uname().release
MODULES = "/usr/lib/modules/" + RELEASE
WATCHED = ("/etc", "/usr/lib/modprobe.d", "/usr/share/lab", MODULES, "/var/lib", "/root", "/boot")
STATE = ("etc", "usr/share/lab", "usr/lib/modprobe.d", "var/lib/gdrkit", "root")
OWN = "/lab/gdr/gdrkit/repair/apply"
GDR = (
    "gdrkit.cli.fix", "gdrkit.cli.fix_apply", "gdrkit.cli.modprobe", "gdrkit.diagnosis",
    "gdrkit.evidence.live",
    "gdrkit.evidence.kernel_log", "gdrkit.report.fix", "gdrkit.report.fix_text",
    "gdrkit.repair.apply.runner", "gdrkit.repair.apply.reverter", "gdrkit.repair.apply.signing",
    "gdrkit.formats.module_signature", "cryptography.x509",
    "cryptography.hazmat.primitives.serialization.pkcs7", "cryptography.hazmat.primitives.asymmetric.rsa",
    "backports.zstd", "lzma", "getpass",
)  # fmt: skip


def run(argv, seconds=60):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
    except OSError as error:
        return 127, str(error)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


def load_gdr():
    """Import the modules that the commands need, once."""
    for name in GDR:
        importlib.import_module(name)


class Killer:
    """Kills this process before it executes the n-th line of gdrkit/repair/apply."""

    def __init__(self, last):
        self.left = last

    def __call__(self, frame, event, _):
        return self.line if frame.f_code.co_filename.startswith(OWN) else None

    def line(self, frame, event, _):
        if event == "line":
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.line


def gdr(*words, secrets=None, kill=0):
    """gdr's exit code (negative: killed by that signal), and its output."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 70
        try:
            os.dup2(write, 1)
            os.dup2(write, 2)
            words = list(words)
            for option, secret in (secrets or {}).items():
                there, here = os.pipe()
                os.write(here, secret.encode() + b"\n")
                os.close(here)
                words += [option, str(there)]
            sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"), "utf-8", write_through=True)
            sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb"), "utf-8", write_through=True)
            from gdrkit.cli import main

            if kill:
                sys.settrace(Killer(kill))
            code = main(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 70
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.decode("utf-8", "replace")


def snapshot():
    """Every file, link and folder that matters, except gdrkit's journal and the lab's files."""
    found = {}
    for top in WATCHED:
        for folder, folders, files in os.walk(top):
            for name in folders + files:
                path = folder + "/" + name
                if path.startswith("/var/lib/gdrkit/fix") or path == "/var/lib/gdrkit":
                    continue
                status = os.lstat(path)
                content = ""
                if os.path.islink(path):
                    content = os.readlink(path)
                elif os.path.isfile(path):
                    with open(path, "rb") as file:
                        content = hashlib.sha256(file.read()).hexdigest()
                found[path] = [status.st_mode, status.st_uid, status.st_gid, content]
    return found


def install(scenario):
    for path, blob in scenario["files"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open("/lab/blobs/" + blob, "rb") as source, open(path, "wb") as target:
            target.write(source.read())
    for path, row in scenario["texts"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if "link" in row:
            os.symlink(row["link"], path)
            continue
        with open(path, "w") as target:
            target.write(row["text"])
        os.chmod(path, row["mode"])
    code, said = run(["/usr/sbin/depmod", "-a"])
    if code:
        raise RuntimeError(said)


def tidy(scenario):
    for path in list(scenario["files"]) + list(scenario["texts"]):
        if os.path.lexists(path):
            os.unlink(path)
    subprocess.run(["/bin/busybox", "rm", "-rf", "/var/lib/gdrkit"], check=False)
    run(["/usr/sbin/depmod", "-a"])


def unload():
    for name in FAMILY:
        run(["/usr/sbin/rmmod", name])


def loaded():
    return os.path.isdir("/sys/module/nvidia_peermem/holders")


def at_boot():
    """Load modules as systemd-modules-load does, with blacklists; returns the worst exit code and the
    output.
    """
    worst, said = 0, ""
    for name in sorted(os.listdir("/etc/modules-load.d")) if os.path.isdir("/etc/modules-load.d") else ():
        with open("/etc/modules-load.d/" + name) as file:
            for line in file:
                if line.strip() and line[0] not in "#;":
                    code, words = run(["/usr/sbin/modprobe", "-b", line.strip()])
                    worst, said = max(worst, code), said + words
    return worst, said


def ask(scenario):
    """Unload the modules, then run the real modprobe. Returns its result."""
    unload()
    if scenario["probe"] == "boot":
        code, said = at_boot()
        return {"exit_code": code, "said": said, "loaded": loaded()}
    code, said = run(scenario["probe"])
    return {"exit_code": code, "said": said, "loaded": loaded()}


def predicted():
    code, said = gdr("modprobe", "nvidia-peermem", "--json")
    try:
        result = json.loads(said)
    except ValueError:
        return {"exit_code": code, "said": said}
    return {
        "exit_code": code,
        "reason": result["reason"],
        "loaded": result["loaded"],
        "stderr": result["stderr"],
    }


def state():
    """The files that a disk would have kept, as a tar file with owners and modes."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name in STATE:
            if os.path.lexists("/" + name):
                archive.add("/" + name, name)
        for name in sorted(os.listdir(MODULES)):
            if name.startswith("modules.") or name == "updates":
                archive.add(MODULES + "/" + name, MODULES[1:] + "/" + name)
    return base64.b64encode(data.getvalue()).decode()


def restore_state():
    subprocess.run(["/bin/busybox", "rm", "-rf", MODULES + "/updates"], check=False)
    with tarfile.open("/lab/state.tar.gz") as archive:
        archive.extractall("/", filter="fully_trusted") if hasattr(tarfile, "data_filter") else (
            archive.extractall("/")
        )


def first_half(scenario, result):
    install(scenario)
    before = snapshot()
    result["before"] = ask(scenario)
    result["predicted_before"] = predicted()
    unload()
    words = ["fix", *scenario["fix"], "--apply", "--yes"]
    result["apply"] = gdr(*words, secrets=scenario["secrets"], kill=scenario["kill"])
    if scenario["then"]:
        result["again"] = gdr(*scenario["then"], secrets=scenario["secrets"])
    return before


def second_half(scenario, result, before):
    result["predicted_after"] = predicted()
    result["after"] = ask(scenario)
    result["changed"] = sum(1 for path, row in snapshot().items() if before.get(path) != row)
    unload()
    result["undo"] = gdr("fix", "--undo", secrets=scenario["secrets"], kill=scenario["kill_undo"])
    if scenario["kill_undo"]:
        result["undo_again"] = gdr("fix", "--undo", secrets=scenario["secrets"])
    unload()
    now = snapshot()
    result["differs"] = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    result["undone"] = ask(scenario)
    unload()


def take(scenario):
    result = {"name": scenario["name"]}
    began = time.monotonic()
    try:
        if scenario["half"] == "second":
            with open("/lab/before.json") as file:
                before = json.load(file)
            restore_state()
            result["resume"] = gdr("fix", "--resume", "--yes", secrets=scenario["secrets"])
            second_half(scenario, result, before)
        else:
            before = first_half(scenario, result)
            if scenario["half"] == "first":
                result["state"], result["snapshot"] = state(), before
                certificate = "/var/lib/gdrkit/keys/module-signing.der"
                if os.path.exists(certificate):
                    with open(certificate, "rb") as file:
                        result["certificate"] = base64.b64encode(file.read()).decode()
                result["mok"] = run(["mokutil", "--list-new"])[1][:400]
            else:
                second_half(scenario, result, before)
                tidy(scenario)
    except Exception:
        result["broken"] = traceback.format_exc()
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def main():
    with open("/lab/fix.json") as file:
        scenarios = json.load(file)
    load_gdr()
    for scenario in scenarios:
        print(json.dumps(take(scenario)), flush=True)


if __name__ == "__main__":
    main()
