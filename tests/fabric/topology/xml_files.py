"""Constructed topology files, one per kind of machine."""

ONE_SWITCH = """<system version="1">
  <cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:16:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe"
         link_width="16">
      <pci busid="0000:18:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
"""
"""A handwritten file: NCCL adds the rest."""

DUMP = """<system version="1">
  <cpu host_hash="0x1d" numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD"
       familyid="175" modelid="17">
    <pci busid="0000:16:00.0" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000"
         subsystem_device="0x0001" link_speed="16.0 GT/s PCIe" link_width="16">
      <pcilink target="0000:46:00.0"/>
      <pci busid="0000:18:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="8">
        <nic>
          <net name="mlx5_0" dev="0" latency="0" speed="400000" port="1" guid="0x1"
               maxconn="131072" gdr="1"/>
          <net name="mlx5_0" dev="1" latency="0" speed="200000" port="2" guid="0x1"
               maxconn="131072" gdr="1"/>
        </nic>
      </pci>
      <pci busid="0000:1b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>
          <nvlink target="0000:4b:00.0" count="2" tclass="0x030200"/>
        </gpu>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="2" latency="0" speed="10000" port="0" guid="0x0"
               maxconn="65536" gdr="0"/>
    </nic>
  </cpu>
  <cpu host_hash="0x1d" numaid="1" affinity="ff00" arch="x86_64" vendor="AuthenticAMD"
       familyid="175" modelid="17">
    <pci busid="0000:46:00.0" class="0x060400" link_speed="" link_width="0">
      <pci busid="0000:4b:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="0"><c2c bw="43125" count="8"/></gpu>
      </pci>
    </pci>
  </cpu>
</system>
"""
"""A dump as NCCL writes it, with every kind of element."""
