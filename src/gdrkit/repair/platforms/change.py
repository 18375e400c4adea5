"""What a remedy changes. Each platform changes some of it, in its own way, and some of it not at all."""

from __future__ import annotations

import enum


class Change(enum.StrEnum):
    """What a remedy changes, and so who does it and how."""

    DRIVER = "driver"  # NVIDIA's modules are installed, built or loaded
    SIGNATURE = "signature"  # a key of the machine's owner signs them
    OPTION = "option"  # a parameter of NVIDIA's driver
    OFED = "ofed"  # NVIDIA's RDMA drivers, in place of the kernel's
    PEERMEM = "peermem"  # nvidia-peermem is loaded, now or at boot
    WITHOUT_PEERMEM = "without-peermem"  # it is no longer loaded
    LOADING = "loading"  # what modprobe.d says of modules, or an old module that is in the way
    ARGUMENT = "argument"  # of the kernel
    REGISTER = "register"  # of PCIe devices, by setpci
    LIMIT = "limit"  # of locked memory
    SERVICE = "service"  # of NVIDIA, beside the driver
    RESTART = "restart"  # of the machine or of one device
    FIRMWARE = "firmware"  # a setting of its setup
    JOB = "job"  # the image, environment or container of the job: no host is touched
