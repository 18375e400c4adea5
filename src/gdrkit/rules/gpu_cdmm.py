"""Coherent GPUs whose memory the driver manages itself."""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.facts.driver import driver_parameters, driver_version
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.formats.versions import numbers
from gdrkit.node import Node
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule

PARAMETER = "CoherentGPUMemoryMode"


@rule(
    "gpu-cdmm",
    Layer.HARDWARE,
    per=gpus,
    takes=(ADDRESS,),
    cost="nvidia-peermem cannot register GPU memory; dma-buf can.",
    references=("https://docs.nvidia.com/datacenter/tesla/",),
)
def gpu_cdmm(node: Node, gpu: PciGpu) -> Outcome:
    """The driver manages the memory of a coherent GPU itself (CDMM), and nvidia-peermem cannot use such
    memory.

    Cost: peermem fails. dma-buf works, but kernels before 6.18 also need nvidia_uvm to be loaded; otherwise
    the kernel log says `Failed to get a reference on dev_pagemap in CDMM(driver) mode`.

    How to tell: On a GH200, GB200 or GB300 with a driver of the 580 branch,
    `grep CoherentGPUMemoryMode /proc/driver/nvidia/params` prints "driver".

    What to do: Use dma-buf; or install driver 590 or newer; or add
    `options nvidia NVreg_CoherentGPUMemoryMode=numa` to a file in /etc/modprobe.d.

    Why: In this mode, GPU memory is not a NUMA node of the kernel. The driver's header of 580 says that
    nvidia_p2p_get_pages does not support it; from 590.44.01 on, that sentence is gone.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-p2p.h and nv-dmabuf.c at 580.65.06 and 590.44.01.
    """
    if not is_coherent(node, gpu):
        return NotApplicable("the GPU is not coherent with its CPU")
    mode = driver_parameters(node).get(PARAMETER, "")
    if mode != "driver":
        return Passed(f"{PARAMETER} is {mode or 'not set'}")
    version = driver_version(node)
    if numbers(version) < (590,):
        return Failed(
            seen=f"{PARAMETER}: driver, with driver {version}",
            expected=f"{PARAMETER}: numa, or a driver of 590 or newer",
            subject=gpu.address,
        )
    node.cite("nv-p2p.h of 590", text="no longer excludes CDMM", confidence=Confidence.LIKELY)
    return Passed(f"driver {version} no longer excludes it")
