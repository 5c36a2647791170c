#!/usr/bin/env python3
"""/metrics as etcd's dashboard and alerts read it.

    serve_metrics.py BELLWETHER UNUSED UNUSED [NAME...]"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from prometheus import Prometheus  # noqa: E402
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster, Etcd, Nodes, b64  # noqa: E402
from store_lib import TIMEOUT_S, Place, Suite, program  # noqa: E402

suite = Suite()
SERIES = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')
# What the alerts and the dashboard of etcd 3.5 (contrib/mixin) query.
QUERIED = """etcd_server_has_leader etcd_server_leader_changes_seen_total etcd_server_proposals_committed_total
    etcd_server_proposals_applied_total etcd_server_proposals_pending etcd_server_proposals_failed_total
    etcd_disk_wal_fsync_duration_seconds_bucket etcd_disk_backend_commit_duration_seconds_bucket
    etcd_network_peer_round_trip_time_seconds_bucket etcd_network_peer_sent_failures_total
    etcd_network_peer_sent_bytes_total etcd_network_peer_received_bytes_total
    etcd_network_client_grpc_received_bytes_total etcd_network_client_grpc_sent_bytes_total
    etcd_mvcc_db_total_size_in_bytes etcd_mvcc_db_total_size_in_use_in_bytes etcd_server_quota_backend_bytes
    etcd_debugging_mvcc_db_total_size_in_bytes etcd_server_version etcd_cluster_version bellwether_build_info
    grpc_server_started_total grpc_server_handled_total grpc_server_handling_seconds_bucket
    process_resident_memory_bytes process_cpu_seconds_total process_open_fds process_max_fds""".split()
# The queries of its dashboard, without the labels of job and cluster.
FAILED = "Unknown|FailedPrecondition|ResourceExhausted|Internal|Unavailable|DataLoss|DeadlineExceeded"
PANELS = [
    "sum(etcd_server_has_leader)",
    'sum(rate(grpc_server_started_total{grpc_type="unary"}[10s]))',
    f'sum(rate(grpc_server_handled_total{{grpc_type="unary",grpc_code=~"{FAILED}"}}[10s]))',
    *('sum(grpc_server_started_total{{{0}}}) - sum(grpc_server_handled_total{{{0}}})'.format(
        f'grpc_service="etcdserverpb.{service}",grpc_type="bidi_stream"') for service in ("Watch", "Lease")),
    "etcd_mvcc_db_total_size_in_bytes",
    "histogram_quantile(0.99, sum(rate(etcd_disk_wal_fsync_duration_seconds_bucket[10s])) by (instance, le))",
    "histogram_quantile(0.99, sum(rate(etcd_disk_backend_commit_duration_seconds_bucket[10s])) by (instance, le))",
    "process_resident_memory_bytes",
    "rate(etcd_network_client_grpc_received_bytes_total[10s])",
    "rate(etcd_network_client_grpc_sent_bytes_total[10s])",
    "sum(rate(etcd_network_peer_received_bytes_total[10s])) by (instance)",
    "sum(rate(etcd_network_peer_sent_bytes_total[10s])) by (instance)",
    "changes(etcd_server_leader_changes_seen_total[1d])",
    "histogram_quantile(0.99, sum by (instance, le) (rate(etcd_network_peer_round_trip_time_seconds_bucket[10s])))",
    # of the dashboard before 3.5
    "sum(rate(etcd_server_proposals_failed_total[10s]))", "sum(etcd_server_proposals_pending)",
    "sum(rate(etcd_server_proposals_committed_total[10s]))", "sum(rate(etcd_server_proposals_applied_total[10s]))"]
# Its alerts, without the time for which the condition must hold.
ALERTS = {
    "etcdMembersDown": "max without (endpoint) (sum without (instance) (up == bool 0) or count without (To) "
                       "(sum without (instance) (rate(etcd_network_peer_sent_failures_total[10s])) > 0.01)) > 0",
    "etcdInsufficientMembers": "sum(up == bool 1) without (instance) < ((count(up) without (instance) + 1) / 2)",
    "etcdNoLeader": "etcd_server_has_leader == 0",
    "etcdHighNumberOfLeaderChanges": "increase((max without (instance) (etcd_server_leader_changes_seen_total) or "
                                     "0*absent(etcd_server_leader_changes_seen_total))[15m:1m]) >= 4",
    "etcdGRPCRequestsSlow": 'histogram_quantile(0.99, sum(rate(grpc_server_handling_seconds_bucket{grpc_type="unary"}[10s])) '
                            "without (grpc_type)) > 60",
    "etcdHighNumberOfFailedProposals": "rate(etcd_server_proposals_failed_total[15m]) > 5",
    "etcdDatabaseQuotaLowSpace": "(last_over_time(etcd_mvcc_db_total_size_in_bytes[5m]) / "
                                 "last_over_time(etcd_server_quota_backend_bytes[5m])) * 100 > 95"}
# etcd has these names too: gauges that end in _total.
TOLERATED = {"etcd_debugging_mvcc_keys_total", "etcd_debugging_mvcc_watcher_total"}


def scrape(target, port=None):
    text = target.ask("GET", "/metrics", port=port)[1].decode()
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = SERIES.match(line).groups()
            found.setdefault(name, {})[tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels or "")))] = float(value)
    return text, found


def calls(found, name, **labels):
    return sum(value for key, value in found[name].items() if set(labels.items()) <= set(key))


def check_histograms(found):
    """Buckets only grow, and the last one is the count."""
    histograms = [name[:-7] for name in found if name.endswith("_bucket")]
    assert histograms
    for name in histograms:
        rows = {}
        for key, value in found[name + "_bucket"].items():
            bound = dict(key)["le"]
            rows.setdefault(tuple(pair for pair in key if pair[0] != "le"), []).append((float(bound.replace("+Inf", "inf")), value))
        for key, row in rows.items():
            values = [value for _, value in sorted(row)]
            assert values == sorted(values) and values[-1] == found[name + "_count"][key], (name, key, row)
            assert found[name + "_sum"][key] >= 0


@suite.test
def metrics_that_dashboards_and_alerts_of_etcd_query_are_there():
    with Place("metrics") as place:
        cluster = Cluster(place, suite.bellwether, 3, ["--quota-bytes", "123456789"])
        leader = cluster.client[cluster.leads()]
        for i in range(20):
            assert cluster.post("/v3/kv/put", {"key": b64("k"), "value": b64("v" * 1000)}, port=leader)[0] == 200

        def measured():
            """a round trip to each of the two other nodes"""
            found = scrape(cluster, leader)[1]
            trips = found.get("etcd_network_peer_round_trip_time_seconds_count", {})
            return [found] if len(trips) == 2 and all(trips.values()) else None
        found = wait_for(measured, TIMEOUT_S, 0.1)[0]
        missing = [name for name in QUERIED if name not in found]
        assert not missing, missing
        check_histograms(found)
        # Each put was durable on two nodes before the next one began; the third node may sync several at once.
        syncs = [calls(scrape(cluster, port)[1], "etcd_disk_wal_fsync_duration_seconds_count") for port in cluster.ports]
        assert sum(syncs) >= 2 * 20, syncs
        assert calls(found, "etcd_disk_backend_commit_duration_seconds_count") >= 20
        assert calls(found, "etcd_server_quota_backend_bytes") == 123456789
        assert 1000 < calls(found, "etcd_mvcc_db_total_size_in_bytes") < 50000
        for name in ("etcd_network_peer_sent_bytes_total", "etcd_network_peer_received_bytes_total"):
            assert len(found[name]) == 2 and all(found[name].values()), found[name]
        # A node that is down is seen by its leader.
        down = next(name for name in "abc" if cluster.client[name] != leader)
        cluster.nodes[down].kill()

        def failed():
            """messages that cannot be sent"""
            return any(scrape(cluster, leader)[1]["etcd_network_peer_sent_failures_total"].values())
        wait_for(failed, TIMEOUT_S, 0.1)


def use(nodes):
    """What fills all panels: requests of several kinds, two streams, and a failed request."""
    nodes.ctl("put", "k", "v")
    nodes.ctl("lease", "keep-alive", "--once", nodes.ctl("lease", "grant", "60").stdout.split()[1])
    watch = nodes.stream("/v3/watch", {"create_request": {"key": b64("k")}})
    watch.line()
    nodes.ctl("lock", "k", "true")
    watch.close()


@suite.test
def prometheus_shows_every_panel_and_fires_the_alert_without_a_quorum():
    with Place("metrics") as place:
        rules = place.file("rules.json", json.dumps({"groups": [
            {"name": "etcd", "rules": [{"alert": name, "expr": text} for name, text in ALERTS.items()]}]}))
        cluster = Cluster(place, suite.bellwether, 3)
        prometheus = Prometheus(place, "etcd", cluster.ports, rules)
        empty = set(PANELS)

        def shown():
            """every panel to show data"""
            use(cluster)
            empty.difference_update([text for text in empty if prometheus.shows(text)])
            return not empty
        try:
            wait_for(shown, TIMEOUT_S, 0.2)
        except AssertionError as why:
            raise AssertionError(f"{why}; these show nothing: {empty}") from why
        wait_for(lambda: {rule["health"] for rule in prometheus.rules()} == {"ok"}, TIMEOUT_S, 0.1)

        def quiet():
            """no alert to fire: messages before the nodes were connected count as failures of the last 10 s"""
            return not prometheus.firing() - {"etcdHighNumberOfLeaderChanges"}
        wait_for(quiet, TIMEOUT_S, 0.1)
        leader = cluster.leads()
        for name in "abc".replace(leader, ""):
            cluster.nodes[name].kill()
        wait_for(lambda: {"etcdNoLeader", "etcdMembersDown", "etcdInsufficientMembers"} <= prometheus.firing(), TIMEOUT_S, 0.1)


def life(target):
    for i in range(3):
        target.ctl("put", "a", str(i))
    target.ctl("get", "a")
    target.ctl("get", "a", "--rev", "99", check=False)
    target.ctl("lease", "revoke", "1234", check=False)
    watch = target.stream("/v3/watch", {"create_request": {"key": b64("a")}})
    watch.line()
    found = scrape(target)[1]
    watch.close()
    return found


@suite.test
def calls_are_counted_as_by_etcd():
    with Place("metrics") as place:
        one, other = life(Etcd(place)), life(Nodes(place, suite.bellwether))
        for name, method in (("started", "Put"), ("started", "Range"), ("started", "Watch"), ("handled", "Put"),
                             ("handled", "Range"), ("started", "LeaseRevoke"), ("handled", "LeaseRevoke"), ("handled", "Watch")):
            codes = [dict(key).get("grpc_code") for key in other[f"grpc_server_{name}_total"]
                     if ("grpc_method", method) in key] if name == "handled" else [None]
            for code in codes:
                labels = {"grpc_method": method, **({"grpc_code": code} if code else {})}
                seen = [calls(found, f"grpc_server_{name}_total", **labels) for found in (one, other)]
                assert seen[0] == seen[1], (name, labels, seen)
        # The series have the same labels.
        mine = {key for key in other["grpc_server_started_total"]}
        shared = {key for key in one["grpc_server_started_total"] if dict(key)["grpc_service"] in ("etcdserverpb.KV", "etcdserverpb.Watch")}
        assert shared <= mine, shared - mine
        for name in ("etcd_disk_wal_fsync_duration_seconds_bucket", "etcd_disk_backend_commit_duration_seconds_bucket"):
            assert set(one[name]) == set(other[name]), name


@suite.test
def promtool_accepts_the_text():
    promtool = program("promtool", "prometheus")
    with Place("metrics") as place:
        nodes = Nodes(place, suite.bellwether)
        nodes.post("/v3/kv/put", {"key": b64("k")})
        done = subprocess.run([promtool, "check", "metrics"], input=scrape(nodes)[0], capture_output=True, text=True, timeout=60, check=False)
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.split()[0] not in TOLERATED]
        assert done.returncode in (0, 3) and not said, (done.returncode, said)


suite.main(2)
