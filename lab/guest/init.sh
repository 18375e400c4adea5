#!/bin/busybox sh
# First process of a lab guest: mounts, the port to the host, then the runner. The guest ends with it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PYTHONDONTWRITEBYTECODE=1
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox mount -t securityfs securityfs /sys/kernel/security
if [ -d /sys/firmware/efi ]; then
  /usr/sbin/modprobe -q efivarfs
  busybox mount -t efivarfs efivarfs /sys/firmware/efi/efivars
fi
busybox hostname lab
/usr/sbin/modprobe -q virtio_pci
/usr/sbin/modprobe -q virtio_console
for _ in 1 2 3 4 5 6 7 8 9 10; do
  [ -e /dev/vport0p1 ] && break
  for port in /dev/vport*p1; do [ -e "$port" ] && ln -s "$port" /dev/vport0p1; done
  busybox sleep 0.1
done
if [ -e /lab/shell ]; then
  echo "a shell in the guest; the case files are under /lab; 'poweroff -f' ends it"
  busybox setsid busybox cttyhack busybox sh
else
  python3 -S -E /lab/runner.py >/dev/console 2>&1
fi
busybox sync
busybox poweroff -f
