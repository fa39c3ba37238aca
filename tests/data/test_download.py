import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from labelsift import InputError
from labelsift.data import download
from labelsift.data.download import fetch

CONTENT = np.random.default_rng(0).bytes(1_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT the way its server says: with or without ranges, cut short, stalled or refused."""

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if server.status:
            self.send_error(server.status)
            return
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.ranges else 0
        if first and first >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        if server.sized:
            self.send_header("Content-Length", str(len(CONTENT) - first))
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.end_headers()
        last = len(CONTENT) if server.cut is None else min(first + server.cut, len(CONTENT))
        self.wfile.write(CONTENT[first:last])
        if server.stall:
            server.stall.wait(5)
            self.wfile.write(CONTENT[last:])

    def log_message(self, *words):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that went away is part of the tests."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server(("127.0.0.1", 0), Handler)
    server.asked, server.ranges, server.sized = [], True, True
    server.status = server.cut = server.stall = None
    server.url = f"http://127.0.0.1:{server.server_port}/set.gz"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    if server.stall:
        server.stall.set()
    server.shutdown()
    thread.join()
    server.server_close()


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_download_is_put_in_place_and_not_repeated(server, tmp_path):
    file = tmp_path / "data" / "set.gz"
    assert fetch(file, server.url, MD5) == file
    assert file.read_bytes() == CONTENT
    assert names(file.parent) == ["set.gz"]
    assert fetch(file, server.url, MD5) == file
    assert server.asked == [None]


def test_what_is_there_is_taken_as_it_is_unless_empty(server, tmp_path):
    file = tmp_path / "set.gz"
    file.write_bytes(b"mine")
    fetch(file, server.url, MD5)
    assert file.read_bytes() == b"mine"
    file.write_bytes(b"")
    fetch(file, server.url, MD5)
    assert file.read_bytes() == CONTENT


def test_progress_is_told_a_few_times_a_second(server, tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(download, "CHUNK", 10_000)
    monkeypatch.setattr(download, "PAUSE", 60.0)
    fetch(tmp_path / "set.gz", server.url, MD5, events.append)
    assert events[-1] == {"download": {"file": "set.gz", "done": 1_000_000, "total": 1_000_000}}
    assert len(events) == 2
    monkeypatch.setattr(download, "PAUSE", 0.0)
    server.sized = False
    events.clear()
    fetch(tmp_path / "again.gz", server.url, MD5, events.append)
    done = [event["download"]["done"] for event in events]
    assert len(done) > 90
    assert done == sorted(done)
    assert events[-1]["download"] == {"file": "again.gz", "done": 1_000_000, "total": None}


def test_a_broken_off_download_goes_on_where_it_was(server, tmp_path):
    file = tmp_path / "set.gz"
    server.cut = 400_000
    with pytest.raises(InputError, match="connection closed after 400000 of 1000000 bytes; trying again"):
        fetch(file, server.url, MD5)
    assert names(tmp_path) == ["set.gz.part"]
    with pytest.raises(InputError, match="after 800000 of 1000000"):
        fetch(file, server.url, MD5)
    events = []
    fetch(file, server.url, MD5, events.append)
    assert server.asked == [None, "bytes=400000-", "bytes=800000-"]
    assert events[0]["download"]["done"] > 800_000
    assert file.read_bytes() == CONTENT
    assert names(tmp_path) == ["set.gz"]


def test_a_server_without_ranges_starts_over(server, tmp_path):
    server.ranges = False
    (tmp_path / "set.gz.part").write_bytes(b"x" * 5000)
    fetch(tmp_path / "set.gz", server.url, MD5)
    assert server.asked == ["bytes=5000-"]
    assert (tmp_path / "set.gz").read_bytes() == CONTENT


def test_a_part_that_was_whole_needs_only_its_check(server, tmp_path):
    (tmp_path / "set.gz.part").write_bytes(CONTENT)
    fetch(tmp_path / "set.gz", server.url, MD5)
    assert (tmp_path / "set.gz").read_bytes() == CONTENT
    assert names(tmp_path) == ["set.gz"]


@pytest.mark.parametrize("part", [b"", b"from another file", b"x" * 1_000_000])
def test_a_wrong_checksum_leaves_nothing(server, tmp_path, part):
    (tmp_path / "set.gz.part").write_bytes(part)
    wrong = MD5 if part else "0" * 32
    with pytest.raises(InputError, match=r"came damaged .* was removed"):
        fetch(tmp_path / "set.gz", server.url, wrong)
    assert names(tmp_path) == []


def test_a_stalled_server_counts_as_broken_off(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    server.stall, server.cut = threading.Event(), 300_000
    started = time.monotonic()
    with pytest.raises(InputError, match=r"no data for 0\.2 seconds after 300000 of 1000000 bytes"):
        fetch(tmp_path / "set.gz", server.url, MD5)
    assert time.monotonic() - started < 15
    assert (tmp_path / "set.gz.part").read_bytes() == CONTENT[:300_000]


def test_no_such_file_on_the_server(server, tmp_path):
    server.status = 404
    with pytest.raises(InputError) as error:
        fetch(tmp_path / "set.gz", server.url, MD5)
    assert str(error.value) == (
        f"set.gz is not in {tmp_path} and cannot be downloaded (HTTP 404 Not Found): "
        f"put it there from {server.url}."
    )
    assert names(tmp_path) == []


def test_no_network_keeps_the_part(server, tmp_path):
    (tmp_path / "set.gz.part").write_bytes(CONTENT[:10])
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        url = f"http://127.0.0.1:{closed.server_port}/set.gz"
    with pytest.raises(InputError, match=r"cannot be downloaded \(Connection refused\): put it there from"):
        fetch(tmp_path / "set.gz", url, MD5)
    assert names(tmp_path) == ["set.gz.part"]


def test_a_fault_of_the_disk_stays_one(server, tmp_path):
    (tmp_path / "set.gz.part").mkdir()
    with pytest.raises(IsADirectoryError):
        fetch(tmp_path / "set.gz", server.url, MD5)


def test_two_at_once_download_once(server, tmp_path):
    server.stall, server.cut = threading.Event(), 1000  # long enough for both to ask, if both would
    threads = [threading.Thread(target=fetch, args=(tmp_path / "set.gz", server.url, MD5)) for _ in "ab"]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    server.stall.set()
    for thread in threads:
        thread.join()
    assert server.asked == [None]
    assert (tmp_path / "set.gz").read_bytes() == CONTENT
