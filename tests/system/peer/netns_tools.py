#!/usr/bin/env python3
"""The tools of the network tests do what they say: namespaces that are cut, lossy, healed and removed, and the relay.

    netns_tools.py RELAY"""
import os
import socket
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import netns_lib
from netns_lib import Network, Relay, names, why_not
from run_lib import HANG_S, Tap, lives, wait_for

SENT = 400
# Buffers for all datagrams of a test: a host that gets no CPU for a while must not lose any.
BUFFER = "udp.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)"  # SO_RCVBUFFORCE
ECHO = f"""
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
{BUFFER}
udp.bind((sys.argv[1], 5000))
print("ready", flush=True)
while True:
    data, sender = udp.recvfrom(2048)
    udp.sendto(data, sender)
"""
# Sends datagrams, then "end" until that is answered or the time is over. Datagrams keep their order, so the rest is lost by then.
COUNT = f"""
import socket, sys, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
{BUFFER}
target = (sys.argv[1], 5000)
until = time.monotonic() + float(sys.argv[3])
for i in range(int(sys.argv[2])):
    udp.sendto(b"%d" % i, target)
udp.settimeout(0.05)
got = set()
while time.monotonic() < until and b"end" not in got:
    udp.sendto(b"end", target)
    try:
        while b"end" not in got:
            got.add(udp.recv(2048))
    except socket.timeout:
        pass
print(len(got - {{b"end"}}))
"""


def echo_on(net, number):
    process = net[number].start([sys.executable, "-c", ECHO, net[number].address], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"


def heard(net, source, target, count=1, seconds=0.4):
    """How many of so many datagrams come back, until all others are lost or the time is over."""
    done = net[source].run([sys.executable, "-c", COUNT, net[target].address, str(count), str(seconds)])
    return int(done.stdout)


def answers(net, source, target):
    """True if the first datagram is answered, on however slow a machine."""
    return heard(net, source, target, 1, HANG_S) == 1


def hosts_hear_each_other_until_they_are_cut_and_again_when_healed(_):
    with Network(3) as net:
        for number in (1, 2, 3):
            echo_on(net, number)
        assert answers(net, 1, 2) and answers(net, 3, 1)
        net.cut(1, 2)
        assert heard(net, 1, 2) == 0 and heard(net, 2, 1) == 0
        assert answers(net, 1, 3) and answers(net, 2, 3)
        net.split([1, 2], [3])
        assert heard(net, 3, 1) == 0 and heard(net, 2, 3) == 0
        net.heal()
        assert answers(net, 1, 2) and answers(net, 3, 2)


def a_cut_can_be_one_way(_):
    with Network(2) as net:
        for number in (1, 2):
            echo_on(net, number)
        count = f"import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('{net[2].address}',5001)); " \
                "print('ready',flush=True); print(s.recv(99).decode(),flush=True)"
        listener = net[2].start([sys.executable, "-c", count], stdout=subprocess.PIPE, text=True)
        assert listener.stdout.readline() == "ready\n"
        assert answers(net, 1, 2)
        net.cut_one_way(2, 1)  # the question arrives, the answer does not
        assert heard(net, 1, 2) == 0
        say = f"import socket; socket.socket(socket.AF_INET,socket.SOCK_DGRAM).sendto(b'heard',('{net[2].address}',5001))"
        net[1].run([sys.executable, "-c", say])
        assert listener.stdout.readline() == "heard\n"


def loss_is_as_asked_for(_):
    with Network(2) as net:
        echo_on(net, 2)
        assert answers(net, 1, 2)
        net.loss(20, target=2)
        back = heard(net, 1, 2, SENT, HANG_S)
        assert SENT * 0.6 < back < SENT * 0.95, f"{back} of {SENT}"  # 320 are expected, with a deviation of 8
        net.heal()
        assert heard(net, 1, 2, SENT, HANG_S) == SENT


def everything_is_removed_also_after_a_failure(_):
    mine = f"-{os.getpid()}-"
    try:
        with Network(2) as net:
            echo = net[1].start(["sleep", "1000"])
            assert [name for name in names() if mine in name]
            raise KeyError("a test that fails")
    except KeyError:
        pass
    assert not [name for name in names() if mine in name]
    assert echo.returncode is not None


def child_with_network():
    """Another test, with a network and a process in it: itself, the names of its namespaces, what lives inside."""
    text = "import sys; sys.path.insert(0, sys.argv[1]); from netns_lib import Network; net = Network(2); " \
           "net[1].start(['sleep', '1000']); print('up', flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", text, os.path.dirname(os.path.abspath(netns_lib.__file__))],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "up\n"
    left = [name for name in names() if f"-{child.pid}-" in name]
    assert len(left) == 3, left

    def inside():
        """a process in the namespace"""
        found = [subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout.split()
                 for name in left]
        return [int(pid) for pids in found for pid in pids]
    return child, left, wait_for(inside, 60)


def what_a_killed_test_left_goes_with_the_next(_):
    child, left, inside = child_with_network()
    child.kill()
    child.wait()
    assert set(left) <= set(names())
    with Network(1):
        pass
    assert not set(left) & set(names())
    wait_for(lambda: not any(map(lives, inside)), 60)


def a_test_that_is_told_to_end_removes_its_network(_):
    child, left, inside = child_with_network()
    child.terminate()
    child.wait()
    assert not set(left) & set(names())
    wait_for(lambda: not any(map(lives, inside)), 60)


def udp_socket():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(60)
    return udp


def address_of(sock):
    return "127.0.0.1:%d" % sock.getsockname()[1]


def port_of(relay):
    return "127.0.0.1", int(relay.address.rsplit(":", 1)[1])


def the_relay_delays_datagrams_both_ways(program):
    server, client = udp_socket(), udp_socket()
    relay = Relay(program, address_of(server), delay_ms=60, jitter_ms=10)
    try:
        begin = time.monotonic()
        client.sendto(b"ping", port_of(relay))
        data, sender = server.recvfrom(100)
        assert data == b"ping" and time.monotonic() - begin > 0.045
        begin = time.monotonic()
        server.sendto(b"pong", sender)
        assert client.recv(100) == b"pong" and time.monotonic() - begin > 0.045
    finally:
        relay.close()


def jitter_reorders_datagrams_and_loses_none(program):
    server, client = udp_socket(), udp_socket()
    relay = Relay(program, address_of(server), delay_ms=30, jitter_ms=30)
    try:
        for i in range(100):
            client.sendto(b"%d" % i, port_of(relay))
        got = [int(server.recv(100)) for _ in range(100)]
        assert sorted(got) == list(range(100)) and got != sorted(got)
    finally:
        relay.close()


def connections_stay_in_order_and_end_together(program):
    listener = socket.create_server(("127.0.0.1", 0))
    relay = Relay(program, address_of(listener), delay_ms=20, jitter_ms=20)
    try:
        begin = time.monotonic()
        client = socket.create_connection(port_of(relay), 60)
        client.settimeout(60)
        sent = bytes(range(256)) * 2000
        client.sendall(sent[:1000])
        server, _ = listener.accept()
        server.settimeout(60)
        client.sendall(sent[1000:])
        got = b""
        while len(got) < len(sent):
            got += server.recv(65536)
        assert got == sent
        server.sendall(b"thanks")
        assert client.recv(6) == b"thanks"
        server.close()
        assert client.recv(1) == b""
        assert time.monotonic() - begin > 0.001
    finally:
        relay.close()


NETS = [hosts_hear_each_other_until_they_are_cut_and_again_when_healed, a_cut_can_be_one_way, loss_is_as_asked_for,
        everything_is_removed_also_after_a_failure, what_a_killed_test_left_goes_with_the_next,
        a_test_that_is_told_to_end_removes_its_network]
RELAYS = [the_relay_delays_datagrams_both_ways, jitter_reorders_datagrams_and_loses_none,
          connections_stay_in_order_and_end_together]


def main():
    tap, reason = Tap(), why_not()
    for test in NETS + RELAYS:
        if test in NETS and reason:
            tap.skip(test.__name__, reason)
            continue
        try:
            test(sys.argv[1])
            tap.result(True, test.__name__)
        except Exception:  # whatever it is, the other tests still run
            tap.result(False, test.__name__, traceback.format_exc())
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
