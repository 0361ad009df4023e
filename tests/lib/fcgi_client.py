"""A FastCGI client: one connection a request, as nginx does it without keep-conn. Can also misbehave: stop half-way, send what it likes."""

import socket
import struct

BEGIN, END, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7


def _record(kind, data):
    return struct.pack(">BBHHBB", 1, kind, 1, len(data), 0, 0) + data


def _length(n):
    return bytes([n]) if n < 128 else struct.pack(">I", n | 0x80000000)


def encode(params, body=b""):
    """The bytes of a request; params is a list of pairs, so that a name may come twice."""
    pairs = b"".join(_length(len(k)) + _length(len(v)) + k + v for k, v in ((k.encode(), v.encode("utf-8", "surrogateescape")) for k, v in params))
    out = [_record(BEGIN, struct.pack(">HB5x", 1, 0))]
    out += [_record(PARAMS, pairs[i:i + 65535]) for i in range(0, len(pairs), 65535)] + [_record(PARAMS, b"")]
    out += [_record(STDIN, body[i:i + 65535]) for i in range(0, len(body), 65535)] + [_record(STDIN, b"")]
    return b"".join(out)


class Answer:
    def __init__(self, raw):
        head, _, self.body = raw.partition(b"\r\n\r\n")
        self.headers = {}
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            self.headers[name] = value
        self.status = int(self.headers.pop("Status", "200").split()[0])

    @property
    def json(self):
        import json
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["code"] if self.headers.get("Content-Type") == "application/problem+json" else None

    def __repr__(self):
        return "%d %r %r" % (self.status, self.headers, self.body[:300])


def connect(path, timeout=20):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    s.connect(path)
    return s


def read_answer(s):
    """Reads to the END record, then closes, as nginx does. ConnectionError when the connection ends before it: the request was dropped."""
    data, out = b"", b""
    while True:
        while len(data) >= 8:
            _, kind, _, n, pad, _ = struct.unpack(">BBHHBB", data[:8])
            if len(data) < 8 + n + pad:
                break
            if kind == STDOUT:
                out += data[8:8 + n]
            data, ended = data[8 + n + pad:], kind == END
            if ended:
                s.close()
                return Answer(out)
        more = s.recv(65536)
        if not more:
            raise ConnectionError("cut before the end of the answer")
        data += more


def request(path, params, body=b"", timeout=20):
    with connect(path, timeout) as s:
        s.sendall(encode(params, body))
        return read_answer(s)
