#!/usr/bin/env python3
"""The Azure store on Azurite, Microsoft's development storage.

    store_azure.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import os
import subprocess

from store_lib import Place, Server, Skip, Suite, free_ports

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
HERE = os.path.dirname(os.path.abspath(__file__))

suite = Suite()


def programs():
    """Where Azurite's programs are; installs them on first use."""
    done = subprocess.run([os.path.join(HERE, "..", "npm.sh"), "azurite", VERSION], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(f"azurite is not here: {done.stdout.strip() or done.stderr.strip()}")
    return done.stdout.strip()


def azurite(place, *options):
    port = free_ports()[0]
    words = [os.path.join(programs(), "azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--disableTelemetry",
             "--inMemoryPersistence", "--skipApiVersionCheck", "--silent", *options]
    return Server(place, "azurite", words, port).start()


def url(port, path="elections", more=""):
    return f"azure://{ACCOUNT}/{path}?endpoint=http://127.0.0.1:{port}{more}"


@suite.test
def conformance():
    with Place("azure") as place:
        suite.run_conformance("azure", url(azurite(place).port))


suite.main()
