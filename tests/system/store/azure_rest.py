"""Azurite, and a client of Azure's Blob REST API without Bellwether code: leases, reads and writes as plain programs do."""
import base64
import email.utils
import hashlib
import hmac
import http.client
import os
import subprocess
import urllib.parse

from store_lib import Skip

VERSION = "3.35.0"  # of Azurite
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def server_words(port, *options):
    """The command that starts Azurite."""
    npm = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "npm.sh")
    done = subprocess.run([npm, "azurite", VERSION], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(f"azurite is not here: {done.stdout.strip() or done.stderr.strip()}")
    return [os.path.join(done.stdout.strip(), "azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", str(port),
            "--disableTelemetry", "--skipApiVersionCheck", "--silent", *options]


def digest(text):
    return base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()


def call(port, verb, path, query=None, headers=None, body=b""):
    """Returns (status, headers in lowercase)."""
    query = query or {}
    fields = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06", **(headers or {})}
    own = {k.lower(): v for k, v in fields.items()}
    path = f"/{ACCOUNT}{urllib.parse.quote(path)}"
    signed = [verb, "", "", str(len(body)) if body else "", "", own.get("content-type", ""), "", "", own.get("if-match", ""),
              own.get("if-none-match", ""), "", ""]
    signed += [f"{k}:{own[k]}" for k in sorted(own) if k.startswith("x-ms-")]
    signed.append(f"/{ACCOUNT}{path}" + "".join(f"\n{k}:{query[k]}" for k in sorted(query)))
    fields["Authorization"] = f"SharedKey {ACCOUNT}:{digest(chr(10).join(signed))}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(verb, path + ("?" + urllib.parse.urlencode(query) if query else ""), body, fields)
        answer = connection.getresponse()
        answer.read()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}
    finally:
        connection.close()


def lease(port, path, action, lease_id=None, seconds=None):
    """Returns the lease's id, or None if the lease is refused."""
    headers = {"x-ms-lease-action": action}
    if seconds:
        headers["x-ms-lease-duration"] = str(seconds)
    if lease_id:
        headers["x-ms-lease-id"] = lease_id
    status, answer = call(port, "PUT", path, {"comp": "lease"}, headers)
    assert status in (200, 201, 202, 409, 412), (action, status, answer)
    return answer.get("x-ms-lease-id", lease_id) if status < 300 else None


def make(port, container, blob, body=b"", kind="BlockBlob"):
    call(port, "PUT", f"/{container}", {"restype": "container"})
    headers = {"x-ms-blob-type": kind, "Content-Type": "application/octet-stream"}
    if kind == "PageBlob":
        headers["x-ms-blob-content-length"] = "0"
    status, answer = call(port, "PUT", f"/{container}/{blob}", None, headers, body)
    assert status == 201, (status, answer)


def account_sas(permissions="rwdlac"):
    """Returns a shared access signature for all blobs of the account."""
    fields = [ACCOUNT, permissions, "b", "sco", "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z", "", "http,https", "2020-02-10", ""]
    return urllib.parse.urlencode({"sv": "2020-02-10", "ss": "b", "srt": "sco", "sp": permissions, "st": fields[4],
                                   "se": fields[5], "spr": "http,https", "sig": digest("\n".join(fields))})
