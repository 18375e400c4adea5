"""Outputs of the pods of NVIDIA's operators: which line is the cause, and which only follows from it."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained

PEERMEM_LOG = "$ kubectl logs -n gpu-operator nvidia-driver-daemonset-hx8vk -c nvidia-peermem-ctr --tail 5\n"
FAILED = "failed to load nvidia-peermem module\n"
NOT_FOUND = "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0-1059-azure\n"
REFUSED = "modprobe: ERROR: could not insert 'nvidia_peermem': {}\n"
DISAGREES = "[81231.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"


# -- what the container says at its end --------------------------------------------------------------


@pytest.mark.parametrize(
    "why, code",
    [
        (NOT_FOUND, "operator-module-missing"),
        (
            REFUSED.format("Exec format error")
            + "$ dmesg\n[ 12.1] nvidia_peermem: version magic '6.8.0-1 SMP' should be '6.8.0-2 SMP'\n",
            "module-wrong-kernel",
        ),
        (
            REFUSED.format("Unknown symbol in module, or unknown parameter (see dmesg)")
            + "$ dmesg\n[ 12.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n",
            "module-symbol-missing",
        ),
    ],
)
def test_that_the_module_did_not_load_is_no_failure_of_its_own(why, code):
    """NVIDIA/gpu-operator issue 2619."""
    first, _, rest = why.partition("\n")
    found = explained(f"{PEERMEM_LOG}{first}\n{FAILED}{rest}").answer
    assert found.cause == code
    assert found.besides == ()


def test_that_the_module_did_not_load_is_all_that_a_log_may_show():
    found = explained(PEERMEM_LOG + FAILED).answer
    assert {"operator-ofed-changed", "module-unsigned"} <= {cause.code for cause in found.others}


def test_a_module_of_another_name_does_not_explain_it():
    text = f"{PEERMEM_LOG}{FAILED}$ dmesg\n[ 12.1] mlx5_ib: Unknown symbol ib_register_device (err -2)\n"
    found = explained(text).answer
    assert found.cause == "module-symbol-missing"
    assert [failure.line.line for failure in found.besides] == [2]


def test_a_symbol_with_another_version_does_not_say_what_was_replaced():
    """NVIDIA/gpu-operator issue 2868; there is no OFED container where the host has the OFED."""
    host = "$ ofed_info -s\nMLNX_OFED_LINUX-24.10-3.2.5.0:\n$ kubectl get nicclusterpolicy -A\nNo resources"
    refused = PEERMEM_LOG + REFUSED.format("Invalid argument") + FAILED
    for text in (f"{refused}$ dmesg\n{DISAGREES}", f"{refused}{host} found\n$ dmesg\n{DISAGREES}"):
        found = explained(text).answer
        assert (found.cause, found.sureness) == ("operator-ofed-changed", "certain")
        assert "container was replaced" not in found.sentence and "another RDMA stack" in found.sentence


# -- a table of pods, and the logs that it asks for --------------------------------------------------


DRIVER_LOG = "$ kubectl logs -n gpu-operator {} -c nvidia-driver-ctr --previous\n"
POD = "nvidia-driver-daemonset-4c2jd"
UNLOADS = (
    "Unloading NVIDIA driver kernel modules...\n"
    "nvidia_modeset       1310720  0\n"
    "nvidia_uvm           1536000  0\n"
    "nvidia              11489280  4 nvidia_uvm,gdrdrv,nvidia_peermem,nvidia_modeset\n"
    "Could not unload NVIDIA driver kernel modules, driver is in use\n"
)
TABLE = (
    "$ kubectl get pod -n gpu-operator {0}\n"
    "NAME                            READY   STATUS             RESTARTS        AGE\n"
    "{0}   0/3     CrashLoopBackOff   37 (2m11s ago)  3h\n"
)


def said(text: str) -> str:
    found = explained(text).answer
    return " ".join((found.sentence, *found.now))


@pytest.mark.parametrize(
    "named", [POD, f"pod/{POD}", "ds/nvidia-driver-daemonset", "-l app=nvidia-driver-daemonset"]
)
def test_a_table_asks_for_no_log_that_the_text_has(named):
    log = f"{DRIVER_LOG.format(named)}FATAL: something that nobody knows failed\n"
    assert "kubectl logs" not in said(log + TABLE.format(POD))


def test_the_log_of_another_pod_does_not_answer_for_it():
    log = f"{DRIVER_LOG.format('nvidia-driver-daemonset-zzzzz')}FATAL: something that nobody knows failed\n"
    assert "kubectl logs" in said(log + TABLE.format(POD))


@pytest.mark.parametrize("command", [DRIVER_LOG.format(POD), ""])
def test_what_a_container_says_outranks_the_state_of_its_pod(command):
    """NVIDIA/gpu-driver-container pull request 869."""
    text = command + UNLOADS + TABLE.format(POD)
    found = explained(text).answer
    assert "cannot unload the NVIDIA driver" in found.sentence and "lsmod" in found.now[0]
    assert not found.claimed


# -- an OFED container that refuses ------------------------------------------------------------------


OFED_POD = "[pod/mofed-ubuntu22.04-6d8f9cbb9f-ds-k2h7p/mofed-container] [20-Nov-26_08:22:40] {}\n"
REFUSES = (
    "Storage modules are loaded for current driver, terminating prior driver reload failure due to"
    ' UNLOAD_STORAGE_MODULES not set to "true"'
)
WAITS = (
    "[pod/nvidia-driver-daemonset-zx7c4/mofed-validation] stat: cannot statx"
    " '/run/mellanox/drivers/.driver-ready': No such file or directory\n"
)


@pytest.mark.parametrize(
    "text",
    [
        OFED_POD.format(REFUSES) + WAITS,
        REFUSES,
        "2026-09-09T15:56:48.082Z ERROR entrypoint/entrypoint.go:308 kernel modules check failed"
        ' {"error": "storage modules are loaded for current driver,terminating prior driver reload failure'
        ' due to UNLOAD_STORAGE_MODULES not set to \\"true\\""}\n',
    ],
)
def test_an_ofed_container_that_keeps_storage_modules_says_why_it_stops(text):
    found = explained(text).answer
    assert "UNLOAD_STORAGE_MODULES=true" in found.now[0]
    assert found.others == ()


def test_a_pod_that_installs_an_ofed_is_not_to_be_deployed():
    shown = OFED_POD.format("Executing driver sources container")
    assert "shows a pod that installs an OFED" in said(shown + WAITS)
    assert "deploy NicClusterPolicy.spec.ofedDriver" in said(WAITS)


# -- pods that are not made --------------------------------------------------------------------------


BY_LEVEL = (
    'Error from server (Forbidden): error when creating "t.yaml": pods "t" is forbidden: violates'
    ' PodSecurity "baseline:latest": non-default capabilities (container "t" must not include {} in'
    " securityContext.capabilities.add)\n"
)
BY_CONSTRAINT = (
    "$ oc describe job/trainer\nEvents:\n  Warning  FailedCreate  6s  job-controller  Error creating: pods"
    ' "trainer-" is forbidden: unable to validate against any security context constraint: [provider'
    ' "anyuid": Forbidden: not usable by user or serviceaccount, provider restricted-v2:'
    " .containers[0].capabilities.add: Invalid value: {}: capability may not be added]\n"
)


@pytest.mark.parametrize(
    "text, todo",
    [
        (BY_LEVEL.format('"IPC_LOCK"'), "pod-security.kubernetes.io/enforce"),
        (BY_LEVEL.format('"NET_ADMIN", "IPC_LOCK"'), "pod-security.kubernetes.io/enforce"),
        (BY_CONSTRAINT.format('"IPC_LOCK"'), "add-scc-to-user"),
    ],
)
def test_a_capability_that_the_cluster_refuses(text, todo):
    found = explained(text).answer
    assert "IPC_LOCK" in found.sentence and "no program has started" in found.sentence
    assert todo in found.now[0] and "ulimit" not in " ".join(found.now)


@pytest.mark.parametrize("text", [BY_LEVEL, BY_CONSTRAINT])
def test_another_capability_that_the_cluster_refuses(text):
    assert "IPC_LOCK" not in said(text.format('"NET_ADMIN"'))
    assert "no program has started" in said(text.format('"NET_ADMIN"'))


def test_a_pod_that_would_be_refused_elsewhere_was_made():
    assert "no program has started" not in said(
        BY_LEVEL.format('"IPC_LOCK"').replace("violates", "would violate")
    )


MANAGER = 'time="2025-11-05T10:21:10Z" level=info msg="Waiting for MOFED to be installed..."\n'
ROW = "nvidia-driver-daemonset-b6c4k           0/2     Init:0/1   0          41m\n"
POLICY = '$ kubectl get clusterpolicy cluster-policy -o json\n  "rdma": {{"enabled": true, "{}": {}}}\n'


def test_the_wait_of_an_init_container_is_one_for_an_ofed():
    """NVIDIA/k8s-driver-manager issue 123: its message, and the source that prints it."""
    found = explained(f"{ROW}{MANAGER}")
    assert found.answer.cause == "operator-waits-for-ofed"
    assert found.question is not None and "nvidia-peermem-ctr" not in found.question.command
    (step,) = found.answer.now
    assert "v0.9.0" in step and "ofedDriver" in step  # either may be, as the text shows no setting


def test_with_the_hosts_ofed_one_release_waits_for_ever():
    (step,) = explained(f"{MANAGER}{POLICY.format('useHostMofed', 'true')}").answer.now
    assert step.startswith("With useHostMofed: true") and "ofedDriver" not in step

    (step,) = explained(f"{MANAGER}{POLICY.format('useHostMofed', 'false')}").answer.now
    assert "ofedDriver" in step


def test_a_pod_in_init_has_no_log_of_later_containers():
    found = explained(ROW)
    assert "no other container of it has a log" in found.answer.sentence
    assert "does not stay up" not in found.answer.sentence
    assert found.question is None
