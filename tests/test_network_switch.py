from __future__ import annotations

import socket
import threading

import pytest


@pytest.mark.parametrize(
    ("family", "address"),
    [(socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9))],
)
def test_no_test_reaches_another_machine(family, address):
    with socket.socket(family) as sock:
        with pytest.raises(RuntimeError, match="must not reach the network"):
            sock.connect(address)
        with pytest.raises(RuntimeError, match="must not reach the network"):
            sock.connect_ex(address)
    with (
        socket.socket(family, socket.SOCK_DGRAM) as sock,
        pytest.raises(RuntimeError, match="must not reach the network"),
    ):
        sock.sendto(b"", address)


def test_no_test_looks_up_a_name():
    with pytest.raises(RuntimeError, match=r"tried 'api\.example\.com'"):
        socket.create_connection(("api.example.com", 443), timeout=1)


def accept_one(server):
    server.accept()[0].close()


def test_this_machine_can_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=accept_one, args=(server,))
        accepting.start()
        socket.create_connection(server.getsockname(), timeout=5).close()
        accepting.join(timeout=5)


def test_unix_sockets_are_let_through():
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x")
        assert other.recv(1) == b"x"
