"""kazoo's Election as a program: contends for a path, says when it leads, and goes when it is told.

    zookeeper_kazoo.py HOSTS PATH ID SESSION_S

Says "leading" when its leadership function runs; "close" on its input lets that return, "contenders" lists them."""
import sys
import threading

from kazoo.client import KazooClient


def say(line):
    print(line, flush=True)


def main():
    hosts, path, name, session = sys.argv[1:5]
    client = KazooClient(hosts=hosts, timeout=float(session))
    client.start(60)
    election = client.Election(path, name)
    go = threading.Event()

    def lead():
        say("leading")
        go.wait()

    thread = threading.Thread(target=lambda: (election.run(lead), say("closed")), daemon=True)
    thread.start()
    for line in sys.stdin:
        if line.strip() == "close":
            go.set()
            thread.join(60)
        elif line.strip() == "contenders":
            say("contenders " + " ".join(election.contenders()))
    client.stop()


main()
