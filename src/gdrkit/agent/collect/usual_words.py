"""Words of kernel logs, settings and tools that no reader of evidence has in its texts.

Among them are short names of systems: what a setting calls a user is replaced even if it is short.
"""

_WORDS = """
    admin advice affinity algorithms allows amd ampere anchor appended archive arm attributeerror audit
    average bandwidth basic being below bidirectional bin binascii blocked boot booted bracket builder
    bundle busbw carry causes certain certificate character characters children close closing cloud
    collected collection collector columns comma complex connectx constraints contains contradict core
    counted cpuset csafeloader cuda cudasetdevice damaged decompresses deeper dev dgx dkms dmidecode
    doctype document downstream ecdsa element elements endian enotty entities entity etc eth evidence
    exceeds except expand explain extension extensions farthest fileno findings follow garbled gdr given
    gpu grace graphs green guest head hidden home hopper host hwloc ib identify identity indentation
    indented indicator initial integer issuer iterations journal key keys kstrtabns kvm larger latin
    levels lib linkpath localdomain localhost login magenta main making master matrix meaning media mem
    members memfd method misleading mlx mlx5 modalias mounted moved msgrate msgsize nccl nested net nic
    node nodeset none normal nthread numbers ofed openssh opt orin osdev oserror outermost outside
    overlap pci pcilib peer picking pod point position possible proc proves public qemu quoted rate rdma
    reading redhat reduced refusing regular relocatable results rhel roce rocky root routes run rxpci
    scalar second sections simple sizes sosreport spark sparse spool srv stale stamped standard starting
    states stderr stdin stdout stepping stream streams string subject subtype suse switch symbolic sys
    tempfile temporary terminal test tested times tmpdir token tracing txpci typical ucx undecided
    unnumbered unpack unpacks unreadable upstream user usr ustar valid values var variables visible vm
    worker writeimm xavier yellow yourself
"""
USUAL = frozenset(_WORDS.split())
