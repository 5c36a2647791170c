#!/usr/bin/env python3
"""The recipe of docs/guides/recipes/postgres-fencing.md, as printed there, with a real PostgreSQL.

    ship_postgres_fencing.py BELLWETHER SOURCE UNUSED [NAME...]"""
import os
import re
import signal
import subprocess
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "store"))
from postgres_lib import Postgres, wait_until  # noqa: E402
from run_lib import install_script, send  # noqa: E402
from store_lib import TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
SOURCE = os.path.abspath(sys.argv[2])
PAGE = os.path.join(SOURCE, "docs", "guides", "recipes", "postgres-fencing.md")


def block(language):
    """The first block of this language on the page."""
    with open(PAGE, encoding="utf-8") as page:
        return textwrap.dedent(re.search(rf"^ *```{language}\n(.*?)^ *```$", page.read(), re.M | re.S).group(1))


def set_up(cluster):
    cluster.sql(f"CREATE ROLE app LOGIN PASSWORD '{cluster.PASSWORD}'")
    cluster.sql("CREATE DATABASE orders")
    cluster.sql(suite.command("guard", "print", "postgres")[1], database="orders")
    cluster.sql(block("sql"), database="orders")
    code, schema, said = suite.command("store", "init", cluster.url(database="orders", user="app"), "--print")
    assert code == 0, said
    cluster.sql(schema, database="orders")
    grants = re.findall(r"^-- +(GRANT .*;)$", schema, re.M)
    assert len(grants) == 4, schema
    cluster.sql("\n".join(grants).replace("TO role", "TO app"), database="orders")


def job_environment(cluster):
    os.environ.update(PGHOST="127.0.0.1", PGPORT=str(cluster.port), PGUSER="app", PGDATABASE="orders", PGPASSWORD=cluster.PASSWORD,
                      PATH=os.path.dirname(cluster.psql_program) + ":" + os.environ["PATH"])


@suite.test
def job_of_a_stopped_leader_is_rejected_once_the_next_leader_has_written():
    with Place("fencing") as place:
        cluster = Postgres(place).create().start()
        set_up(cluster)
        job_environment(cluster)
        job = install_script(os.path.join(place.dir, "job.sh"), block("sh").split("\n", 1)[1])

        def tokens():
            return [int(token) for token in cluster.sql("SELECT token FROM ledger ORDER BY id", database="orders").split()]
        with suite.room(cluster.url(database="orders", user="app"), ttl="3s", kill_after="500ms", retry="100ms") as room:
            a = room.candidate("a", command=[job])
            wait_until(tokens, "a's first line", TIMEOUT_S)
            old = a.said("started", TIMEOUT_S)["token"]
            guardian = a.guardian()
            a.signal(signal.SIGSTOP)
            send(guardian, signal.SIGSTOP)
            # b ends the job of a, because it runs on the same host. So this one is the job of a leader on another host.
            late = subprocess.Popen([job], env={**os.environ, "BELLWETHER_TOKEN": str(old)}, stderr=subprocess.PIPE, text=True)
            count = len(tokens())
            wait_until(lambda: len(tokens()) > count, "a line of the former leader", TIMEOUT_S)
            room.candidate("b", command=[job])
            wait_until(lambda: [token for token in tokens() if token > old], "b's first line", TIMEOUT_S)
            said = late.communicate(timeout=TIMEOUT_S)[1]
            assert late.returncode == 3 and "ESTALE" in said, said
            without = subprocess.run([job], env={k: v for k, v in os.environ.items() if k != "BELLWETHER_TOKEN"}, capture_output=True,
                                     text=True, timeout=TIMEOUT_S, check=False)
            assert without.returncode == 3 and "ENOTOKEN" in without.stderr, without
            count = len(tokens())
            wait_until(lambda: len(tokens()) > count + 2, "more lines", TIMEOUT_S)
            found = tokens()
            assert found == sorted(found), "a line of the former leader follows one of the new leader"
            send(guardian, signal.SIGCONT)
            a.signal(signal.SIGCONT)


suite.main(2)
