"""A real Ray cluster, asked from an environment without Ray: every node has its row, also one that dies."""

import importlib.util
import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from gdrkit.fleet.document import INTERRUPTED
from tests.cli.test_streams import GDR
from tests.fleet.ray_cluster import (
    CLIENT,
    HANGS_S,
    HEAD,
    NODES,
    TOKEN,
    WITHOUT,
    can_run,
    cluster,
    wait_until,
)

DOCTOR = [*GDR, "fleet", "doctor", "--json", "--timeout", "200"]
ADDRESS = f"http://{HEAD}:8265"
LIST = """
import sys
from gdrkit.fleet.ray_api import RayApi
api = RayApi(sys.argv[1], {"Authorization": "Bearer " + sys.argv[2]})
print(*(node.node_ip for node in api.nodes() if node.state == "ALIVE"))
print(*(api.state(job).status for job in sys.argv[3:]))
"""

pytestmark = [
    pytest.mark.services,
    pytest.mark.slow,
    pytest.mark.skipif(not can_run(), reason=WITHOUT),
]


@pytest.fixture(scope="module")
def ray():
    with tempfile.TemporaryDirectory(prefix="gdr-ray-", dir="/tmp") as folder, cluster(Path(folder)) as made:
        wait_until(lambda: made.keep() or sorted(asked(made)[0]) == sorted(NODES), 1.0)
        yield made


def asked(ray, *jobs):
    """The living nodes, and the states of jobs."""
    alive, _, states = ray.run(CLIENT, GDR[0], "-c", LIST, ADDRESS, TOKEN, *jobs).stdout.partition("\n")
    return alive.split(), states.split()


def rows(text):
    return {row["name"]: row for row in json.loads(text)["nodes"]}


def logs(ray):
    return ray.folder / HEAD[-1] / "session_latest/logs"


def test_the_nodes_of_a_cluster_are_asked_while_one_of_them_dies(ray, tmp_path):
    """In one test: a cluster takes some seconds to start, and each part leaves it to the next."""
    assert importlib.util.find_spec("ray") is None
    settings = {"XDG_STATE_HOME": str(tmp_path), "RAY_AUTH_TOKEN": TOKEN}
    refused = ray.run(CLIENT, *DOCTOR, "--ray", ADDRESS, XDG_STATE_HOME=str(tmp_path))
    assert (
        refused.returncode > 63 and "answered 401" in refused.stderr and "RAY_AUTH_TOKEN" in refused.stderr
    )

    # Ctrl-C while a job runs: it is stopped, and its folder is removed.
    run = ray.begin(CLIENT, *DOCTOR, "--ray", RAY_API_SERVER_ADDRESS=ADDRESS, **settings)
    wait_until(lambda: list(logs(ray).glob("gdr-fleet-*")))
    (folder,) = logs(ray).glob("gdr-fleet-*")
    run.send_signal(signal.SIGINT)
    output, errors = run.communicate(timeout=HANGS_S)
    assert {row["summary"] for row in rows(output).values()} == {INTERRUPTED}, errors
    assert INTERRUPTED not in errors  # no line for each of many nodes
    wait_until(lambda: not folder.exists())
    wait_until(lambda: asked(ray, folder.name)[1] == ["STOPPED"], 1.0)

    # A node that dies while it collects: a row; the others' results stand.
    run = ray.begin(CLIENT, *DOCTOR, "--ray", ADDRESS, **settings)
    wait_until(lambda: ray.processes(NODES[2], "ray::gdr collect"))
    for pid in ray.processes(NODES[2], "ray::gdr collect"):
        os.kill(pid, signal.SIGSTOP)
    for pid in ray.processes(NODES[2], "/raylet"):
        os.kill(pid, signal.SIGKILL)
    ray.kill(NODES[2])
    output, errors = run.communicate(timeout=HANGS_S)
    found = rows(output)
    assert sorted(found) == sorted(NODES)
    dead = found[NODES[2]]
    assert dead["standing"] == "unreachable" and "died" in dead["summary"].lower(), dead
    assert f"{NODES[2]}: unreachable: " in errors
    for node in NODES[:2]:
        assert found[node]["traits"]["kernel"] == os.uname().release, found[node]
    wait_until(lambda: not list(logs(ray).glob("gdr-fleet-*")))

    # Asked again when the dashboard knows that it is dead: only it is asked, and no job is needed for that.
    wait_until(lambda: NODES[2] not in asked(ray)[0], 1.0)
    again = ray.run(CLIENT, *DOCTOR, "--ray", ADDRESS, "--resume", **settings)
    assert "Ray has it as dead: Unexpected termination" in rows(again.stdout)[NODES[2]]["summary"]
    assert found[HEAD] == rows(again.stdout)[HEAD]
    assert len(list(logs(ray).glob("job-driver-gdr-fleet-*"))) == 2
