"""Secrets as strangers write them into files that `gdr collect` keeps: the file, and its text with `{}` for
the secret. A row of `PATHS` is a part of an address, which only a random word betrays."""

from __future__ import annotations

RANDOM, WORD = "Zx9Qw3Lm7Kp2Vt5R8Hd4Bn6C", "swordfish"

LINE = "proc/cmdline"
ARGUMENTS = [
    "access-key={}", "auth={}", "cred={}", "bootkey={}", "root=cifs:u:{}@10.0.0.1/x",
    "nbdroot=10.0.0.1:{}:ext4", "nfsroot=u:{}@10.0.0.1:/x", "rd.luks.key={}", "rootpw={}", "ks.token={}",
    "inst.ks=https://host/ks?t={}", "inst.repo=http://u:{}@host/x", "netroot=iscsi:u:{}@host::3260:1:iqn",
    "systemd.setenv=PIN={}", "ignition.config.url=https://host/c?x={}", "ds=nocloud;s=http://host/{}/",
    "cloud-init.pw={}", "tailscale={}", "rd.znet_ifname={}", "wifi={}", "join=host,{}", "k3s.server={}",
    "luks.options=x-pin={}", 'note="pin is {}"', "talos.config=https://host/?h={}", "ipxe.login={}",
    "coreos.inst.ignition={}", "-- --unlock {}",
]  # fmt: skip
"""28 arguments."""

GRUB, ENTRY, ENVIRONMENT = "etc/default/grub", "boot/loader/entries/a.conf", "boot/grub2/grubenv"
MODPROBE, UNIT, UDEV = (
    "etc/modprobe.d/a.conf",
    "etc/systemd/system/peermem.service",
    "etc/udev/rules.d/9.rules",
)
LOG, POD, RC = "dmesg", "var/log/pods/nvidia-driver-daemonset/nvidia-peermem-ctr/0.log", "etc/rc.local"
DKMS, DRACUT, OPENIB = "etc/dkms/framework.conf", "etc/dracut.conf.d/a.conf", "etc/infiniband/openib.conf"
CUFILE, CDI, MANAGER = (
    "etc/cufile.json",
    "etc/nvidia-container-runtime/config.toml",
    "etc/systemd/system.conf",
)
RDMA, LIMITS, INIT = "etc/rdma/rdma.conf", "etc/security/limits.conf", "etc/init.d/openibd"

FILES = [
    (GRUB, 'GRUB_CMDLINE_LINUX="quiet vault={}"'), (GRUB, "GRUB_PASSPHRASE_HINT='{}'"),
    (GRUB, "# the password is {}"), (GRUB, 'GRUB_CMDLINE_LINUX_DEFAULT="a=\\"b {}\\" quiet"'),
    ("etc/default/grub.d/50-cloud.cfg", "export GRUB_CMDLINE_LINUX+=' seed={}'"),
    (ENTRY, "options root=UUID=1 ro unlock={} quiet"), (ENTRY, "# key {}"), (ENTRY, "options ro x='a {}'"),
    (ENVIRONMENT, "kernelopts=root=/dev/sda2 seal={} ro"), (ENVIRONMENT, "rescue={}"),
    ("etc/kernel/cmdline", "root=/dev/sda2 tang={}"), ("etc/kernel/cmdline.d/a.conf", "clevis={}"),
    (LOG, "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz door={} quiet"),
    (LOG, '[    0.1] Unknown kernel command line parameters "a=1 door={}", will be passed to user space.'),
    (LOG, "[    2.0]     door={}"), (LOG, "Nov 28 10:00:00 n kernel:     door={}"),
    (LOG, "[    9.0] audit: type=1327 audit(1:2): proctitle=6D7973716C002D70{}"),
    (LOG, '[    9.0] audit: type=1309 audit(1:2): argc=3 a0="mysql" a1="-p{}" a2="db"'),
    (LOG, "[    9.0] audit: type=1123 audit(1:2): pid=9 cmd={} terminal=pts/0"),
    (MODPROBE, "install a echo {} | sudo -S modprobe b"),
    (MODPROBE, "install a printf '%s\\n' '{}' | sudo -kS modprobe b"),
    (MODPROBE, "install a sudo -S modprobe b <<< {}"),
    (MODPROBE, "install a curl --pass {} https://host/up; modprobe --ignore-install a"),
    (MODPROBE, "install a /opt/up --auth {} && modprobe --ignore-install a"),
    (MODPROBE, "install a /opt/up --access-key={}; modprobe --ignore-install a"),
    (MODPROBE, "install a wget --http-password={} http://host/"),
    (MODPROBE, "install a ACCESS-KEY={} /opt/up"), (MODPROBE, "remove a /opt/down -key {}"),
    (MODPROBE, "options a bootkey={}"), (MODPROBE, "options a license_key={}"),
    (MODPROBE, "# cifs cred={}"), (MODPROBE, "install a mount -o username=u,password2={} //h/s /m"),
    (UNIT, "ExecStart=/bin/sh -c 'echo {} | docker login --password-stdin; modprobe nvidia-peermem'"),
    (UNIT, "Environment=PASSWD={} # for modprobe"),
    (UNIT, "ExecStartPre=/opt/modprobe-up --client-secret {}"),
    (UNIT, "SetCredential=peermem:{}"), (UDEV, 'ACTION=="add", RUN+="/sbin/modprobe x auth={}"'),
    (UDEV, 'ENV{{SECRET}}="{}", RUN+="/sbin/modprobe x"'),
    (RC, "modprobe x && curl -H 'X-Auth: {}' http://host/"), (RC, "modprobe x; openssl enc -k {} -in a"),
    (RC, "modprobe x; openssl rsa -passin pass:{} -in a"), (RC, "modprobe x; smbclient -U u%{} //h/s"),
    (RC, "modprobe x; redis-cli -a {} ping"), (RC, "modprobe x; PGPASSWORD={} psql"),
    (RC, "modprobe x; lftp -u bob,{} host"), (RC, "modprobe x; expect -c 'send \"{}\\r\"'"),
    (POD, "+ curl 'https://host/hook?key={}'"), (POD, "GET https://host/a?x=1&access={} 200"),
    (POD, 'x-api-key: "{}"'),
    (POD, "Set-Cookie: sid={}; Path=/"), (POD, "Proxy-Authorization: Basic {}"),
    (DKMS, "sign_tool_pin={}"), (DKMS, 'post_transaction="/opt/up --sign-pin {}"'),
    (DRACUT, 'kernel_cmdline="rd.pin={}"'), (OPENIB, "SNMP_COMMUNITY={}"),
    (CUFILE, '{{"cred": "{}"}}'), (CUFILE, '{{"auth": {{"pin": "{}"}}}}'),
    (CDI, 'environment = ["REGISTRY_PASS={}"]'), (MANAGER, 'DefaultEnvironment="DB_PASS={}"'),
    (RDMA, "community = {}"), (LIMITS, "# root pw: {}"), (INIT, "su - oracle <<< '{}'"),
]  # fmt: skip

PATHS = [
    (POD, "https://host/v1/{}/callback"), (MODPROBE, "install a curl https://host/hooks/{}"),
    (RC, "modprobe x; curl https://host/bot123456:{}/send"), (POD, "wss://host/socket/{}"),
    (POD, "git clone https://{}@example.com/repository.git"),
]  # fmt: skip


def rows() -> list[tuple[str, str]]:
    """Every file and text."""
    return [(LINE, f"quiet {argument} iommu=pt") for argument in ARGUMENTS] + FILES + PATHS
