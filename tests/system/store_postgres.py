#!/usr/bin/env python3
"""The PostgreSQL store on a real cluster, with a real pooler, a real standby and a proxy that misbehaves.

    store_postgres.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
from postgres_lib import Pgbouncer, Postgres
from store_lib import Place, Suite

suite = Suite()


@suite.test
def conformance_direct():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        suite.run_conformance("direct", cluster.url())


@suite.test
def conformance_through_a_pooler():
    with Place("postgres") as place:
        cluster = Postgres(place).create().start()
        pooler = Pgbouncer(place, cluster)
        suite.run_conformance("pooler", cluster.url(port=pooler.port, more="&poll=50ms"))


suite.main()
