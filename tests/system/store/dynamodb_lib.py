"""dynalite, and clients of DynamoDB without Bellwether code: plain calls, AWS's lock client, and a check of signatures."""
import hashlib
import hmac
import http.client
import json
import os
import subprocess
import time
import uuid

from store_lib import Skip

VERSION = "4.0.0"  # of dynalite

FAKE = ("AWS4-HMAC-SHA256 Credential=a/20200101/eu-central-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, "
        "Signature=0000000000000000000000000000000000000000000000000000000000000000")


def server_words(port, *options, home=None):
    """The command that starts dynalite. `home` is the user's home directory, where it is installed."""
    npm = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "npm.sh")
    done = subprocess.run([npm, "dynalite", VERSION], capture_output=True, text=True, check=False,
                          env=dict(os.environ, **({"HOME": home} if home is not None else {})))
    if done.returncode:
        raise Skip(f"dynalite is not here: {done.stdout.strip() or done.stderr.strip()}")
    return [os.path.join(done.stdout.strip(), "dynalite"), "--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0", *options]


class Condition(Exception):
    pass


def call(port, action, body):
    """Returns the answer; raises Condition if a condition failed. The servers of the tests do not check signatures."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/", json.dumps(body), {
            "X-Amz-Target": "DynamoDB_20120810." + action, "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Date": "20200101T000000Z", "Authorization": FAKE})
        answer = connection.getresponse()
        reply = json.loads(answer.read() or b"{}")
        if answer.status == 400 and reply.get("__type", "").endswith("ConditionalCheckFailedException"):
            raise Condition(reply)
        assert answer.status == 200, (action, answer.status, reply)
        return reply
    finally:
        connection.close()


def make_table(port, table, key="key"):
    call(port, "CreateTable", {"TableName": table, "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"}],
                               "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}], "BillingMode": "PAY_PER_REQUEST"})


class LockClient:
    """amazon-dynamodb-lock-client as its README describes it: it uses only its own clock, writes a new version with every
    heartbeat, and deletes the item on release."""

    def __init__(self, port, table, key, owner, lease_ms=3000):
        self.port, self.table, self.key, self.owner, self.lease_ms = port, table, key, owner, lease_ms
        self.version, self.seen, self.since = None, None, None

    def get(self):
        return call(self.port, "GetItem", {"TableName": self.table, "Key": {"key": {"S": self.key}},
                                           "ConsistentRead": True}).get("Item")

    def put(self, condition, values):
        version = str(uuid.uuid4())
        item = {"key": {"S": self.key}, "ownerName": {"S": self.owner}, "leaseDuration": {"S": str(self.lease_ms)},
                "recordVersionNumber": {"S": version}}
        body = {"TableName": self.table, "Item": item, "ConditionExpression": condition, "ExpressionAttributeNames": {"#pk": "key"}}
        if values:
            body["ExpressionAttributeValues"] = values
        try:
            call(self.port, "PutItem", body)
        except Condition:
            return False
        self.version = version
        return True

    def try_acquire(self):
        item = self.get()
        if item is None:
            return self.put("attribute_not_exists(#pk)", None)
        version = item["recordVersionNumber"]["S"]
        if "isReleased" in item:
            return self.put("attribute_exists(#pk) AND isReleased = :yes AND recordVersionNumber = :rvn",
                            {":yes": {"S": "1"}, ":rvn": {"S": version}})
        if version != self.seen:
            self.seen, self.since = version, time.monotonic()
        if time.monotonic() - self.since < int(item["leaseDuration"]["S"]) / 1000:
            return False
        return self.put("attribute_exists(#pk) AND recordVersionNumber = :rvn", {":rvn": {"S": version}})

    def heartbeat(self):
        """Returns false if another client has the lock."""
        version = str(uuid.uuid4())
        try:
            call(self.port, "UpdateItem", {
                "TableName": self.table, "Key": {"key": {"S": self.key}}, "ExpressionAttributeNames": {"#pk": "key"},
                "UpdateExpression": "SET leaseDuration = :ms, recordVersionNumber = :new",
                "ConditionExpression": "attribute_exists(#pk) AND recordVersionNumber = :rvn AND ownerName = :owner",
                "ExpressionAttributeValues": {":ms": {"S": str(self.lease_ms)}, ":new": {"S": version}, ":rvn": {"S": self.version},
                                              ":owner": {"S": self.owner}}})
        except Condition:
            return False
        self.version = version
        return True

    def release(self):
        try:
            call(self.port, "DeleteItem", {
                "TableName": self.table, "Key": {"key": {"S": self.key}}, "ExpressionAttributeNames": {"#pk": "key"},
                "ConditionExpression": "attribute_exists(#pk) AND recordVersionNumber = :rvn AND ownerName = :owner",
                "ExpressionAttributeValues": {":rvn": {"S": self.version}, ":owner": {"S": self.owner}}})
        except Condition:
            return False
        return True


def signature_is_right(head, body, secret, region):
    """Computes Signature Version 4 again from the received request."""
    lines = head.decode().split("\r\n")
    method, path, _ = lines[0].split(" ")
    fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:] if line)}
    parts = dict(part.strip().split("=", 1) for part in fields["authorization"].split(" ", 1)[1].split(","))
    scope = parts["Credential"].split("/", 1)[1]
    signed = parts["SignedHeaders"].split(";")
    assert "host" in signed and scope.split("/")[1:] == [region, "dynamodb", "aws4_request"], (signed, scope)
    canonical = "\n".join([method, path, ""] + [f"{name}:{fields[name]}" for name in signed] +
                          ["", ";".join(signed), hashlib.sha256(body).hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", fields["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == parts["Signature"]
