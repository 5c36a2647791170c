#!/usr/bin/env python3
"""An HTTP server that misbehaves as the requested path says. It prints its port and exits when its standard input closes.

    http_server.py"""
import os
import socket
import sys
import threading
import time

BLOCK = b"x" * 65536


def read_request(connection, buffer):
    """Reads one request. Returns (head, body, rest); None if the client closed the connection."""
    while b"\r\n\r\n" not in buffer:
        data = connection.recv(65536)
        if not data:
            return None
        buffer += data
    head, rest = buffer.split(b"\r\n\r\n", 1)
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(rest) < length:
        rest += connection.recv(65536)
    return head, rest[:length], rest[length:]


def answer(connection, body, status=b"200 OK", fields=b""):
    connection.sendall(b"HTTP/1.1 %s\r\nX-Word: bell  \r\n%sContent-Length: %d\r\n\r\n%s" % (status, fields, len(body), body))


def chunk(connection, data):
    connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))


def begin_chunks(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


def stay(connection):
    while connection.recv(4096):
        pass
    return False


def endless(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(BLOCK)


def long_headers(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for i in range(30 * 1024):
        connection.sendall(b"X-%d: %s\r\n" % (i, b"y" * 1000))
    connection.sendall(b"Content-Length: 0\r\n\r\n")


def interim(connection):
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\nX-Fill: %s\r\n\r\n" % (b"z" * 1000))


def early(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    return False


def garbage(connection):
    connection.sendall(os.urandom(4096))
    return False


def lines(connection):
    begin_chunks(connection)
    for part in (b"on", b"e\ntw", b"o\n\nthree"):
        chunk(connection, part)
    connection.sendall(b"0\r\n\r\n")
    return True


def broken_lines(connection):
    begin_chunks(connection)
    chunk(connection, b"whole\nhal")
    return False


def many_lines(connection):
    begin_chunks(connection)
    for i in range(4 * 1024):
        chunk(connection, b"%01023d\n" % i)
    connection.sendall(b"0\r\n\r\n")
    return True


def long_line(connection):
    begin_chunks(connection)
    while True:
        chunk(connection, BLOCK)


def quiet_lines(connection):
    begin_chunks(connection)
    chunk(connection, b"first\n")
    time.sleep(0.5)
    chunk(connection, b"second\n")
    return stay(connection)


def nothing(connection):
    del connection
    return False


PATHS = {b"/endless": endless, b"/headers": long_headers, b"/interim": interim, b"/early": early, b"/garbage": garbage,
         b"/lines": lines, b"/broken-lines": broken_lines, b"/many-lines": many_lines, b"/long-line": long_line,
         b"/quiet-lines": quiet_lines, b"/silent": stay, b"/nothing": nothing}


def serve(connection, number):
    served, buffer = 0, b""
    with connection:
        try:
            while True:
                request = read_request(connection, buffer)
                if not request:
                    return
                head, body, buffer = request
                served += 1
                path = head.split(b" ")[1].split(b"?")[0]
                if path in PATHS:
                    if not PATHS[path](connection):
                        return
                elif path == b"/echo":
                    answer(connection, b"connection %d request %d\n" % (number, served) + head + b"\n\n" + body)
                elif path == b"/once":  # closes after an answer without "Connection: close"
                    answer(connection, b"once")
                    return
                else:
                    answer(connection, b"no such thing", b"404 Not Found")
        except OSError:
            pass


def accept(listener):
    number = 0
    while True:
        connection, _ = listener.accept()
        number += 1
        threading.Thread(target=serve, args=(connection, number), daemon=True).start()


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    sys.stdin.read()


main()
