"""The first thing that `explain` answers: to what programs print, with or without words around it."""

from __future__ import annotations

import pytest

from gdrkit.catalogue import every_message
from gdrkit.explain.answer import GENERIC
from gdrkit.explain.explanation import Answer
from gdrkit.explain.text import text as as_text
from tests.explain.explaining import codes, explained, noted
from tests.explain.posts import OTHERS, POSTS
from tests.messages.samples import sample


def answered(text: str) -> Answer:
    return explained(text).answer


def test_where_causes_are_open_the_first_line_of_the_likeliest_is_quoted():
    line = "Failed to register memory 0x7f0000000000: Cannot allocate memory [{}]\n"
    found = answered(line.format(12) + line.format(22))
    assert (found.kind, [one.line for one in found.lines]) == ("several", [1])


@pytest.mark.parametrize("hosts", [1, 2])
def test_parts_are_named_by_their_machines_only_if_there_are_several(hosts: int):
    text = "".join(
        f"root@gpu{n}:~# modprobe nvidia_peermem\n"
        "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
        for n in range(hosts)
    )
    shown = as_text(explained(text), verbose=True).splitlines()
    assert [line.strip() for line in shown if line.strip() in ("on gpu0", "on gpu1")][:hosts] == [
        f"on gpu{n}" for n in range(hosts) if hosts > 1
    ]


PRINTED = (
    ("Failed to initialize NVML: Driver/library version mismatch", "driver-mismatch"),
    ("Completion with status 12, transport retry counter exceeded, on RoCE.", "retry-exceeded"),
    (
        "The peermem container waits for MOFED: waiting for mellanox ofed and nvidia "
        "drivers to be installed",
        "operator-waits-for-ofed",
    ),
    ("os.environ['NCCL_NET']='Socket'\n\nWhy is my RoCE card not used?", "ib-disabled-by-env"),
    (
        "n1:1:2 [0] NCCL INFO NET/OFI Selected Provider is tcp (found 1 nics)\n",
        "rdma-device-not-in-container",
    ),
    ("n1:1:2 [0] ofi_init:13 NCCL WARN NET/OFI Only EFA provider is supported\n", "no-rdma-device"),
    (
        "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_x'\n",
        "module-symbol-gpl-only",
    ),
    ("```\nassert props.ginType != NCCL_GIN_TYPE_NONE\n```\nOur run fails there.", "gin-unavailable"),
    ("Our job fails: cuMemCreate failed: operation not permitted\n", "mnnvl-imex-channel-missing"),
    (
        "libibverbs: Warning: Driver irdma does not support the kernel ABI of 7 (supports 5 to 5)\n",
        "verbs-provider-mismatch",
    ),
    (
        "WARN: device mlx5_0 cannot allocate buffer on the specified memory type. Skipping...\n",
        "nic-buffers-not-mappable",
    ),
    (
        "modprobe: ERROR: could not insert 'nvidia': Function not implemented\n\nThis is Ubuntu on WSL2.",
        "wsl",
    ),
    ("ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory\n", "memlock-limit"),
    ("```\nmax locked memory       (kbytes, -l) 64\n```\n\nibv_create_cq fails.", "memlock-limit"),
    ("Nothing loads the driver.\n\n```\ninstall nvidia /bin/false\n```\n", "install-override"),
    ("It does not load.\n\n```\nblacklist nvidia-peermem\n```\n", "module-blacklisted"),
    (
        "n1:1:2 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to PIX\nn1:1:2 [0] "
        "NCCL INFO GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 3 > 2)\n",
        "gdr-level-too-low",
    ),
    (
        "```\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n```\n\n```\nMR "
        "registration failed: Bad address\n```\nRDMA of the GPU buffer fails.",
        "torch-expandable-segments",
    ),
)


LEADING = [
    pytest.param(sample(row), row.causes[0], id=f"{row.program}: {row.template[:40]}")
    for row in every_message()
    if row.leads and len(row.causes) > 1 and row.causes[0] not in GENERIC
]
"""Lines of several causes, of which the first is by far the most frequent, or what the line itself says."""


@pytest.mark.parametrize(("text", "code"), LEADING)
def test_a_cause_that_leads_is_the_answer(text: str, code: str):
    found = answered(text)
    assert (found.kind, found.cause) == ("cause", code)


@pytest.mark.parametrize(("text", "code"), PRINTED)
def test_a_printed_line_is_answered_with_its_cause(text: str, code: str):
    assert answered(text).cause == code


@pytest.mark.parametrize("post", [post for post, _ in POSTS] + list(OTHERS))
def test_words_alone_prove_nothing_and_name_no_cause(post: str):
    found = explained(post)
    assert (found.answer.kind, found.answer.cause, found.answer.others) == ("no-output", None, ())
    assert not any(machine.established for machine in found.machines)
    assert found.exit_code == 3
    assert len(as_text(found, width=400).splitlines()) == 3, "a heading and two lines"


def test_words_alone_lead_to_their_page():
    """Four of five posts find it, by an index of words; nothing is read of what they say."""
    found = [code for post, code in POSTS if code in answered(post).sentence]
    assert len(found) / len(POSTS) >= 0.8
    assert "gdr codes" not in answered("Our printer is jammed\n").sentence


def test_a_quoted_message_opens_causes_and_proves_none():
    line = "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_2'"
    for post in (f"My log has `{line}`, why?\n", f"My log has **{line}**, why?\n"):
        found = explained(post)
        assert found.answer.kind == "several"
        assert "peermem-not-loaded" in {cause.code for cause in found.answer.others}
        assert not any(machine.established for machine in found.machines)


@pytest.mark.parametrize("marks", ["**{}**", "> {}", "{}"])
def test_emphasis_around_a_printed_line_changes_nothing(marks: str):
    line = "n4:5:6 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_2'"
    plugin = "n4:5:6 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).\n"
    found = answered(plugin + marks.format(line) + "\n")
    assert found.kind == "several"
    within = line.replace("GPU Direct", "**GPU Direct").replace("mlx5_2'", "mlx5_2'**")
    assert answered(plugin + within + "\n").kind == "several"


REFUSED = "n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"


def test_the_only_product_that_a_text_names_orders_causes():
    found = answered(f"Two DGX Sparks.\n\n{REFUSED}")
    assert (found.cause, found.sureness, found.claimed) == ("gpu-integrated", "possible", True)
    assert "no output in the text shows it" in as_text(explained(f"Two DGX Sparks.\n\n{REFUSED}"))


@pytest.mark.parametrize(
    "words", ["Not a DGX Spark but an RTX 4090.", "It is no GeForce, it is an H100.", "Two servers."]
)
def test_a_text_that_names_two_products_or_none_orders_nothing(words: str):
    found = answered(f"{words}\n\n{REFUSED}")
    assert (found.kind, found.cause) == ("several", None)


def test_a_product_that_people_name_excludes_nothing():
    named, alone = (explained(f"{words}{REFUSED}") for words in ("We have H100s.\n\n", ""))
    assert {c.code for c in named.answer.others} == {c.code for c in alone.answer.others}


@pytest.mark.parametrize(
    ("gpus", "absent"),
    [
        ("NVIDIA GeForce RTX 4090", {"gpu-integrated", "gpu-vgpu", "gpu-mig", "gpu-confidential"}),
        ("NVIDIA H100 80GB HBM3", {"gpu-integrated", "gpu-consumer"}),
    ],
)
def test_a_text_whose_outputs_show_its_gpus_is_not_asked_about_others(gpus: str, absent: set[str]):
    page = explained(f"GPU 0: {gpus} (UUID: GPU-1)\nCouldn't allocate MR\n")
    named = {page.answer.cause, *(cause.code for cause in page.answer.others)}
    asked = {code for one in page.question.answers for code in one.codes} if page.question else set()
    assert not absent & (named | asked)


def test_where_no_cause_is_known_the_failing_line_is_quoted():
    found = answered("RDMA test\n\n```\nstarting\nxyz: fatal: engine stalled in phase 3\n```\n")
    assert (found.kind, found.cause) == ("nothing", None)
    assert "engine stalled" in found.lines[0].text
    assert answered("RDMA test\n\n```\nstarting, 0 errors\n```\n").lines == ()


def test_a_matrix_of_distances_points_to_the_command_that_reads_it():
    matrix = "        GPU0    mlx5_0  CPU Affinity\nGPU0     X      PIX     0-23\nmlx5_0  PIX      X\n"
    facts = [fact for machine in explained(matrix).machines for fact in machine.known]
    assert any("gdr topo" in fact.value for fact in facts)
    assert not any(machine.known for machine in explained("GPU0 is near the NIC.\n").machines)


# -- what is not known -----------------------------------------------------------------------------------


ONE_HOST = """\
ws1:101:120 [0] NCCL INFO NET/IB : No device found.
ws1:101:120 [0] NCCL INFO comm 0x55 rank 0 nranks {0} cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init START
ws1:102:121 [1] NCCL INFO comm 0x56 rank 1 nranks {0} cudaDev 1 nvmlDev 1 busId 3b000 commId 0x1 - Init START
"""


@pytest.mark.parametrize(
    ("level", "kind"), [("WARN Call to ibv_frobnicate failed", "nothing"), ("INFO Call failed", "harmless")]
)
def test_a_harmless_line_does_not_hide_one_that_fails(level: str, kind: str):
    harmless = "ws1:1:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal one"
    assert answered(f"{harmless}\nws1:1:2 [0] NCCL {level}\n").kind == kind


def test_a_job_on_one_host_needs_no_rdma_device():
    assert answered(ONE_HOST.format(2)).kind == "harmless"
    several = answered(ONE_HOST.format(4))
    assert (several.kind, several.others[0].code) == ("several", "no-rdma-device")


RANKS = "".join(
    f"ai-box:44:{rank} [{rank}] NCCL INFO {{0}} comm 0x55d3a1b2c800 rank {rank} nranks 2 cudaDev {rank}"
    f" busId {rank}1000 commId 0x11a2 - Init START\n"
    for rank in (0, 1)
)
WITHOUT = (
    "ai-box:44:0 [0] NCCL INFO NET/IB : No device found.\n",
    "ai-box:44:0 [0] NCCL INFO Failed to open libibverbs.so[.1]\n",
)
NO_NICS = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-13\nGPU1\tPHB\t X \t0-13\n"


@pytest.mark.parametrize("call", ["ncclCommInitRank", "ncclCommInitAll", "ncclCommInitRankConfig"])
@pytest.mark.parametrize("line", WITHOUT)
def test_nothing_that_nccl_says_of_a_network_fails_a_job_on_one_host(line: str, call: str):
    """What NCCL 2.25 to 2.30 print of two GPUs of one machine."""
    log = line + RANKS.format(call)
    found = explained(log)
    assert (found.answer.kind, found.exit_code) == ("harmless", 0)
    assert answered(NO_NICS + log).kind == "harmless"
    warns = "ai-box:44:0 [0] enqueue.cc:1449 NCCL WARN Cuda failure 1 'invalid argument'\n"
    assert answered(log + warns).lines[0].text == warns.strip()
    other_host = log.replace("ai-box:44:1", "other:44:1")
    assert answered(other_host).kind in ("several", "cause")


@pytest.mark.parametrize(
    ("words", "is_note"),
    [("nNodes 1", True), ("nNodes 2", False), ("", False), ("core dumped", True),
     ("nNodes 2, core dumped", True)],
)  # fmt: skip
def test_that_the_network_is_off_is_a_note_in_a_text_about_one_host_or_a_crash(words: str, is_note: bool):
    text = f"$ env\nNCCL_IB_DISABLE=1\n\nIt says: {words}\n"
    assert (noted(text), codes(text)) == ((OFF, set()) if is_note else (set(), OFF))


OFF = {"ib-disabled-by-env"}


def test_a_matrix_of_distances_is_no_failure():
    matrix = "        GPU0    mlx5_0  CPU Affinity\nGPU0     X      SYS     0-23\nmlx5_0  SYS      X\n"
    found = answered(matrix)
    assert (found.kind, found.others[0].code) == ("several", "pair-cross-socket")
    assert "what failed" not in found.sentence


@pytest.mark.parametrize(("fabric", "proven"), [("0.0", False), ("3a9c.71", True)])
def test_multi_node_nvlink_is_no_matter_of_a_gpu_without_a_fabric(fabric: str, proven: bool):
    line = "n6:3:3 [2] NCCL INFO "
    log = (
        f"{line}MNNVL busId 0x9d000 fabric UUID {fabric} cliqueId 0x0 state 3 healthMask 0x0\n"
        f"{line}NCCL_CUMEM_ENABLE set by environment to 0.\n"
    )
    found = {one.code for machine in explained(log).machines for one in machine.established}
    assert ("mnnvl-cumem-off" in found) is proven


# -- messages about something else -----------------------------------------------------------------------


def test_a_message_about_something_else_is_named_with_what_it_means():
    found = answered("Failed to initialize NVML: Unknown Error\n")
    assert found.kind == "elsewhere"
    assert "lost its access to the GPU's device files" in found.sentence
    assert found.now


def test_a_harmless_line_does_not_hide_a_failure():
    harmless = (
        "[ 9.0] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping\n"
    )
    assert answered(harmless).kind == "harmless"
    assert explained(harmless).exit_code == 0
    both = (
        harmless
        + "[ 9.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
    )
    assert answered(both).cause == "module-crc-mismatch"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("export NCCL_IB_GID_INDX=3\n", "NCCL_IB_GID_INDEX"),
        ("mpirun -x NCL_NET_GDR_LEVEL=SYS ./all_reduce_perf\n", "NCCL_NET_GDR_LEVEL"),
        ("I set NCCL_SOKCET_IFNAME to eth0\n", "NCCL_SOCKET_IFNAME"),
    ],
)
def test_a_misspelt_setting_is_named_with_the_one_that_was_meant(text: str, meant: str):
    assert f"the setting {meant} is not made" in answered(text).sentence


@pytest.mark.parametrize(
    "name", ["RCCL_NET_GDR_LEVEL", "NCCL_IB_GID_INDEX", "NCCL_MY_OWN_SETTING", "NCCL_IB_TCP"]
)
def test_names_of_other_libraries_and_unknown_names_are_not_misspelt(name: str):
    assert "misspelt" not in answered(f"export {name}=1\n").sentence


# -- how sure --------------------------------------------------------------------------------------------


def test_a_volta_without_dmabuf_words_is_not_told_that_nothing_can_be_fixed():
    disabled = "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    post = f"```\nGPU 0: Tesla V100-SXM2-32GB (UUID: GPU-1)\n```\n{disabled}"
    found = explained(post)
    assert found.answer.cause != "gpu-before-turing"
    assert [note.code for machine in found.machines for note in machine.notes] == ["gpu-before-turing"]
    spoken = explained(post + "Why does dma-buf not work?\n")
    assert [one.code for machine in spoken.machines for one in machine.established] == ["gpu-before-turing"]


def test_a_text_about_another_makers_gpus_gets_no_cause_of_nvidias():
    error = "ib_md.c:309  UCX  ERROR ibv_reg_mr(address=0x7fe3, length=16) failed: Bad address\n"
    assert answered(f"# OSU MPI-CUDA Bandwidth Test\n{error}").others
    assert "if it is a GPU's" in answered(error).sentence
    found = answered(f"# OSU MPI-ROCM Bandwidth Test\n{error}")
    assert (found.cause, found.others) == (None, ())
    assert "AMD" in found.sentence


def test_a_failure_without_a_known_reason_is_not_the_cause():
    found = answered("```\nCall to ibv_reg_mr failed with error Invalid argument\n```\n")
    assert found.cause is None


def test_what_to_do_about_a_rail_comes_with_its_list():
    text = "n1:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out\n"
    found = answered(text)
    assert found.cause == "rail-unreachable"
    items = [step for step in found.now if step.startswith("- ")]
    for name in ("NCCL_CROSS_NIC", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_IB_SUBNET_AWARE_ROUTING"):
        assert any(name in item for item in items)


@pytest.mark.parametrize(
    "text",
    [
        "n1:1:2 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n",
        '$ cat /proc/driver/nvidia/params\nResmanDebugLevel: 4294967295\nRegistryDwords: ""\n',
    ],
)
def test_what_only_gpu_kernels_that_start_transfers_need_is_no_cause_in_other_texts(text):
    """Most NCCLs have no GIN, and most drivers no PeerMappingOverride."""
    assert answered(f"Our job is slow.\n```\n{text}```\n").cause is None


def test_it_is_one_in_a_text_about_such_kernels():
    text = "NCCL version 2.27.5+cuda12.9\n"
    found = answered(f"DeepEP needs GIN here.\n```\nn1:1:2 [0] NCCL INFO {text}```\n")
    assert found.cause == "gin-unavailable"


def test_a_missing_nic_is_no_cause_where_the_job_goes_over_nvlink():
    line = "W topology.cpp:152] No RDMA devices found, check your device installation\n"
    nvlink = "I x.cpp:253] Using cross-node NVLink transport (MC_FORCE_MNNVL or no HCA detected)\n"
    other = "E0101 nvlink_transport.cpp:5] Requested address 0x5 to 0x9 not found!\n"
    assert answered(line + other).others[0].code == "no-rdma-device"
    assert answered(line + nvlink + other).cause is None


SPARKS = """# Two DGX Sparks are slow
How do I get GPUDirect to work?
modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument
NCCL INFO NET/IB : No device found.
NCCL INFO Using network Socket
"""


def test_a_named_product_is_possible_where_a_program_fails_as_it_does_there():
    answer = answered(SPARKS)
    assert (answer.cause, answer.sureness) == ("gpu-integrated", "possible")
    assert [line.line for line in answer.lines[:1]] == [1]
    for error in ("Required key not available", "Key was rejected by service"):
        rejected = answered(SPARKS.replace("Invalid argument", error))
        assert (rejected.cause, rejected.sureness) == ("gpu-integrated", "possible")
        assert "module-unsigned" in [cause.code for cause in rejected.others]  # words prove no product
        assert answered(SPARKS.replace("Invalid argument", error).replace("_peermem", "_uvm")).cause is None


def test_what_the_cause_does_not_explain_is_told_with_causes_of_its_own():
    answer = answered(SPARKS)
    (failure,) = answer.besides
    assert failure.line.line == 4
    assert failure.causes[0].code == "no-rdma-device"
    assert not {cause.code for cause in failure.causes} & {cause.code for cause in answer.others}
    assert "What else fails, for another cause\n  line 4:" in as_text(explained(SPARKS))


def test_a_setting_is_no_failure_of_its_own():
    page = explained(SPARKS.partition("NCCL INFO")[0] + "\n$ export NCCL_IB_DISABLE=1\n")
    assert ("ib-disabled-by-env",) in [line.codes for machine in page.machines for line in machine.open]
    assert page.answer.cause == "gpu-integrated"
    assert not page.answer.besides


def test_nccl_says_itself_that_a_distance_matters():
    line = "w3:881:910 [2] NCCL INFO GPU Direct RDMA Disabled for GPU 2 / HCA 0 (distance 9 > 5)\n"
    found = answered(line)
    assert (found.cause, found.sureness) == ("pair-distant", "possible")
    assert answered(line.replace("Disabled", "Enabled").replace("9 > 5", "4 <= 5")).cause is None


def test_a_distance_that_nccl_refuses_is_no_mere_listing():
    level = "w3:881:910 [2] NCCL INFO GPU Direct RDMA Disabled for GPU 2 / HCA 0 (distance 9 > 5)\n"
    quoted = answered(f"We see `{level.strip()}` there.\n")
    assert "whether that matters here" not in quoted.sentence


def test_a_note_explains_no_failing_line():
    version = "n4:1:2 [0] NCCL INFO NCCL version 2.8.4+cuda11.1\n"
    disabled = "n4:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_2'\n"
    found = explained(version + disabled)
    assert "nccl-lacks-dmabuf" in [note.code for machine in found.machines for note in machine.notes]
    assert (found.answer.kind, found.exit_code) == ("several", 3)
    assert "peermem-not-loaded" in [other.code for other in found.answer.others]


def test_a_queue_that_an_old_nccl_cannot_create_asks_for_the_limit_of_locked_memory():
    line = "n2:71:90 [0] misc/ibvwrap.cc:268 NCCL WARN Call to ibv_create_qp failed"
    found = explained(f"{line}\n")
    assert (found.answer.cause, found.answer.sureness, found.exit_code) == ("memlock-limit", "possible", 3)
    assert found.question is not None and found.question.command == "ulimit -l"
    assert answered(f"{line} with error Invalid argument\n").cause is None


def test_the_version_of_nccl_alone_opens_no_question_about_gin():
    found = explained("n1:4711:4711 [0] NCCL INFO NCCL version 2.26.2+cuda12.2\n")

    assert found.machines[0].notes[0].code == "gin-unavailable"
    assert "GIN" not in found.answer.sentence


NO_DMABUF = "n1:1:2 [0] NCCL INFO NET/OFI Support for DMA-BUF registrations: false\n"
CHANNELS = "n1:1:2 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/Libfabric/0{}\n"


def test_a_plugin_without_dmabuf_is_no_cause_where_its_channels_are_direct():
    """EFA's driver reaches GPU memory in another way: aws/aws-ofi-nccl issues 848 and 889."""
    assert answered(NO_DMABUF + CHANNELS.format("/GDRDMA")).kind == "no-problem", "rank 9 prints nothing"
    assert answered(NO_DMABUF + CHANNELS.format("")).kind == "several"


NO_MODULE = (
    "ibrc.cpp:nvshmemt_init:1851: neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.\n"
)
LOADED = "$ lsmod | grep nvidia_peermem\nnvidia_peermem         16384  0\n$ python test.py\n"


def test_a_loaded_module_that_nvshmem_does_not_find_is_a_check_of_nvshmem():
    """deepseek-ai/DeepEP issue 151. Whether the module is loaded decides between the two."""
    assert answered(LOADED + NO_MODULE).cause == "nvshmem-misses-peermem"
    assert answered(NO_MODULE).cause != "nvshmem-misses-peermem"


UNSCHEDULED = (
    "Warning  FailedScheduling  42s  default-scheduler  0/3 nodes are available: 3 Insufficient {}.\n"
)


def test_a_network_resource_that_no_node_offers_is_not_hidden_by_a_port_that_is_up():
    port = "$ ibdev2netdev\nmlx5_0 port 1 ==> enp65s0np0 (Up)\n"

    assert answered(UNSCHEDULED.format("rdma/shared_device_a") + port).kind == "elsewhere"
    assert answered(UNSCHEDULED.format("nvidia.com/hostdev") + port).kind == "elsewhere"
    assert answered(UNSCHEDULED.format("nvidia.com/gpu") + port).kind == "no-problem"


def test_a_script_of_the_driver_container_that_stops_is_no_fault_of_a_module():
    """NVIDIA/gpu-operator issue 609."""
    stops = "/usr/local/bin/nvidia-driver: line 769: RHEL_VERSION: unbound variable\n"

    assert answered(stops).kind == "elsewhere"


def test_a_numbered_list_of_steps_is_shown_like_any_other():
    """Each state of a port has a step of its own: INIT waits for a subnet manager."""
    shown = as_text(explained("$ ibstat mlx5_0\nCA 'mlx5_0'\n\tPort 1:\n\t\tState: Initializing\n"))

    assert "If none is, start one, in the switch" in " ".join(shown.split())


def test_a_line_of_the_kernel_about_a_port_misses_no_module():
    event = (
        "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded\n"
    )
    shown = " ".join(as_text(explained(event)).split())

    assert "Power budget exceeded" in shown
    assert "does not name a module" not in shown


def test_a_state_that_need_not_matter_is_below_what_outputs_prove_and_what_fails():
    asked = '$ grep RegistryDwords /proc/driver/nvidia/params\nRegistryDwords: ""\n'
    held = "CmaTotal:        0 kB\nCmaFree:    940604 kB\n"
    for text in (held + asked, asked + held):
        assert explained(text).answer.cause == "memory-held-for-kexec"
    failed = (
        "h1:1:2 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address\n"
    )
    for text in (failed + asked, asked + failed):
        assert explained(text).answer.others[0].code == explained(failed).answer.others[0].code
    assert [one.code for one in explained(asked).answer.others] == ["ibgda-peer-mapping-denied"]
