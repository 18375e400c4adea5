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
MODPROBE, LOADED, UNIT = (
    "etc/modprobe.d/a.conf",
    "etc/modules-load.d/a.conf",
    "etc/systemd/system/peermem.service",
)
UDEV, RC, LOG = "etc/udev/rules.d/9.rules", "etc/rc.local", "sos_commands/kernel/dmesg"
JOURNAL, POD = "sos_commands/logs/journalctl_--no-pager_--dmesg", "var/log/pods/a/nvidia-peermem-ctr/0.log"
NCCL, UCX, SHELL = "etc/nccl.conf", "etc/ucx/ucx.conf", "proc/self/environ"
LIMITS, DKMS, CUFILE = "etc/security/limits.conf", "etc/dkms/framework.conf", "etc/cufile.json"
FABRIC, VERBS = "var/log/fabricmanager.log", "etc/libibverbs.d/mlx5.driver"

FILES = [
    (GRUB, 'GRUB_CMDLINE_LINUX="quiet vault={}"'), (GRUB, "GRUB_PASSPHRASE_HINT='{}'"),
    (GRUB, "# the password is {}"), (GRUB, 'GRUB_CMDLINE_LINUX_DEFAULT="a=\\"b {}\\" quiet"'),
    (GRUB, 'GRUB_CMDLINE_LINUX="amd_iommu=on passwd/root-password={} quiet"'),
    (GRUB, "GRUB_CMDLINE_LINUX='-p {}'"),
    ("etc/default/grub.d/50-cloud.cfg", "export GRUB_CMDLINE_LINUX+=' seed={}'"),
    (ENTRY, "options root=UUID=1 ro unlock={} quiet"), (ENTRY, "# key {}"), (ENTRY, "options ro x='a {}'"),
    (ENTRY, "title Rescue - login root / {}"),
    (ENVIRONMENT, "kernelopts=root=/dev/sda2 seal={} ro"), (ENVIRONMENT, "rescue={}"),
    (ENVIRONMENT, "kernelopts=root=cifs://img:{}@10.0.0.1/x rd.neednet=1"),
    ("etc/kernel/cmdline", "root=/dev/sda2 tang={}"), ("etc/kernel/cmdline", 'nvidia.rm_license="{}"'),
    ("etc/kernel/cmdline", "systemd.set_credential=passwd.plaintext-password.root:{} quiet"),
    (LOG, "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz door={} quiet"),
    (LOG, '[    0.1] Unknown kernel command line parameters "a=1 door={}", will be passed to user space.'),
    (LOG, "[    2.0]     door={}"), (JOURNAL, "Nov 28 10:00:00 n kernel:     door={}"),
    (LOG, "[    9.0] audit: type=1327 audit(1:2): proctitle=6D7973716C002D70{}"),
    (LOG, '[    9.0] audit: type=1309 audit(1:2): argc=3 a0="mysql" a1="-p{}" a2="db"'),
    (JOURNAL, "Feb 02 11:41:55 n kernel: audit: type=1123 audit(1:2): pid=9 cmd={} terminal=pts/0"),
    (LOG, "[   21.7] cloud-init[1033]: ubuntu:{}"), (LOG, "[  812.1] cifs: Unknown parameter '{}'"),
    (LOG, "[   61.3] libceph: bad option at 'sercet={}'"), (LOG, "[   33.5] provision.sh: BMC: {}"),
    (LOG, "[    3.1] nvidia: `{}' invalid for parameter `NVreg_EnableMSI'"), (LOG, "Password for root: {}"),
    (JOURNAL, "Mar 11 08:01:17 n sudo[12]: nvidia {}"),
    (MODPROBE, "install a echo {} | sudo -S modprobe b"),
    (MODPROBE, "install a printf '%s\\n' '{}' | sudo -kS modprobe b"),
    (MODPROBE, "install a sudo -S modprobe b <<< {}"),
    (MODPROBE, "install a curl --pass {} https://host/up; modprobe --ignore-install a"),
    (MODPROBE, "install a sh -c 'modprobe b; vault login {}'"), (MODPROBE, "install a modprobe b k={}"),
    (MODPROBE, "install a modprobe $(redis-cli -a {} get m)"),
    (MODPROBE, "install a /opt/up --key={}; modprobe b"),
    (MODPROBE, "install a ACCESS-KEY={} /opt/up"), (MODPROBE, "remove a /opt/down -key {}"),
    (MODPROBE, "options a bootkey={}"), (MODPROBE, "options a lic={}"),
    (MODPROBE, "options nvidia NVreg_Lic={}"),
    (MODPROBE, "# iDRAC: root/{}"), (MODPROBE, "alias eth0 mlx5_core   # enable: {}"), (MODPROBE, "pw {}"),
    (MODPROBE, "post-install a /sbin/iwconfig ath0 key s:{} || :"),
    (LOADED, "# the name of her old dog, {}, for both disks"), ("etc/modules", "mlx5_core pw={}"),
    ("etc/modules", "# tightvnc 5901 pass={}"), ("etc/depmod.d/a.conf", "# the blue screen wants {}"),
    (UNIT, "ExecStart=/bin/sh -c 'echo {} | docker login --password-stdin; modprobe nvidia-peermem'"),
    (UNIT, "Environment=PASSWD={} # for modprobe"), (UNIT, "SetCredential=peermem:{}"),
    (UNIT, "ExecStartPre=/opt/modprobe-up --client-secret {}"),
    (UDEV, 'ACTION=="add", RUN+="/sbin/modprobe x auth={}"'),
    (UDEV, 'ENV{{SECRET}}="{}", RUN+="/sbin/modprobe x"'),
    (UDEV, "ACTION==\"add\", RUN+=\"/bin/sh -c 'modprobe nvidia-peermem; curl -d k={} http://host'\""),
    ("etc/kernel/cmdline.d/a.conf", "clevis={}"), (LOG, "[    9.0] audit: type=1123 audit(1:2): cmd={} t=1"),
    (MODPROBE, "install a /opt/up --auth {} && modprobe --ignore-install a"),
    (MODPROBE, "install a /opt/up --access-key={}; modprobe --ignore-install a"),
    (MODPROBE, "install a wget --http-password={} http://host/"), (MODPROBE, "options a license_key={}"),
    (MODPROBE, "# cifs cred={}"), (MODPROBE, "install a mount -o username=u,password2={} //h/s /m"),
    (RC, "modprobe x; openssl rsa -passin pass:{} -in a"), (RC, "modprobe x; redis-cli -a {} ping"),
    (RC, "modprobe x; lftp -u bob,{} host"), (POD, "+ curl 'https://host/hook?key={}'"),
    (POD, "Set-Cookie: sid={}; Path=/"), (POD, "Proxy-Authorization: Basic {}"),
    (DKMS, 'post_transaction="/opt/up --sign-pin {}"'), (CUFILE, '{{"auth": {{"pin": "{}"}}}}'),
    (RC, "modprobe x && curl -H 'X-Auth: {}' http://host/"), (RC, "modprobe x; openssl enc -k {} -in a"),
    (RC, "modprobe x; smbclient -U u%{} //h/s"), (RC, "modprobe x; PGPASSWORD={} psql"),
    (RC, "cryptsetup open - <<E\n{}\nE\nmodprobe x"), (RC, "modprobe x; expect -c 'send \"{}\\r\"'"),
    (POD, "stderr F + subscription-manager register --activationkey {} --force"),
    (POD, "GET https://host/a?x=1&access={} 200"), (POD, 'x-api-key: "{}"'),
    (FABRIC, "[ERROR] HTTP 401 (Authorization: Basic {}, User-Agent)"),
    (NCCL, "# docker login nvcr.io -> $oauthtoken , then {}"), (NCCL, "WANDB_API_KEY={}"),
    (NCCL, "NCCL_DEBUG_FILE=/a?sig={}"), (NCCL, "NCCL_DEBUG=INFO WANDB={}"), (NCCL, "wandb login {}"),
    (NCCL, "NCCL_RAS_ADDR=admin:{}@host:28028"), (NCCL, "NCCL_NET_PLUGIN_ARGS=-p {}"),
    (UCX, "# console: admin  {}"), (UCX, "UCX_STATS_DEST=udp:host,apikey {}"), (SHELL, "CUDA_LICENSE={}\0"),
    (SHELL, "SUDO_COMMAND=/usr/bin/env HF_TOKEN={} NCCL_DEBUG=INFO gdr\0NCCL_DEBUG=INFO\0"),
    ("home/maria/.nccl.conf", "# mot de passe : {}"), ("etc/environment", 'https_proxy="http://a:{}@proxy"'),
    (LIMITS, "# root pw: {}"), (LIMITS, "* soft memlock unlimited # {}"), (MODPROBE, "options a {}"),
    (LIMITS, "svc - nofile 1048576   # logs in with {}"),
    (DKMS, "sign_tool_pin={}"), (DKMS, "export KBUILD_SIGN_PIN=$'{}'"),
    (CUFILE, '{{"cred": "{}"}}'), (CUFILE, "    // before mount: weka user login gds {}"),
    (VERBS, "# pushed by: sshpass -p'{}' scp mlx5.driver root@gpu07:/etc/libibverbs.d/"),
    ("sos_commands/pci/lspci_-nnvvv", "\t\t\t[YA] Asset tag: bmc root/{}"),
    ("sos_commands/kernel/dkms_status", "/etc/dkms/framework.conf: line 14: {}: command not found"),
    ("sos_commands/gdr/nvidia-smi_-q", "        Name                          : jupyter-lab --token {}"),
    ("sos_commands/infiniband/ibv_devinfo_-v", "libibverbs: Warning: ignoring bad config directive '{}'"),
]  # fmt: skip
"""One line of each kind that two hands found who had not seen this code."""

PATHS = [
    (POD, "https://host/v1/{}/callback nvidia-peermem"), (MODPROBE, "install a curl https://host/hooks/{}"),
    (POD, "git clone https://{}@example.com/repository.git"), (POD, "wss://host/socket/{}"),
    (POD, "nvidia-peermem https://{}@example.com/"), ("etc/fstab", "https://{}@example.com/ x"),
    ("etc/fstab", "https://hooks.slack.com/services/T0/B0/{}"),
    (RC, "modprobe x; curl https://host/bot123456:{}/send"), (POD, "modprobe: wss://host/socket/{}"),
]  # fmt: skip


def rows() -> list[tuple[str, str]]:
    """Every file and text."""
    return [(LINE, f"quiet {argument} iommu=pt") for argument in ARGUMENTS] + FILES + PATHS
