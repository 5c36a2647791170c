"""kazoo's Election as a program: contends for a path, reports when it leads, and leaves on request.

    zookeeper_kazoo.py HOSTS PATH ID SESSION_S

Prints "leading" when its leadership function runs. Input "close" ends that function; "contenders" lists the contenders."""
import sys
import threading

from kazoo.client import KazooClient


def report(line):
    print(line, flush=True)


def main():
    hosts, path, name, session = sys.argv[1:5]
    client = KazooClient(hosts=hosts, timeout=float(session))
    client.start(60)
    election = client.Election(path, name)
    go = threading.Event()

    def lead():
        report("leading")
        go.wait()

    thread = threading.Thread(target=lambda: (election.run(lead), report("closed")), daemon=True)
    thread.start()
    for line in sys.stdin:
        if line.strip() == "close":
            go.set()
            thread.join(60)
        elif line.strip() == "contenders":
            report("contenders " + " ".join(election.contenders()))
    client.stop()


main()
