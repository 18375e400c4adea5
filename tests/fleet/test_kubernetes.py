"""Kubernetes: a Pod on each node, and none left. Here kubectl is a stand-in."""

import json
import shlex
import signal
import sys
from pathlib import Path

import pytest

from gdrkit.evidence.errors import TargetError
from gdrkit.fleet import kubernetes
from gdrkit.fleet.document import INTERRUPTED, Standing
from gdrkit.fleet.kubernetes import Kubernetes
from gdrkit.fleet.run import Run
from tests.fleet.programs import install
from tests.work import within

KUBECTL = Path(__file__).with_name("kubectl.py")


@pytest.fixture
def cluster(tmp_path, monkeypatch, bundle):
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "bundle").write_bytes(bundle.read_bytes())
    (folder / "nodes").write_text("gpu1 gpu2")
    words = shlex.join([sys.executable, "-I", str(KUBECTL), str(folder)])
    install(tmp_path / "bin", "kubectl", f'exec {words} "$@"', monkeypatch)
    return folder


def asked(cluster):
    return [json.loads(line) for line in (cluster / "asked").read_text().splitlines()]


def ask(cluster, *names, timeout_s=60.0, sudo=False, **options):
    (cluster / "nodes").write_text(" ".join(names))
    launcher, rows = Kubernetes(**options), []
    (cluster / "bundles").mkdir(exist_ok=True)
    run = Run(launcher, str(cluster / "bundles"), timeout_s=timeout_s, sudo=sudo)
    complete = run.ask(launcher.nodes(), rows.append)
    return complete, {row.name: row for row in rows}, run


def test_each_node_is_asked_in_a_pod_of_its_own_which_is_removed(cluster):
    complete, rows, run = ask(cluster, "gpu1", "gpu2", namespace="gdr", context="prod", selector="gpu=h100")

    assert complete and run.remains == "" and not (cluster / "pods").exists()
    assert {name: (row.standing, row.target) for name, row in rows.items()} == {
        "gpu1": ("ready", "kubernetes://gpu1"),
        "gpu2": ("ready", "kubernetes://gpu2"),
    }
    calls = asked(cluster)
    assert all(words[:2] == ["--context=prod", "--namespace=gdr"] for words in calls)
    assert "--selector=gpu=h100" in calls[0] and calls[0][2:4] == ["get", "nodes"]
    assert [words[2] for words in calls].count("exec") == 2 and calls[-1][2] == "delete"
    inside = next(words for words in calls if words[2] == "exec")
    program = "python3 -I - -o - --no-probe --root /host"
    assert " ".join(inside[inside.index("--") + 1 :]) == program


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("down", "Kubernetes has it as NotReady: Kubelet stopped posting node status."),
        ("refused", 'its Pod was refused: forbidden: violates PodSecurity "restricted"'),
        ("noimage", "ErrImagePull: failed to pull: not found"),
        ("nopython", "its Pod ended: StartError: python3: not found"),
        ("gone", "its Pod was removed during the run"),
        ("broken", "gdr collect failed in its Pod: gdr-collect: no such directory"),
        ("deny", "gdr collect failed in its Pod: Error from server (Forbidden): no exec"),
    ],
)
def test_a_node_without_a_bundle_is_a_row_with_its_reason(cluster, node, why):
    _, rows, _ = ask(cluster, node, "gpu1")

    assert rows[node].standing is Standing.UNREACHABLE and rows[node].summary == why
    assert rows["gpu1"].standing is Standing.READY and not (cluster / "pods").exists()


def test_nodes_that_hang_cost_their_rows_and_their_pods_are_removed(cluster):
    _, rows, _ = ask(cluster, "hung", "pending", "gpu1", timeout_s=8.0)

    assert "timed out" in rows["hung"].summary and rows["gpu1"].standing is Standing.READY
    assert rows["pending"].summary == "its Pod did not run before the deadline"
    assert asked(cluster)[-1][0] == "delete" and not (cluster / "pods").exists()


def test_an_interrupt_keeps_what_came_and_removes_the_pods(cluster):
    (cluster / "nodes").write_text("gpu1 hung")
    launcher, rows = Kubernetes(), []

    def arrived(row):
        rows.append((row.name, row.summary))
        if len(rows) == 1:
            signal.raise_signal(signal.SIGINT)

    (cluster / "bundles").mkdir()
    assert not Run(launcher, str(cluster / "bundles")).ask(launcher.nodes(), arrived)
    assert [name for name, _ in rows] == ["gpu1", "hung"] and rows[1][1] == INTERRUPTED
    assert not (cluster / "pods").exists()


def test_pods_that_cannot_be_removed_are_named(cluster, tmp_path, monkeypatch):
    real = (tmp_path / "bin/kubectl").read_text().splitlines()[-1]
    script = f'for word; do [ "$word" = delete ] && exit 1; done; {real}'
    install(tmp_path / "bin", "kubectl", script, monkeypatch)
    rows, asked = [], Kubernetes(["gpu1"], context="a b", namespace="gdr")
    (cluster / "bundles").mkdir()
    run = Run(asked, str(cluster / "bundles"))
    run.ask(asked.nodes(), rows.append)
    program, context, namespace, *words = shlex.split(run.remains)

    assert rows[0].standing is Standing.READY
    assert program.endswith("kubectl") and (context, namespace) == ("--context=a b", "--namespace=gdr")
    assert words[:2] == ["delete", "pods"] and words[3] == "--ignore-not-found"
    assert words[2].startswith("--selector=app.kubernetes.io/instance=gdr-fleet-")


def test_sudo_means_a_privileged_container(cluster):
    launcher = Kubernetes()
    launcher.pods = {"gpu1": "pod"}
    assert launcher.command("gpu1", "sudo -n python3 -I -")[-5:] == ["python3", "-I", "-", "--root", "/host"]


def test_named_nodes_alone_are_asked_and_a_name_that_is_none_is_a_row(cluster):
    launcher = Kubernetes(["gpu2", "gpu9"])

    assert launcher.nodes() == ["gpu2", "gpu9"]
    assert launcher.down() == {"gpu9": "not a node of this cluster"}


def test_a_cluster_that_does_not_answer_is_an_error_with_the_words_of_kubectl(cluster):
    with pytest.raises(
        TargetError, match='kubectl get nodes failed: error: context "nowhere" does not exist'
    ):
        Kubernetes(context="nowhere").nodes()


def test_without_kubectl_the_error_says_so_and_the_current_folder_is_not_searched(tmp_path, monkeypatch):
    install(tmp_path, "kubectl", "exit 0", monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".:")

    with pytest.raises(TargetError, match="kubectl is not installed here"):
        Kubernetes()


def test_names_that_no_node_can_have_are_left_out(cluster):
    (cluster / "nodes").write_text("gpu1 -oProxyCommand=id ../../etc $(id) gpu2")
    assert Kubernetes().nodes() == ["gpu1", "gpu2"]


def test_a_cluster_that_answers_no_more_ends_the_run_some_seconds_after_its_deadline(
    cluster, tmp_path, monkeypatch
):
    """The report has the command that removes what is left."""
    monkeypatch.setattr(kubernetes, "END_S", 1.5)
    real = shlex.join([sys.executable, "-I", str(KUBECTL), str(cluster)])
    script = f'for word; do case "$word" in create|delete) exec sleep 60;; esac; done; exec {real} "$@"'
    install(tmp_path / "bin", "kubectl", script, monkeypatch)
    with within(20):
        complete, rows, run = ask(cluster, "gpu1", timeout_s=0.3)

    assert complete and rows["gpu1"].standing is Standing.UNREACHABLE
    assert "delete pods" in run.remains
