#!/usr/bin/env python3
"""A stand-in for a Kubernetes API server that serves Leases of coordination.k8s.io/v1. It is NOT a real API server.

    kube_standin.py PORT DATA [--token FILE] [--tls CERT KEY CA] [--history N]

It handles Leases as a real one does: resourceVersions from one counter, conflicts (409), field validation (422), strict
micro-times (400), watches with bookmarks and a bounded history (410), authentication (401, 403), 404, 415. The file DATA keeps
what was written across a kill. Objects of the other kinds in KINDS can be created and read, so that `kubectl apply` works; they are
kept as they are, unchecked, and do nothing. Tests inject faults by POST /standin/ORDER, with JSON:

    fail      {"status": 429, "count": 3, "seconds": 2, "methods": ["PUT"], "retry_after": 1, "after": false}   returns this
              status; with "after" the request is executed first
    compact   {}                       deletes the history: open watches end with ERROR 410, new ones at old versions get 410
    letters   {"on": true}             resourceVersions that are not numbers
    deny      {"namespace": "x"}       403 for a namespace
    verbs     {"lacks": ["watch"]}     403 for these verbs: the Role does not permit them
    role      {"rules": [...]}         403 for what these rules of a Role do not permit on Leases, also by resourceNames
    silence   {"on": true}             watches stay open and send nothing
    log       {}                       -> requests so far: [method, path, query, body], and those answered with 403: [verb, name]
    objects   {}                       -> the objects of other kinds"""
import asyncio
import base64
import json
import os
import re
import ssl
import sys
import time
import uuid
from urllib.parse import parse_qs, unquote, urlsplit

LEASES = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/([^/]+)/leases(?:/([^/]+))?$")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
MICRO = re.compile(r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})\.\d{6}(Z|[+-]\d{2}:\d{2})$")
SPEC = {"holderIdentity": str, "leaseDurationSeconds": int, "leaseTransitions": int, "acquireTime": "time", "renewTime": "time",
        "strategy": str, "preferredHolder": str}
ANNOTATIONS_MAX = 256 * 1024


KINDS = {  # other kinds, by group and plural
    ("", "v1"): {"serviceaccounts": "ServiceAccount", "services": "Service", "configmaps": "ConfigMap"},
    ("rbac.authorization.k8s.io", "v1"): {"roles": "Role", "rolebindings": "RoleBinding"},
    ("apps", "v1"): {"deployments": "Deployment", "statefulsets": "StatefulSet"},
    ("policy", "v1"): {"poddisruptionbudgets": "PodDisruptionBudget"},
    ("networking.k8s.io", "v1"): {"networkpolicies": "NetworkPolicy"},
}
OBJECTS = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))/namespaces/(?P<namespace>[^/]+)/(?P<plural>[a-z]+)"
                     r"(?:/(?P<name>[^/]+))?$")


def discovery():
    """As much as kubectl requests: path -> answer."""
    def resources(version, kinds, verbs):
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
            {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": verbs} for plural, kind in kinds.items()]}

    groups, answers = [], {"/api": {"kind": "APIVersions", "versions": ["v1"]}}
    every = {**KINDS, ("coordination.k8s.io", "v1"): {"leases": "Lease"}}
    for (group, version), kinds in every.items():
        name = f"{group}/{version}" if group else version
        verbs = ["get", "list", "patch"] if group == "coordination.k8s.io" else ["get", "create"]
        answers[f"/apis/{name}" if group else f"/api/{name}"] = resources(name, kinds, verbs)
        if group:
            groups.append({"name": group, "versions": [{"groupVersion": name, "version": version}],
                           "preferredVersion": {"groupVersion": name, "version": version}})
    answers["/apis"] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    return answers


DISCOVERY = discovery()


class Fault(Exception):
    """An answer with a status other than 2xx."""

    def __init__(self, code, reason, message, **details):
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self):
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
                "reason": self.reason, "details": self.details, "code": self.code}


def bad(message):
    return Fault(400, "BadRequest", message)


def invalid(name, field, message):
    return Fault(422, "Invalid", f'Lease.coordination.k8s.io "{name}" is invalid: {field}: {message}', name=name)


def check_time(field, value):
    """Like Go's time.Parse with the layout of a MicroTime: exactly six fractional digits, valid dates only."""
    parts = MICRO.match(value) if isinstance(value, str) else None
    good = False
    if parts:
        try:
            time.strptime(value[:19], "%Y-%m-%dT%H:%M:%S")
            good = int(parts[6]) < 60
        except ValueError:
            pass
    if not good:
        raise bad(f'Lease in version "v1" cannot be handled as a Lease: parsing time "{value}" as '
                  f'"2006-01-02T15:04:05.000000Z07:00": cannot parse {field}')


def check_types(spec):
    for field, kind in SPEC.items():
        value = spec.get(field)
        if value is None:
            continue
        if kind == "time":
            check_time(field, value)
        elif kind is int and (not isinstance(value, int) or isinstance(value, bool) or not -2**31 <= value < 2**31):
            raise bad(f"json: cannot unmarshal {value!r} into Go struct field LeaseSpec.spec.{field} of type int32")
        elif kind is str and not isinstance(value, str):
            raise bad(f"json: cannot unmarshal {value!r} into Go struct field LeaseSpec.spec.{field} of type string")


def check_lease(lease, name):
    meta, spec = lease["metadata"], lease.get("spec") or {}
    if not SUBDOMAIN.match(name) or len(name) > 253:
        raise invalid(name, "metadata.name", "a lowercase RFC 1123 subdomain is needed")
    annotations = meta.get("annotations") or {}
    for key, value in annotations.items():
        prefix, slash, rest = key.rpartition("/")
        if not QUALIFIED.match(rest) or (slash and (not SUBDOMAIN.match(prefix) or len(prefix) > 253)):
            raise invalid(name, "metadata.annotations", f"Invalid value: {key!r}: name part must consist of alphanumeric characters")
        if not isinstance(value, str):
            raise bad(f"json: cannot unmarshal {value!r} into Go struct field ObjectMeta.metadata.annotations of type string")
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > ANNOTATIONS_MAX:
        raise invalid(name, "metadata.annotations", "Too long: must have at most 262144 bytes")
    if spec.get("leaseDurationSeconds") is not None and spec["leaseDurationSeconds"] <= 0:
        raise invalid(name, "spec.leaseDurationSeconds", "must be greater than 0")
    if spec.get("leaseTransitions") is not None and spec["leaseTransitions"] < 0:
        raise invalid(name, "spec.leaseTransitions", "must be greater than or equal to 0")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        raise invalid(name, "spec.preferredHolder", "may only be specified if `strategy` is defined")


def strict_object(pairs):
    keys = [k for k, _ in pairs]
    if len(keys) != len(set(keys)):
        raise bad("strict decoding error: duplicate field")
    return dict(pairs)


def decode(body, namespace, name):
    """Parses the Lease of a request, as strictly as the API server's decoder."""
    try:
        lease = json.loads(body.decode("utf-8"), object_pairs_hook=strict_object)
    except (ValueError, UnicodeDecodeError) as why:
        raise bad(f"couldn't get version/kind; json parse error: {why}") from why
    if not isinstance(lease, dict) or lease.get("kind") != "Lease" or lease.get("apiVersion") != "coordination.k8s.io/v1":
        raise bad("the object provided is unrecognized (must be of type Lease)")
    meta, spec = lease.get("metadata"), lease.get("spec") or {}
    if not isinstance(meta, dict) or not isinstance(spec, dict):
        raise bad("json: cannot unmarshal into Go value of type v1.Lease")
    check_types(spec)
    if meta.get("namespace") not in (None, "", namespace):
        raise bad("the namespace of the provided object does not match the namespace sent on the request")
    if name is not None and meta.get("name") != name:
        raise bad(f"the name of the object ({meta.get('name')}) does not match the name on the URL ({name})")
    if not meta.get("name"):
        raise Fault(422, "Invalid", "Lease is invalid: metadata.name: Required value: name or generateName is required")
    version = meta.get("resourceVersion")
    if version is not None and not isinstance(version, str):
        raise bad("json: cannot unmarshal number into Go struct field ObjectMeta.metadata.resourceVersion of type string")
    return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": meta,
            "spec": {k: v for k, v in spec.items() if k in SPEC and v is not None}}


class Leases:
    """What etcd would store: objects, one revision counter, a bounded history of events."""

    def __init__(self, path, history):
        self.path, self.history_max = path, history
        self.revision, self.oldest, self.objects, self.history, self.watchers = 100, 100, {}, [], set()
        self.letters = False
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):
                        self.apply(json.loads(line))
        self.oldest = self.revision
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115 open for life

    def version(self, number):
        return f"v{number}x" if self.letters else str(number)

    def shown(self, kind, number, obj):
        meta = dict(obj["metadata"], resourceVersion=self.version(number))
        return {"type": kind, "object": dict(obj, metadata=meta)}

    def apply(self, event):
        kind, key, number, obj = event
        self.revision = number
        if kind == "DELETED":
            self.objects.pop(tuple(key), None)
        else:
            self.objects[tuple(key)] = (number, obj)

    def write(self, kind, key, obj):
        event = [kind, list(key), self.revision + 1, obj]
        self.apply(event)
        self.file.write(json.dumps(event) + "\n")
        self.file.flush()
        self.history.append(event)
        if len(self.history) > self.history_max:
            self.oldest = self.history.pop(0)[2]
        for watcher in list(self.watchers):
            watcher.put_nowait(event)
        return self.shown("", event[2], obj)["object"]

    def get(self, key):
        if key not in self.objects:
            raise Fault(404, "NotFound", f'leases.coordination.k8s.io "{key[1]}" not found', name=key[1])
        number, obj = self.objects[key]
        return self.shown("", number, obj)["object"]

    def create(self, key, lease):
        if lease["metadata"].get("resourceVersion"):
            raise bad("resourceVersion should not be set on objects to be created")
        check_lease(lease, key[1])
        if key in self.objects:
            raise Fault(409, "AlreadyExists", f'leases.coordination.k8s.io "{key[1]}" already exists', name=key[1])
        meta = dict(lease["metadata"], namespace=key[0], uid=str(uuid.uuid4()),
                    creationTimestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        return self.write("ADDED", key, dict(lease, metadata=meta))

    def update(self, key, lease):
        """A PUT without a resourceVersion is an unconditional update, which Leases do not allow (422). A PUT may create a Lease.
        A uid in it is a precondition, so that a Lease read earlier cannot be recreated after its deletion (409)."""
        given = lease["metadata"].get("resourceVersion")
        check_lease(lease, key[1])
        if key not in self.objects and not lease["metadata"].get("uid"):
            return self.create(key, lease)
        old = self.get(key)["metadata"] if key in self.objects else {"uid": "", "resourceVersion": ""}
        if not given and key in self.objects:
            raise invalid(key[1], "metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update")
        if lease["metadata"].get("uid") not in (None, "", old["uid"]):
            raise Fault(409, "Conflict", f'Operation cannot be fulfilled on leases.coordination.k8s.io "{key[1]}": '
                        "StorageError: invalid object, Precondition failed: UID in precondition", name=key[1])
        if given != old["resourceVersion"]:
            raise Fault(409, "Conflict", f'Operation cannot be fulfilled on leases.coordination.k8s.io "{key[1]}": the object has been '
                        "modified; please apply your changes to the latest version and try again", name=key[1])
        meta = {k: v for k, v in lease["metadata"].items() if k != "resourceVersion"}
        meta.update(uid=old["uid"], creationTimestamp=old["creationTimestamp"], namespace=key[0])
        number, stands = self.objects[key]
        if dict(lease, metadata=meta) == stands:  # a write without changes creates no revision
            return self.shown("", number, stands)["object"]
        return self.write("MODIFIED", key, dict(lease, metadata=meta))

    def delete(self, key):
        self.get(key)
        obj = self.objects[key][1]
        self.write("DELETED", key, obj)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def compact(self):
        self.history.clear()
        self.oldest = self.revision
        for watcher in list(self.watchers):
            watcher.put_nowait(None)


def too_old(number, oldest):
    return Fault(410, "Expired", f"too old resource version: {number} ({oldest})")


def merge(into, patch):
    """A patch without directives, into an object without lists of objects."""
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value
    return into


class Server:
    def __init__(self, leases, token_file, history):
        self.leases, self.token_file, self.history = leases, token_file, history
        self.fail, self.denied, self.lacks, self.silent, self.log = None, set(), set(), False, []
        self.rules, self.refused, self.objects = None, [], {}

    # ---- HTTP ----

    async def read_request(self, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return method, target, headers, body

    @staticmethod
    def answer(writer, code, obj, headers=()):
        body = json.dumps(obj).encode()
        head = [f"HTTP/1.1 {code} Standin", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)

    async def serve(self, reader, writer):
        try:
            while True:
                method, target, headers, body = await self.read_request(reader)
                parts = urlsplit(target)
                query = {k: v[-1] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
                try:
                    await self.handle(writer, method, unquote(parts.path), query, headers, body)
                except Fault as fault:
                    extra = [f"Retry-After: {fault.retry}"] if getattr(fault, "retry", None) is not None else []
                    self.answer(writer, fault.code, fault.status(), extra)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, ValueError):
            pass
        finally:
            writer.close()

    async def handle(self, writer, method, path, query, headers, body):
        if path.startswith("/standin/"):
            self.answer(writer, 200, self.order(path[9:], json.loads(body or b"{}")))
            return
        self.log.append([method, path, query, body.decode("utf-8", "replace")])
        del self.log[:-5000]
        self.authenticate(headers)
        if path in ("/version", "/healthz"):
            self.answer(writer, 200, {"major": "1", "minor": "0", "gitVersion": "v0.0.0-standin"})
            return
        if method == "GET" and path in DISCOVERY:
            self.answer(writer, 200, DISCOVERY[path])
            return
        match = LEASES.match(path)
        if not match:
            self.answer(writer, *self.other(method, path, body))
            return
        namespace, name = match.groups()
        if not LABEL.match(namespace) or len(namespace) > 63:
            raise Fault(404, "NotFound", f'namespaces "{namespace}" not found')
        if namespace in self.denied:
            raise Fault(403, "Forbidden", 'leases.coordination.k8s.io is forbidden: User "tester" cannot do this in the namespace '
                        f'"{namespace}"')
        self.authorize(method, name, query)
        fault = self.planned(method)
        if fault and not self.fail.get("after"):
            raise fault
        if query.get("watch") in ("1", "true") and method == "GET" and not name:
            await self.watch(writer, namespace, query)
            return
        code, obj = self.carry_out(method, namespace, name, query, headers, body)
        if fault:
            raise fault
        self.answer(writer, code, obj)

    def authorize(self, method, name, query):
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method)
        if not verb:
            verb = "get" if name else "watch" if query.get("watch") in ("1", "true") else "list"
        if verb in self.lacks or not self.permits(verb, name, query):
            self.refused.append([verb, name])
            raise Fault(403, "Forbidden", f'leases.coordination.k8s.io is forbidden: User "tester" cannot {verb} resource "leases"')

    def permits(self, verb, name, query):
        """As RBAC: a rule with names permits a list or a watch only with a fieldSelector of such a name, and no create."""
        if self.rules is None:
            return True
        name = name or self.wanted(query)
        return any("leases" in rule["resources"] and "coordination.k8s.io" in rule["apiGroups"] and verb in rule["verbs"] and
                   ("resourceNames" not in rule or (verb != "create" and name in rule["resourceNames"])) for rule in self.rules)

    def other(self, method, path, body):
        """Creates, reads or merges an object of another kind."""
        parts = OBJECTS.match(path)
        kind = KINDS.get((parts["group"] or "", parts["core"] or parts["version"]), {}).get(parts["plural"]) if parts else None
        if not kind:
            raise Fault(404, "NotFound", "the server could not find the requested resource")
        if method == "GET" and parts["name"]:
            if path not in self.objects:
                raise Fault(404, "NotFound", f'{parts["plural"]} "{parts["name"]}" not found', name=parts["name"])
            return 200, self.objects[path]
        if method == "PATCH" and path in self.objects:
            return 200, merge(self.objects[path], json.loads(body))
        if method != "POST" or parts["name"]:
            raise Fault(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        try:
            made = json.loads(body)
            key = path + "/" + made["metadata"]["name"]
        except (ValueError, KeyError, TypeError) as why:
            raise bad(f"not an object: {why}") from why
        if made.get("kind") != kind:
            raise bad(f"the object provided is unrecognized (must be of type {kind})")
        if key in self.objects:
            raise Fault(409, "AlreadyExists", f"{key} already exists")
        made["metadata"].update(uid=str(uuid.uuid4()), resourceVersion=str(len(self.objects) + 1), namespace=parts["namespace"])
        self.objects[key] = made
        return 201, made

    def authenticate(self, headers):
        if not self.token_file:
            return
        with open(self.token_file, encoding="utf-8") as file:
            good = file.read().strip()
        if headers.get("authorization") != "Bearer " + good:
            raise Fault(401, "Unauthorized", "Unauthorized")

    # ---- faults ----

    def planned(self, method):
        plan = self.fail
        if not plan or method not in plan.get("methods", ["GET", "POST", "PUT", "DELETE"]):
            return None
        if plan.get("until", 0) < time.monotonic() and plan.get("count", 0) <= 0:
            self.fail = None
            return None
        plan["count"] = plan.get("count", 0) - 1
        fault = Fault(plan["status"], plan.get("reason", "InternalError"), plan.get("message", "told to fail"))
        fault.retry = plan.get("retry_after")
        return fault

    def order(self, what, given):
        if what == "fail":
            self.fail = dict(given, until=time.monotonic() + given.get("seconds", 0)) if given else None
        elif what == "compact":
            self.leases.compact()
        elif what == "letters":
            self.leases.letters = given["on"]
        elif what == "deny":
            self.denied.add(given["namespace"])
        elif what == "verbs":
            self.lacks = set(given["lacks"])
        elif what == "role":
            self.rules = given["rules"]
        elif what == "objects":
            return {"objects": list(self.objects.values())}
        elif what == "silence":
            self.silent = given["on"]
        elif what == "log":
            return {"log": self.log, "watches": len(self.leases.watchers), "refused": self.refused}
        return {}

    # ---- Leases ----

    def carry_out(self, method, namespace, name, query, headers, body):
        if method == "GET" and name:
            return 200, self.leases.get((namespace, name))
        if method == "GET":
            return 200, self.list(namespace, query)
        if method == "DELETE" and name:
            return 200, self.leases.delete((namespace, name))
        if method == "PATCH" and name:
            return 200, self.patch((namespace, name), headers, body)
        if method not in ("POST", "PUT") or (method == "PUT") != bool(name):
            raise Fault(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if headers.get("content-type", "").split(";")[0] != "application/json":
            raise Fault(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        lease = decode(body, namespace, name)
        key = (namespace, lease["metadata"]["name"])
        if method == "POST":
            if namespace == "missing":
                raise Fault(404, "NotFound", 'namespaces "missing" not found')
            return 201, self.leases.create(key, lease)
        return (200 if key in self.leases.objects else 201), self.leases.update(key, lease)

    def patch(self, key, headers, body):
        """A JSON Patch of test, add and replace."""
        if headers.get("content-type") != "application/json-patch+json":
            raise Fault(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        lease = json.loads(json.dumps(self.leases.get(key)))
        for step in json.loads(body):
            *way, last = [p.replace("~1", "/").replace("~0", "~") for p in step["path"].split("/")[1:]]
            at = lease
            for part in way:
                at = at.get(part) if isinstance(at, dict) else None
            wrong = not isinstance(at, dict) or (step["op"] != "add" and last not in at)
            if wrong or (step["op"] == "test" and at[last] != step["value"]):
                raise Fault(422, "Invalid", "the server rejected our request due to an error in our request")
            at[last] = step["value"]
        return self.leases.update(key, decode(json.dumps(lease).encode(), *key))

    @staticmethod
    def wanted(query):
        """Returns the name in a fieldSelector; None: all names."""
        selector = query.get("fieldSelector")
        if not selector:
            return None
        field, sign, name = selector.partition("=")
        if field != "metadata.name" or not sign:
            raise bad(f'Unable to find "coordination.k8s.io/v1, Resource=leases" that match field selector "{selector}"')
        return name.lstrip("=")

    def list(self, namespace, query):
        name = self.wanted(query)
        items = [self.leases.get(key) for key in sorted(self.leases.objects)
                 if key[0] == namespace and (name is None or key[1] == name)]
        meta = {"resourceVersion": self.leases.version(self.leases.revision)}
        if query.get("continue"):
            items = [item for item in items if item["metadata"]["name"] > self.place_of(query["continue"])]
        if query.get("limit") and len(items) > int(query["limit"]):
            items = items[:int(query["limit"])]
            meta["continue"] = base64.b64encode(json.dumps({"v": "meta.k8s.io/v1", "start": items[-1]["metadata"]["name"]}).encode()).decode()
        return {"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": meta, "items": items}

    @staticmethod
    def place_of(position):
        """The name after which a page continues."""
        try:
            return json.loads(base64.b64decode(position, validate=True))["start"]
        except (ValueError, KeyError) as why:
            raise Fault(400, "BadRequest", f"continue key is not valid: {why}") from why

    def since(self, query):
        text = query.get("resourceVersion", "")
        number = re.fullmatch(r"v?(\d+)x?", text)
        if text and not number:
            raise Fault(400, "BadRequest", f'invalid resource version "{text}"')
        since = int(number[1]) if number else self.leases.revision
        if since < self.leases.oldest:
            raise too_old(since, self.leases.oldest)
        return since

    async def watch(self, writer, namespace, query):
        name, since = self.wanted(query), self.since(query)
        queue = asyncio.Queue()
        for event in self.leases.history:
            if event[2] > since:
                queue.put_nowait(event)
        self.leases.watchers.add(queue)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            await self.stream(writer, queue, namespace, name, query)
        finally:
            self.leases.watchers.discard(queue)
        writer.write(b"0\r\n\r\n")

    async def stream(self, writer, queue, namespace, name, query):
        ends = time.monotonic() + float(query.get("timeoutSeconds") or 1800)
        bookmarks = query.get("allowWatchBookmarks") in ("1", "true")
        while True:
            await writer.drain()
            try:
                event = await asyncio.wait_for(queue.get(), max(0.0, min(1.0, ends - time.monotonic())))
            except asyncio.TimeoutError:
                if writer.transport.is_closing() or time.monotonic() >= ends:
                    return
                if bookmarks and not self.silent:
                    meta = {"resourceVersion": self.leases.version(self.leases.revision), "creationTimestamp": None}
                    self.say(writer, {"type": "BOOKMARK", "object": {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
                                                                     "metadata": meta, "spec": {}}})
                continue
            if event is None:
                self.say(writer, {"type": "ERROR", "object": too_old(0, self.leases.oldest).status()})
                return
            kind, key, number, obj = event
            if not self.silent and key[0] == namespace and name in (None, key[1]):
                self.say(writer, self.leases.shown(kind, number, obj))

    @staticmethod
    def say(writer, event):
        line = json.dumps(event).encode() + b"\n"
        writer.write(b"%x\r\n%s\r\n" % (len(line), line))


async def main():
    words = sys.argv[1:]

    def option(name, count=1):
        if name not in words:
            return [None] * count
        at = words.index(name)
        values = words[at + 1:at + 1 + count]
        del words[at:at + 1 + count]
        return values

    token, (cert, key, ca), history = option("--token")[0], option("--tls", 3), int(option("--history")[0] or 2000)
    context = None
    if cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    server = Server(Leases(words[1], history), token, history)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", int(words[0]), ssl=context, backlog=1024, limit=1 << 20)
    async with listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
