"""gdrkit.transport over rdma_rxe, two processes in one guest: transfers, failures, and speed.

python3 transport.py WHAT      prints one line of JSON; WHAT is a function below
"""

import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

sys.path[:0] = ["/lab/gdr", "/lab/site"]

from gdrkit.transport import TransportError, connect, generate_key, listen

ME = os.path.abspath(__file__)
PATHS = ("verbs",)


def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]


class Pair:
    """A connection and the process at its other end, which runs `other_<name>`."""

    def __init__(self, name):
        self.key = generate_key()
        self.listener = listen("127.0.0.1", key=self.key, device="rxe0", paths=PATHS)
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-E", ME, f"other_{name}", str(self.listener.address[1]), self.key.hex()]
        )
        self.connection = self.listener.accept(60)
        self.listener.close()

    def __enter__(self):
        return self.connection

    def __exit__(self, *_):
        self.connection.close()
        self.process.wait(60)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)


def join():
    return connect("127.0.0.1", int(sys.argv[2]), key=bytes.fromhex(sys.argv[3]), device="rxe0", paths=PATHS)


SIZES = (0, 1, 4096, (1 << 20) + 17, 8 << 20)


def messages():
    with Pair("messages") as connection:
        for size in SIZES:
            into = bytearray(size)
            connection.recv(into).wait(60)
            assert into == pattern(size), size
            connection.send(into, integrity=True).wait(60)
        return {"path": connection.path, "sizes": SIZES}


def other_messages():
    with join() as connection:
        for size in SIZES:
            connection.send(pattern(size), integrity=True).wait(60)
            back = bytearray(size)
            connection.recv(back).wait(60)
            assert back == pattern(size)


def one_sided():
    with Pair("sleeper") as connection:
        theirs = connection.exchange(bytearray(1))
        data = pattern(3 << 20)
        connection.write(data, theirs, 4096).wait(60)
        back = bytearray(len(data))
        connection.read(back, theirs, 4096).wait(60)
        assert back == data
        said = ""
        try:
            connection.write(b"x", theirs, theirs.size_bytes).wait(5)
        except TransportError as error:
            said = str(error)
        connection.send(b"done").wait(60)
        return {"rkey": theirs.rkey != 0, "beyond": said}


def other_sleeper():
    with join() as connection:
        memory = bytearray(8 << 20)
        connection.exchange(memory)
        done = bytearray(4)
        connection.recv(done).wait(120)


def failure(name, provoke, timeout=30):
    """A failure's error, and the time until it was detected."""
    pair = Pair(name)
    begun = time.monotonic()
    try:
        provoke(pair)
        said = "nothing went wrong"
    except TransportError as error:
        said = f"{type(error).__name__}: {error}"
    took = time.monotonic() - begun
    pair.connection.close()
    pair.kill()
    pair.process.wait()
    return {"said": said, "seconds": round(took, 2), "within": took < timeout}


def peer_killed():
    def provoke(pair):
        waiting = pair.connection.recv(bytearray(1 << 20))
        pair.kill()
        waiting.wait(30)

    return failure("sleeper", provoke)


def wrong_key():
    def provoke(pair):
        theirs = pair.connection.exchange(bytearray(1))
        pair.connection.write(b"x" * 100, theirs._replace(rkey=theirs.rkey ^ 0xFFFF)).wait(30)

    return failure("sleeper", provoke)


def queue_full():
    """Post more requests than the queue holds, bypassing the transport's own limit."""
    from gdrkit.transport.native.verbs import VerbsError

    pair = Pair("sleeper")
    channel = pair.connection._channels[0]
    said = ""
    try:
        for _ in range(100000):
            channel._pair.post_receive()
    except VerbsError as error:
        said = str(error)
    pair.connection.close()
    pair.kill()
    pair.process.wait()
    return {"said": said}


def link_down():
    """Take the network under the device down. rdma_rxe itself cannot be removed while it is open: `rdma link
    delete` waits for us, since rdma_rxe has no disassociate_ucontext (kernel, uverbs_main.c).
    """

    def provoke(pair):
        theirs = pair.connection.exchange(bytearray(1))
        data = bytearray(1 << 20)
        pair.connection.write(data, theirs).wait(30)
        subprocess.run(["/bin/ip", "link", "set", "veth0", "down"], check=True)
        for _ in range(100):
            pair.connection.write(data, theirs).wait(20)

    found = failure("sleeper", provoke, timeout=40)
    subprocess.run(["/bin/ip", "link", "set", "veth0", "up"], check=True)
    return found


def no_device():
    key = generate_key()
    with listen("127.0.0.1", key=key, device="mlx5_0", paths=("verbs", "tcp")) as listener:
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", ME, "other_fallback", str(listener.address[1]), key.hex()]
        )
        with listener.accept(60) as connection:
            found = {"path": connection.path, "considered": connection.considered}
        process.wait()
    return found


def other_fallback():
    with connect(
        "127.0.0.1", int(sys.argv[2]), key=bytes.fromhex(sys.argv[3]), device="rxe0", paths=("verbs", "tcp")
    ):
        time.sleep(0.2)


def held():
    gc.collect()
    with open("/proc/self/status") as file:
        resident = int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))
    return len(os.listdir("/proc/self/fd")), resident


def connects():
    """Open and close connections, and return the resources that the process uses afterwards."""
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    key = generate_key()
    with listen("127.0.0.1", key=key, device="rxe0", paths=PATHS) as listener:
        process = subprocess.Popen(
            [
                sys.executable,
                "-S",
                "-E",
                ME,
                "other_connects",
                str(listener.address[1]),
                key.hex(),
                str(count),
            ]
        )
        before = (0, 0)
        begun = time.monotonic()
        for number in range(count):
            with listener.accept(60) as connection:
                into = bytearray(1000)
                connection.recv(into).wait(30)
                assert into == pattern(1000)
            if number == count // 10:
                before = held()
        after, seconds = held(), time.monotonic() - begun
        code = process.wait(60)
    return {"count": count, "seconds": round(seconds, 1), "before": before, "after": after, "other": code}


def other_connects():
    for _ in range(int(sys.argv[4])):
        with join() as connection:
            connection.send(pattern(1000)).wait(30)


SIZE, COUNT = 1 << 20, 100


def speed():
    """Our writes and ib_write_bw's, of 1 MiB, five runs of each, in turns; MB/s (10**6)."""
    ours, theirs, small = [], [], 0.0
    with Pair("sleeper") as connection:
        region = connection.exchange(bytearray(1))
        data = bytearray(SIZE)
        connection.register(data)
        for _ in range(5):
            begun = time.monotonic()
            jobs = [connection.write(data, region) for _ in range(COUNT)]
            for job in jobs:
                job.wait(120)
            ours.append(SIZE * COUNT / (time.monotonic() - begun) / 1e6)
            theirs.append(perftest())
        begun = time.monotonic()
        for _ in range(200):
            connection.write(b"12345678", region).wait(30)
        small = (time.monotonic() - begun) / 200 * 1e6
        connection.send(b"done").wait(60)
    return {"ours": ours, "ib_write_bw": theirs, "small_us": small, "cpu_s": resource.getrusage(0).ru_utime}


def bench():
    """Run `gdr bench --tools`; returns its document, and child processes that are left."""
    program = (
        "import sys; sys.path[:0] = ['/lab/gdr', '/lab/site']; from gdrkit.cli import main; sys.exit(main())"
    )
    words = [
        "bench",
        "host",
        "--device",
        "rxe0",
        "--paths",
        "verbs",
        "--sizes",
        "4K,1M",
        "--tools",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=400
    )
    left = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "ib_" in line or "measure.peer" in line:
            left.append(line)
    return {"code": done.returncode, "said": done.stderr, "document": json.loads(done.stdout), "left": left}


def prove():
    """Run `gdr prove` with host memory over RDMA: exit codes without and with --require direct, and its
    runs.
    """
    program = (
        "import sys; sys.path[:0] = ['/lab/gdr', '/lab/site']; from gdrkit.cli import main; sys.exit(main())"
    )
    words = [
        "prove",
        "host",
        "--device",
        "rxe0",
        "--path",
        "verbs",
        "--size",
        "4M",
        "--repeats",
        "2",
        "--json",
    ]
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    required = subprocess.run(
        [*command, "--require", "direct"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=200
    )
    if not done.stdout:
        sys.exit(done.stderr)
    return {"codes": [done.returncode, required.returncode], "runs": json.loads(done.stdout)["runs"]}


def perftest():
    command = ["ib_write_bw", "-d", "rxe0", "-x", "1", "-s", str(SIZE), "-n", str(COUNT)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(2)
    text = subprocess.run([*command, "127.0.0.1"], capture_output=True, text=True, timeout=120).stdout
    server.wait(60)
    # The fourth column is the average, of 2**20 bytes: perftest, src/perftest_parameters.h
    return float(re.search(rf"^\s*{SIZE}\s+{COUNT}\s+\S+\s+(\S+)", text, re.M).group(1)) * 1.048576


if __name__ == "__main__":
    answer = globals()[sys.argv[1]]()
    if answer is not None:
        print(json.dumps(answer))
