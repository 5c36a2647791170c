#!/usr/bin/env python3
"""Writes an Azure blob unless a newer leader has written it. The blob keeps the highest token in its metadata.

    azure.py BLOB_URL TOKEN <DATA        BLOB_URL has a shared access signature with read, create and write permission

The guard reads the blob's token, compares it, and writes data and token on condition that the blob is unchanged (If-Match). If
another client wrote in between, the write fails and the guard reads again. Exit code 77: the token is older than the blob's
(ESTALE). Every writer must use this guard. A deleted blob loses its token."""
import sys
import urllib.error
import urllib.request


class Stale(Exception):
    pass


def call(method, url, headers, data=None):
    request = urllib.request.Request(url, data=data, method=method, headers={"x-ms-version": "2021-08-06", **headers})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers


def highest(url):
    """Returns the condition that the blob is unchanged, and its token."""
    try:
        seen = call("HEAD", url, {})
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return {"If-None-Match": "*"}, 0
    return {"If-Match": seen["ETag"]}, int(seen.get("x-ms-meta-bellwether_token", "0"))


def guarded_write(url, token, data, tries=10):
    """Raises Stale if a newer leader has written. After any other exception the blob may or may not have been written."""
    if token <= 0:
        raise ValueError("ENOTOKEN: no fencing token was given")
    for _ in range(tries):
        condition, seen = highest(url)
        if token < seen:
            raise Stale(f"ESTALE: token {token} is older than {seen}, the highest seen")
        try:
            call("PUT", url, {"x-ms-blob-type": "BlockBlob", "Content-Type": "application/octet-stream",
                              "x-ms-meta-bellwether_token": str(token), **condition}, data)
            return
        except urllib.error.HTTPError as error:
            if error.code not in (409, 412):
                raise
    raise TimeoutError("other clients changed the blob during every attempt")


if __name__ == "__main__":
    try:
        guarded_write(sys.argv[1], int(sys.argv[2]), sys.stdin.buffer.read())
    except Stale as stale:
        print(stale, file=sys.stderr)
        sys.exit(77)
