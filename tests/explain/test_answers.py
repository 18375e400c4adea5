"""The first thing that `explain` answers to posts, in the words in which people write them."""

from __future__ import annotations

import pytest

from gdrkit.explain.explanation import Answer
from gdrkit.explain.text import text as as_text
from tests.explain.explaining import explained


def answered(text: str) -> Answer:
    return explained(text).answer


POSTS = (
    # -- hardware
    ("Does GPUDirect RDMA work on a DGX Spark? perftest says ok, NCCL prints no GDRDMA.", "gpu-integrated"),
    ("We have two servers with RTX 4090 cards and ConnectX-6. ib_write_bw --use_cuda=0 cannot register"
     " memory.", "gpu-consumer"),
    ("My cluster of 3090 GPUs with InfiniBand: is GDR possible?", "gpu-consumer"),
    ("Trying RDMA from inside WSL2, ibv_devices lists nothing and NCCL uses sockets.", "wsl"),
    ("The VM has a vGPU (GRID A100-40C) and GPUDirect RDMA registration fails.", "gpu-vgpu"),
    # -- modules
    ("Title: modprobe fails\n\nThe reason was that the module had been built for a different kernel.",
     "module-wrong-kernel"),
    ("nvidia-peermem does not load. It turned out that the MOK was never enrolled.", "module-unknown-key"),
    ("nvidia_peermem was blacklisted in /etc/modprobe.d, that was the issue.", "module-blacklisted"),
    ("After every reboot nvidia_peermem is gone and I have to modprobe it again.", "peermem-not-persistent"),
    ("nvidia_peermem does not survive a reboot; lsmod is empty afterwards.", "peermem-not-persistent"),
    ("GDR was disabled because nvidia_peermem was not loaded on the second node.", "peermem-not-loaded"),
    ("Solved: after `modprobe nvidia_peermem` NCCL prints GDRDMA.", "peermem-not-loaded"),
    ("The distribution's nvidia-peermem is only a stub, built without the OFED headers.", "peermem-stub"),
    ("The kernel module of the driver was not loaded: nvidia.ko was not loaded after the update.",
     "driver-not-loaded"),
    ("Failed to initialize NVML: Driver/library version mismatch", "driver-mismatch"),
    ("dma-buf export fails since we run the proprietary driver; switching to the open kernel modules fixed"
     " it.", "driver-proprietary"),
    ("Restarting openibd fails because ib_core is in use by nvidia_peermem.", "peermem-blocks-ofed"),
    # -- RDMA
    ("NCCL falls back to TCP as the machine has no InfiniBand devices.", "no-rdma-device"),
    ("ibstat says that the port is down, so RDMA cannot work.", "port-down"),
    ("State of mlx5_1 is Polling, the cable was bad. GPUDirect RDMA is slow.", "port-down"),
    ("Registering more than 256 MB fails, and BAR1 is 256 MiB on this card.", "bar1-small"),
    ("Resizable BAR is disabled in the BIOS and registration of large GPU buffers over RDMA fails.",
     "bar1-small"),
    ("BAR1 is exhausted after some registrations, nvidia-smi shows it full.", "bar1-exhausted"),
    ("ibv_reg_mr returns ENOMEM. The memlock limit was too low in the container.", "memlock-limit"),
    ("Fixed by `ulimit -l unlimited` in the Slurm daemon: ibv_reg_mr works now.", "memlock-limit"),
    ("In the pod there is no /dev/infiniband, so ibv_get_device_list finds nothing.",
     "rdma-device-not-in-container"),
    ("Running docker with --device=/dev/infiniband solved it: NCCL finds the HCAs.",
     "rdma-device-not-in-container"),
    ("The cause was rdma-core 28, which is too old and has no ibv_reg_dmabuf_mr.", "verbs-lacks-dmabuf"),
    ("Our kernel 5.4 is too old for dma-buf, so NCCL does not use it.", "kernel-lacks-dmabuf"),
    ("Memory of cuMemCreate cannot be registered with ibv_reg_mr; with cudaMalloc it works.",
     "memory-not-registrable"),
    ("Large buffers cannot be registered in the container. Setting memlock to unlimited should solve it.",
     "memlock-limit"),
    ("RDMA buffers of up to 230 MB work, larger than that the registration fails.", "bar1-small"),
    ("Registering a tensor of the framework fails: Bad address [14]. With cudaMalloc the error does not"
     " occur. It is RDMA on an A100.", "memory-not-registrable"),
    ("perftest cannot register GPU memory: I had forgotten to use --use_cuda_dmabuf.",
     "perftest-tests-other-path"),
    # -- PCIe
    ("All-reduce hung until we disabled ACS on the PCIe switches.", "acs-redirect"),
    ("ACS was enabled in the BIOS, and this was the reason for the low bandwidth.", "acs-redirect"),
    ("With the IOMMU enabled GPUDirect RDMA transfers corrupt data; iommu=off fixed it.",
     "iommu-translating"),
    ("GPU and NIC sit on different CPU sockets, therefore GDR is slow.", "pair-cross-socket"),
    ("The NIC is attached to another NUMA node than the GPU, traffic goes across UPI.", "pair-cross-socket"),
    ("The GPU and the HCA are below different root complexes, so NCCL stages through host memory.",
     "pair-distant"),
    ("The NIC trained at x8 instead of x16, LnkSta says downgraded.", "link-degraded"),
    # -- programs and settings
    ("NCCL 2.18 does not check for nvidia_peermem, it only looks for memory_peers.", "nccl-misses-peermem"),
    ("NVSHMEM does not find nvidia_peermem although the module is loaded.", "nvshmem-misses-peermem"),
    ("The image sets NCCL_IB_DISABLE=1, which is why RDMA was never used.", "ib-disabled-by-env"),
    ("It turned out somebody exported NCCL_DMABUF_ENABLE=0 in the job script.", "dmabuf-disabled-by-env"),
    ("With NCCL_NET_GDR_LEVEL=PIX set we saw no GDRDMA, SYS solved it.", "gdr-level-too-low"),
    ("Setting NCCL_NET_GDR_READ=1 fixed the slow sends.", "gdr-read-off"),
    ("The GID index was wrong, NCCL_IB_GID_INDEX=3 fixed the timeouts.", "gid-index-wrong"),
    ("NCCL_IB_HCA was wrong: it did not list the NIC of our GPU.", "hca-not-selected"),
    ("The nodes had different NCCL versions, versions differ between head and workers.",
     "versions-differ-between-ranks"),
    ("Completion with status 12, transport retry counter exceeded, on RoCE.", "retry-exceeded"),
    ("The environment variables differ between the nodes: only on the head node NCCL_IB_HCA is set.",
     "env-differs-between-ranks"),
    ("The peermem container waits for MOFED: waiting for mellanox ofed and nvidia drivers to be installed",
     "operator-waits-for-ofed"),
    ("After an upgrade of the MOFED pod the driver pod has to be restarted.", "operator-ofed-changed"),
    ("os.environ['NCCL_NET']='Socket'\n\nWhy is my RoCE card not used?", "ib-disabled-by-env"),
    ("nv_peer_mem: Unknown symbol ib_register_peer_memory_client, what can I do?", "rdma-lacks-peer-api"),
    ("UCX of this image does not find its CUDA modules: the CUDA modules are not found, so VRAM fails.",
     "ucx-lacks-cuda"),
    ("With a wrong list of HCAs the engine falls back to TCP: Mooncake falls back to TCP.",
     "rdma-transport-not-chosen"),
    ("Does it run on a GTX 1080 with GPUDirect RDMA?", "gpu-consumer"),
    ("Rank 3 hangs as the NIC status is Down on its node.", "port-down"),
    ("The NICs of the two hosts cannot reach each other: they are in different subnets.",
     "rail-unreachable"),
    ("nv_peer_mem was disabled by the last update, so registration failed.", "peermem-not-loaded"),
    ("All-reduce is slow on two H100 nodes. `lsmod | grep peermem` returns nothing.", "peermem-not-loaded"),
    ("Our pod sees no HCA. On the host ibv_devices lists eight.", "rdma-device-not-in-container"),
    ("Half the bandwidth: GPU2 is on socket 0, and the NIC on socket 1.", "pair-cross-socket"),
    ("EFA is slow. FI_EFA_USE_DEVICE_RDMA was missing, setting it solved that.", "gdr-disabled-by-env"),
    ("UCX falls back to TCP.\n\nIn fact libibverbs is not installed in the image.", "verbs-library-missing"),
    ("GDS is slow, gdscheck prints NVMe : Unsupported.", "nvidia-fs-symbols-missing"),
    ("The links are flapping on mlx5_2, and NCCL hangs.", "port-down"),
    # -- other languages
    ("peermem\u68c0\u67e5: lsmod | grep nvidia_peermem \u6ca1\u6709\u8f93\u51fa\uff0cGDR\u5931\u8d25\u3002",
     "peermem-not-loaded"),
    ("\u8981\u542f\u7528GDR\uff0c\u9700\u8981\u52a0\u8f7dnvidia_peermem\u6a21\u5757\u3002",
     "peermem-not-loaded"),
    ("GDR\u4e0d\u80fd\u7528\uff0c\u539f\u56e0\u662f\u6ca1\u6709\u52a0\u8f7dnvidia_peermem\u3002",
     "peermem-not-loaded"),
    ("\u7531\u4e8eBIOS\u4e2dACS\u6ca1\u6709\u5173\u95ed\uff0cGDR\u5f88\u6162\u3002", "acs-redirect"),
    ("GPUDirect RDMA ging nicht, weil nvidia_peermem nicht geladen war.", "peermem-not-loaded"),
    # -- outputs with words
    ("n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=12"
     " vendor err 129 (Recv)\n\nWe had NCCL_IB_GID_INDEX=0. After changing it to 3 the job runs.",
     "gid-index-wrong"),
    ("The level is NCCL_NET_GDR_LEVEL=PIX here.\n\n"
     "n1:1:2 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 4 > 3)\n",
     "gdr-level-too-low"),
    ("n1:1:2 [0] NCCL INFO NET/OFI Selected Provider is tcp (found 1 nics)\n",
     "rdma-device-not-in-container"),
    ("n1:1:2 [0] ofi_init:13 NCCL WARN NET/OFI Only EFA provider is supported\n", "no-rdma-device"),
    ("ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_x'\n",
     "module-symbol-gpl-only"),
    ("```\nassert props.ginType != NCCL_GIN_TYPE_NONE\n```\nOur run fails there.", "gin-unavailable"),
    ("Our job fails: cuMemCreate failed: operation not permitted\n", "mnnvl-imex-channel-missing"),
    ("libibverbs: Warning: Driver irdma does not support the kernel ABI of 7 (supports 5 to 5)\n",
     "verbs-provider-mismatch"),
    ("WARN: device mlx5_0 cannot allocate buffer on the specified memory type. Skipping...\n",
     "nic-buffers-not-mappable"),
    ("PS> wsl -d Ubuntu\n\n# NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver\n",
     "wsl"),
    ("modprobe: ERROR: could not insert 'nvidia': Function not implemented\n\nThis is Ubuntu on WSL2.",
     "wsl"),
    ("ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory\n", "memlock-limit"),
    ("```\nmax locked memory       (kbytes, -l) 64\n```\n\nibv_create_cq fails.", "memlock-limit"),
    ("Nothing loads the driver.\n\n```\ninstall nvidia /bin/false\n```\n", "install-override"),
    ("It does not load.\n\n```\nblacklist nvidia-peermem\n```\n", "module-blacklisted"),
    ("n1:1:2 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to PIX\n"
     "n1:1:2 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 4 > 2)\n",
     "gdr-level-too-low"),
    ("```\nexport PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n```\n\n"
     "```\nMR registration failed: Bad address\n```\nRDMA of the GPU buffer fails.",
     "torch-expandable-segments"),
    ("A dump of the topology has\n```\n<net name=\"mlx5_0\" dev=\"0\" gdr=\"0\"/>\n```\n"
     "because nvidia_peermem was not loaded.", "peermem-not-loaded"),
    ("nvidia-peermem-ctr restarts all the time. We replaced the MOFED container before.\n"
     "```\n[ 9.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n```\n",
     "operator-ofed-changed"),
    ("modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service\n\nI signed it, but"
     " never enrolled the key.", "module-unknown-key"),
    ("n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)\n\nlsmod shows"
     " nothing for nvidia_peermem.", "peermem-not-loaded"),
    ("n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=4 opcode=1 len=0 vendor"
     " err 81 (Recv)\n\nDisabling ACS solved it.", "acs-redirect"),
)  # fmt: skip


@pytest.mark.parametrize(("post", "code"), POSTS)
def test_a_post_is_answered_with_the_cause_that_it_names(post: str, code: str):
    assert answered(post).cause == code


NOT_NAMED = (
    ("ACS is not enabled on our PCIe switches, and GPUDirect RDMA is slow.", "acs-redirect"),
    ("The IOMMU is off and nvidia_peermem is loaded, GDR is slow all the same.", "iommu-translating"),
    ("nvidia_peermem is loaded on both nodes.", "peermem-not-loaded"),
    ("If nvidia_peermem is not loaded, load it with modprobe.", "peermem-not-loaded"),
    ("You should load nvidia_peermem and disable ACS.", "acs-redirect"),
    ("P2P copies between my two RTX 4090 cards fail in one desktop.", "gpu-consumer"),
    ("This is not a GeForce but an A100; RDMA registration fails.", "gpu-consumer"),
    ("The NVMe drive and the GPU are below different root complexes, and GPUDirect Storage is slow.",
     "pair-distant"),
    ("With NCCL_NET_GDR_LEVEL=0 everything works, with GDR it hangs.", "gdr-level-too-low"),
    ("NCCL_IB_DISABLE=0 is set and the log shows NET/IB.", "ib-disabled-by-env"),
    ("The memlock limit is unlimited in the container, ibv_reg_mr fails nevertheless.", "memlock-limit"),
    ("Secure Boot is enabled and the driver works.", "lockdown-blocks-module"),
    ("The port is up and active, ib_write_bw reaches line rate.", "port-down"),
    ("BAR1 is 128 GiB here.", "bar1-small"),
    ("The environment sets NCCL_IB_DISABLE=1 but InfiniBand is used anyway.", "ib-disabled-by-env"),
    ("NCCL_IB_DISABLE=1 does not work\n\nNCCL takes mlx5_0 all the same.", "ib-disabled-by-env"),
    ("Broken transfers on two nodes.\n\n* nv_peer_mem not installed yet", "peermem-not-loaded"),
    ("Registration fails. I rebuilt the NVIDIA driver after OFED. No change.", "ofed-rebuilt-after-driver"),
    ("GDR is slow; disabling ACS did not help.", "acs-redirect"),
    ("Use ibv_reg_dmabuf_mr in the transport\n\nIt does not need nvidia-peermem.", "verbs-lacks-dmabuf"),
    ("Our MI300X cluster with RCCL on ROCm: GPU memory fails to register, peer memory is missing.",
     "peermem-not-loaded"),
    ("ibv_reg_mr() failed: Cannot allocate memory\n\nThis is on a DGX Spark with RDMA.", "gpu-integrated"),
    ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n\nCUDA out of memory.", "torch-expandable-segments"),
    ("blacklist nouveau\n\nThe driver of the RDMA NIC does not start.", "module-blacklisted"),
    ("The test fails, as UCX finds a data-direct NIC in another IOMMU group.", "data-direct-missing"),
    ("cat: /sys/kernel/mm/x: No such file. The module is fine, RDMA fails.", "module-not-found"),
    ("ibv_reg_dmabuf_mr fails with error 524 on this node.", "dmabuf-mr-refused"),
    ("With 250 GB/s we are below the bandwidth of RDMA.", "bar1-small"),
    ("x: no symbol version for nvidia_p2p_get_pages\n\nThe symbol version of the module has a mismatch.",
     "module-crc-mismatch"),
    ("An IOMMU can interfere with GPUDirect RDMA by redirecting it.", "iommu-translating"),
    ("The fabric breaks.\n\nWorkarounds Tested\n\nNCCL_CUMEM_ENABLE=0 is set, the job then runs.",
     "mnnvl-cumem-off"),
    ("Two domains on nodes within one clique conflict, cuMemSetAccess fails.", "mnnvl-clique-differs"),
    ("The GPU operator does not enable confidential computing on my H200.", "gpu-confidential"),
    ("n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=12"
     " opcode=0 len=0 vendor err 129 (Recv)\n\nThe GID index may be wrong.", "gid-index-wrong"),
    ("A pinned NIC routes every registration to its domain. The reason is a filter in the allocator.",
     "rail-unreachable"),
    ("What's the cause? BAR1 of 128 GB, registration of large buffers fails.", "bar1-small"),
    ("UCX_TLS=rc,sm,cuda_copy mpirun -n 2 app\n\nUCX hangs with RDMA.", "ucx-transport-excluded"),
)  # fmt: skip


@pytest.mark.parametrize(("post", "code"), NOT_NAMED)
def test_a_post_that_denies_or_does_not_name_a_cause_is_not_answered_with_it(post: str, code: str):
    assert answered(post).cause != code


def test_what_did_not_help_makes_other_causes_likelier():
    line = "n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    assert answered(line).kind == "several"
    assert answered(f"nvidia_peermem is loaded.\n\n{line}").cause == "nccl-misses-peermem"


def test_a_root_cause_in_words_outweighs_what_is_only_mentioned():
    found = answered(
        "On two DGX Sparks RDMA registration fails. The root cause is a leak of pinned CMA pages."
    )
    assert (found.kind, found.cause) == ("stated", None)
    assert "leak" in found.sentence


def test_a_question_and_a_proposal_report_nothing():
    for post in ("Is nvidia_peermem being loaded by the GPU operator?", "Load nvidia_peermem at boot"):
        assert answered(post).cause is None


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


DOCUMENTS = (
    "Symptoms\n\nTransfers fail after an update.\n\nCommon causes\n\nACS is enabled.\n\nStep-by-step fix\n",
    "How to enable GPUDirect RDMA\n\nPrerequisites\n\nInstall the driver.\nLoad"
    " nvidia_peermem.\nCheck that ACS is"
    " off.\n",
    "Chapter 7. Peer memory\n\nThe module nvidia-peermem must be loaded. It is required to use MLNX_OFED.\n",
    "Troubleshooting guide for NCCL\n\nThis guide lists common causes.\n\n- ACS is enabled\n-"
    " nvidia_peermem is not"
    " loaded\n- the port is down\n",
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documentation_is_told_as_such_and_names_no_cause(document: str):
    found = answered(document)
    assert (found.kind, found.cause) == ("documentation", None)
    assert explained(document).machines == () or explained(document).machines[0].established == ()


def test_a_report_with_the_headings_of_a_template_is_no_documentation():
    head = "### Describe the bug\nNCCL hangs.\n### Steps to reproduce\nRun it."
    post = f"{head} ACS is enabled, this is the cause.\n"
    assert answered(post).cause == "acs-redirect"


@pytest.mark.parametrize(
    ("title", "reports"),
    [
        ("RDMA throughput drops with three NICs", True),
        ("RDMA with three NICs", False),
        ("Guide: what to do if RDMA throughput drops", False),
    ],
)
def test_a_text_whose_title_reports_a_failure_is_no_documentation(title: str, reports: bool):
    steps = "I followed the documentation of the switch.\n\nIn this chapter it says that ACS is enabled.\n"
    assert (answered(f"# {title}\n\n{steps}").kind != "documentation") is reports


# -- what is not known -----------------------------------------------------------------------------------

NO_REASONS = (
    "After mounting the volume in both containers, we launch NCCL with: `mpirun -np 4 ./sendrecv_perf`",
    "NCCL timeouts cause errors",
    "Looking for the reason, I noticed that lspci shows no memory of the third GPU.",
    "The package is small, so I suggest to ship libfoo in every image.",
    "The GPU and the NIC are below one switch and therefore on one NUMA node.",
    "The job crashes with RDMA (with TCP sockets it works), my container is built from master.",
    "By contrast, the benchmark with host memory works, so the driver and the cable are good.",
    "The switch works without any error.",
    "Running the training on 16 nodes in the new container causes NCCL to abort.",
    "Possible causes are a bad cable or the firmware.",
    "The test works when you have more than two RDMA cards, so ignore it.",
    "I can verify that the issue does not occur with the UCX transport.",
    'The module says "key was rejected because of the lockdown" when I insert it.',
    "If I set NCCL_NET=Socket, the problem of the NIC is gone.",
    "The error is solved with `NCCL_IB_DISABLE=1`, but the network is slow then.",
    "The failure is difficult to diagnose because the NCCL error comes late.",
    "In the script I hit the error `lane[1]: no GPU memory`, so NCCL falls back to sockets and is slow.",
    "This is what I got when running the NCCL test:",
    "The NCCL plugin must include the fix from pull/123.",
    "The next release of NCCL should be fixed by #12.",
    "Did you enable PFC on the switch ? Otherwise the RDMA rate will suffer because packets are dropped.",
    "The issue was found using the NIC test of https://host/pull/123.",
    "Uninstall the IB driver and the problem is solved.",
    "Did the job abort because the NIC was reset ? Please tell me all.",
    "The RDMA run is inconclusive, because the pod was killed by the scheduler.",
)


REASONS = (
    "The driver has a leak, so every registration of a buffer fails.",
    "The job aborts because the switch drops packets of more than 1 KB.",
    "It turned out that the firmware of the NIC had a leak.",
    "The plugin pins each page twice, therefore the container gets no memory and is killed.",
    "This is a regression introduced between NCCL 2.26 and 2.27.",
    "The registration of this buffer was fixed by pull/77 of the NIC driver.",
)


def test_what_a_sentence_refers_back_to_is_quoted_with_it():
    lack = "The branch has no code for the new layout of NVSHMEM."
    told = answered(f"The kernel never returns\n\n{lack}\n\nThis causes the dispatch to hang.\n")
    assert told.sentence.endswith(f"{lack} This causes the dispatch to hang.")
    asked = answered(
        "The kernel never returns\n\nIs the layout of NVSHMEM new?\n\nThis is odd, is it not?\n"
    )
    assert asked.kind != "stated"


def test_what_a_post_offers_is_the_reason_if_the_next_one_confirms_it():
    byline_of_alice = "alice \u00b7 comment \u00b7 2025-02-14\n"
    thread = f"{byline_of_alice}Can you try the patch of https://host/pull/99 for this buffer?\n\n"
    byline = "bob \u00b7 comment \u00b7 2025-02-15\n"
    assert (
        "pull/99"
        in answered(f"# osu_latency aborts\n\n{thread}{byline}Yes, it is fixed. Thank you!\n").sentence
    )
    assert answered(f"# osu_latency aborts\n\n{thread}{byline}No change, sorry.\n").kind != "stated"


def test_the_sentence_that_says_why_is_preferred_to_the_symptom_below_the_same_label():
    why = "It is attributable to the change of the UCX headers."
    found = answered(
        f"The transfer fails\n\n**Root cause:** The first RDMA transfer of each pod never ends. {why}\n"
    )
    assert found.sentence.endswith(why)


@pytest.mark.parametrize(
    ("heading", "kind"), [("Root cause:", "stated"), ("Some possible causes:", "nothing")]
)
def test_causes_that_are_only_possible_are_no_reason(heading: str, kind: str):
    text = f"The transfer fails\n\n{heading}\n\n1. The module of the NIC lies at two places.\n"
    assert answered(text).kind == kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Without the path of the plugin, NCCL falls back to sockets.", "stated"),
        ("Reads of the GPU are slow if it shares no switch with the NIC.", "nothing"),
    ],
)
def test_what_a_change_says_of_cases_is_no_reason(said: str, kind: str):
    assert answered(f"# The transfer fails\n\n## Why\n\n{said}\n").kind == kind


@pytest.mark.parametrize("title", ["fix(net): force RDMA in the test", "fix: force RDMA in the test"])
def test_a_title_that_announces_a_change_is_no_reason(title: str):
    assert answered(f"# {title}\n\nSetting it will allow NCCL to reach its rate.\n").kind != "stated"


def test_the_reason_of_a_text_about_another_maker_is_quoted():
    said = (
        "The amdgpu driver pins each buffer in host memory. This means that the NIC never reaches the GPU."
    )
    assert answered(f"amdgpu and ROCm: no RDMA\n\n{said}\n").sentence.endswith(said)
    assert answered("amdgpu and ROCm: no RDMA\n\nWhich driver is needed?\n").kind == "elsewhere"


@pytest.mark.parametrize(
    ("sentence", "cause"),
    [
        ("We set NCCL_IB_DISABLE=1 in the image, that was the problem.", "ib-disabled-by-env"),
        ("If I set NCCL_IB_DISABLE=1, the error goes away.", None),
        ("The error is solved with `NCCL_IB_DISABLE=1`, but it is slow.", None),
        ("The control job (`NCCL_IB_DISABLE=1`) ran for 17 min on the same hosts.", None),
    ],
)
def test_a_setting_with_which_a_problem_does_not_occur_is_not_its_cause(sentence: str, cause: str | None):
    text = (
        f"# NCCL WARN NET/IB : collective mismatch error\n\nTwo nodes with H100 fail over RDMA. {sentence}\n"
    )
    assert answered(text).cause == cause


def test_the_page_of_a_thread_is_not_its_title():
    page = "acme/tool \u00b7 issue #7 \u00b7 closed \u00b7 Go\nlabels: bug, stale\n"
    title = "# The UCX of the image was built without CUDA"
    body = (
        "\n\nThe pods run on eight nodes. Logs follow. I use the chart. Version 3. Thanks. Bye. See you.\n"
    )
    assert answered(f"{page}{title}{body}").cause == "ucx-lacks-cuda"
    assert answered(f"{page}# feat: build the UCX of the image without CUDA{body}").cause is None


ONE_HOST = """\
ws1:101:120 [0] NCCL INFO NET/IB : No device found.
ws1:101:120 [0] NCCL INFO comm 0x55 rank 0 nranks {0} cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init START
ws1:102:121 [1] NCCL INFO comm 0x56 rank 1 nranks {0} cudaDev 1 nvmlDev 1 busId 3b000 commId 0x1 - Init START
"""


@pytest.mark.parametrize(
    ("level", "kind"), [("WARN Call to ibv_create_cq failed", "nothing"), ("INFO Call failed", "harmless")]
)
def test_a_harmless_line_does_not_hide_one_that_fails(level: str, kind: str):
    harmless = "ws1:1:2 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal one"
    assert answered(f"{harmless}\nws1:1:2 [0] NCCL {level}\n").kind == kind


def test_a_job_on_one_host_needs_no_rdma_device():
    assert answered(ONE_HOST.format(2)).kind == "harmless"
    several = answered(ONE_HOST.format(4))
    assert (several.kind, several.others[0].code) == ("several", "no-rdma-device")


@pytest.mark.parametrize(
    ("sentence", "gives"), [*((one, False) for one in NO_REASONS), *((one, True) for one in REASONS)]
)
def test_only_a_sentence_that_gives_a_reason_is_quoted_as_one(sentence: str, gives: bool):
    found = answered(f"RDMA job aborts\n\n{sentence}\n")
    assert (found.kind == "stated") is gives
    assert (sentence in found.sentence) is gives


@pytest.mark.parametrize(
    "text",
    [
        "fi_mr_regattr() of the GPU's segment returns 12\n",
        "How do I use my IB 200G card for training?\n",
        "The GPUDirect-TCPXO daemon counts 3 GPUs of 4 and stops\n",
    ],
)
def test_a_text_about_the_network_of_gpus_is_known_as_one(text: str):
    assert "about RDMA or GPU memory" in answered(text).sentence


def test_of_another_text_only_what_is_not_recognized_is_said():
    assert answered("Our printer is jammed\n").sentence.startswith(
        "gdr recognizes nothing about RDMA or NCCL"
    )


def test_a_log_with_gpudirect_does_not_make_a_hang_no_problem():
    channel = "n4:7:9 [1] NCCL INFO Channel 02/0 : 1[1] -> 9[1] [send] via NET/IB/3/GDRDMA\n"
    fine, hangs = answered(f"A log\n\n{channel}"), answered(f"Training hangs\n\n{channel}")
    assert fine.sentence.startswith("The text shows no problem")
    assert hangs.kind == fine.kind == "working"
    assert "no problem" not in hangs.sentence
    assert hangs.lines[1].text == "Training hangs"
    assert "No problem" not in as_text(explained(f"Training hangs\n\n{channel}"))


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
    found = answered(
        "h1:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with 19 No such device, on dev mlx5_1\n"
    )
    assert found.kind == "elsewhere"
    assert "belongs to no network interface here" in found.sentence
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


def test_a_plugin_on_some_hosts_only_is_named():
    have = "n1:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin Libfabric (v8)\n"
    lack = "n2:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so\n"
    assert "n1 loads it, n2 does not" in answered(have + lack).sentence
    assert "n1" not in answered(have + lack.replace("n2", "n1")).sentence


# -- how sure --------------------------------------------------------------------------------------------


def test_outputs_come_before_words():
    post = (
        "I think ACS is enabled.\n\n```\n[ 1.1] nvidia_peermem: disagrees about version of symbol x\n```\n"
    )
    found = answered(post)
    assert (found.cause, found.sureness, found.claimed) == ("module-crc-mismatch", "certain", False)
    assert [other.code for other in found.others] == ["acs-redirect"]


def test_a_cause_that_was_found_is_likelier_than_one_that_is_only_mentioned():
    post = "The memlock limit is 64 KB.\n\nThe root cause was that ACS was enabled.\n"
    found = answered(post)
    assert (found.cause, found.sureness, found.claimed) == ("acs-redirect", "likely", True)
    assert answered("ACS is enabled. Does that matter for GDR?\n").sureness == "possible"


def test_a_line_with_several_causes_names_none_unless_words_rank_them():
    error = "modprobe: ERROR: could not insert 'nvidia': Operation not permitted\n"
    found = answered(error)
    assert (found.kind, found.cause) == ("several", None)
    assert found.others[0].code == "lockdown-blocks-module"
    assert answered(f"Secure Boot is enabled here.\n\n{error}").cause == "lockdown-blocks-module"


def test_what_an_output_excludes_is_not_answered():
    lsmod = "$ lsmod | grep peermem\nnvidia_peermem         16384  0\n"
    assert answered("nvidia_peermem is not loaded, is it?\n").cause == "peermem-not-loaded"
    assert answered(f"nvidia_peermem is not loaded, is it?\n\n{lsmod}").cause is None


def test_the_reason_in_the_own_words_of_a_text_is_quoted_where_no_code_fits():
    found = answered("Transfers of frobnicated GPU buffers fail because the NIC firmware 12.3 drops them.\n")
    assert (found.kind, found.cause, found.claimed) == ("stated", None, True)
    assert "firmware 12.3 drops them" in found.sentence


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
    assert not answered(error).others, "nothing tells that it was a GPU's memory"
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


def test_an_output_that_shows_a_state_stands_against_a_denial():
    limit = "$ ulimit -a\nmax locked memory       (kbytes, -l) {}\n"
    text = "ibv_create_cq() failed: Cannot allocate memory\nThe memlock limit is unlimited on all nodes.\n"
    assert answered(text + limit.format(64)).cause == "memlock-limit"
    assert answered(text + limit.format("unlimited")).cause is None
    asked = "can you check if max locked memory is set to unlimited? newer versions warn about it\n"
    assert answered(f"ibv_create_cq fails\n{asked}{limit.format(64)}").cause == "memlock-limit"


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
    assert answered(line + other).cause == "no-rdma-device"
    assert answered(line + nvlink + other).cause is None


def test_an_error_that_a_reply_dismisses_is_not_the_cause():
    text = (
        "Hang with NCCL WARN Failed to open libibverbs.so\n\n`NCCL WARN Failed to open libibverbs.so` {}.\n"
    )
    assert answered(text.format("shouldn't be an issue here")).cause is None
    assert answered(text.format("is printed first")).cause == "verbs-library-missing"


SPARKS = """# Two DGX Sparks are slow
How do I get GPUDirect to work?
modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument
NCCL INFO NET/IB : No device found.
NCCL INFO Using network Socket
"""


def test_hardware_is_likely_where_a_program_fails_as_it_does_there():
    answer = answered(SPARKS)
    assert (answer.cause, answer.sureness) == ("gpu-integrated", "likely")
    assert [line.line for line in answer.lines[:2]] == [1, 3]
    assert answered(SPARKS.replace("Invalid argument", "Required key not available")).sureness == "possible"


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


def test_what_follows_from_the_cause_is_not_told_apart():
    failing = "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0\n"
    answer = answered(f"# GPUDirect RDMA does not work in WSL2\n{failing}")
    assert answer.cause == "wsl"
    assert not answer.besides


@pytest.mark.parametrize(
    "gpus, absent",
    [
        ("RTX 4090", {"gpu-integrated", "gpu-vgpu", "gpu-mig", "gpu-confidential"}),
        ("H100", {"gpu-integrated", "gpu-consumer"}),
        ("H100 and RTX 4090", {"gpu-integrated"}),
        ("new", set()),
    ],
)
def test_a_text_that_names_its_gpus_is_not_asked_about_others(gpus: str, absent: set[str]):
    page = explained(f"ib_write_bw --use_cuda=0 fails with our {gpus} GPUs:\nCouldn't allocate MR\n")
    named = {page.answer.cause, *(cause.code for cause in page.answer.others)}
    asked = {code for one in page.question.answers for code in one.codes} if page.question else set()
    assert not absent & (named | asked)
    kinds = {"gpu-integrated", "gpu-consumer", "gpu-vgpu", "gpu-mig", "gpu-confidential"}
    assert kinds - absent <= asked


@pytest.mark.parametrize(
    "sentence, code",
    [
        ("GPUDirect RDMA does not work in WSL2.", "wsl"),
        ("NCCL does not use GPUDirect RDMA on our DGX Spark.", "gpu-integrated"),
        ("ib_write_bw --use_cuda cannot work, our machine is not a DGX Spark.", None),
    ],
)
def test_what_fails_on_a_machine_denies_no_machine(sentence: str, code: str | None):
    assert answered(sentence).cause == code
