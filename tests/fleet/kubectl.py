"""A stand-in for kubectl: `python kubectl.py FOLDER WORDS...`. Its messages are those that kubectl 1.32
printed before an API server of a few lines; FOLDER holds the bundle and what was asked.

A node does what its name says: refused, noimage, nopython, pending, gone, hung, broken, deny, down; others
answer."""

import json
import sys
import time
from pathlib import Path

folder, words = Path(sys.argv[1]), sys.argv[2:]
with (folder / "asked").open("a") as log:
    log.write(json.dumps(words) + "\n")
verb = next(word for word in words if not word.startswith("-"))


def ready(name):
    status = {"type": "Ready", "status": "True"}
    if name == "down":
        status = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    return {"metadata": {"name": name, "labels": {}}, "status": {"conditions": [status]}}


def state(node):
    if node == "noimage":
        return {"waiting": {"reason": "ErrImagePull", "message": "failed to pull: not found"}}
    if node == "nopython":
        return {"terminated": {"reason": "StartError", "message": "python3: not found", "exitCode": 128}}
    return {"waiting": {"reason": "ContainerCreating"}} if node == "pending" else {"running": {}}


def shown(name, node):
    of = state(node)
    phase = {"running": "Running", "terminated": "Failed", "waiting": "Pending"}[next(iter(of))]
    return {"metadata": {"name": name}, "status": {"phase": phase, "containerStatuses": [{"state": of}]}}


pods = json.loads((folder / "pods").read_text()) if (folder / "pods").exists() else {}
if "--context=nowhere" in words:
    sys.exit('error: context "nowhere" does not exist')
if verb == "get" and "nodes" in words:
    names = (folder / "nodes").read_text().split()
    print(json.dumps({"items": [ready(name) for name in names]}))
elif verb == "create":
    code = 0
    for item in json.load(sys.stdin)["items"]:
        name, node = item["metadata"]["name"], item["spec"]["nodeName"]
        if node == "refused":
            at = 'Error from server (Forbidden): error when creating "STDIN":'
            print(f'{at} pods "{name}" is forbidden: violates PodSecurity "restricted"', file=sys.stderr)
            code = 1
        else:
            pods[name] = node
            print(f"pod/{name}")
    (folder / "pods").write_text(json.dumps(pods))
    sys.exit(code)
elif verb == "get":
    print(json.dumps({"items": [shown(name, node) for name, node in pods.items() if node != "gone"]}))
elif verb == "exec":
    node = pods[words[words.index("--stdin") + 1]]
    sys.stdin.buffer.read()
    if node == "hung":
        time.sleep(600)
    if node in ("broken", "deny"):
        why = {"broken": "gdr-collect: no such directory", "deny": "Error from server (Forbidden): no exec"}
        print(why[node], file=sys.stderr)
        if node == "broken":
            print("command terminated with exit code 2", file=sys.stderr)
        sys.exit(2)
    sys.stdout.buffer.write((folder / "bundle").read_bytes())
elif verb == "delete":
    (folder / "pods").unlink()
