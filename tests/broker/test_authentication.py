"""Who may come in: SASL PLAIN and SCRAM, and TLS; first without sockets, then with clients."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from tests.broker.asking import request
from tests.broker.certificates import make_certificate
from tests.waiting import PATIENCE_S
from tidelog.broker.authentication import MECHANISMS, Authenticator, AuthSession, Stage, parse_users
from tidelog.broker.running import BrokerOptions, BrokerThread
from tidelog.broker.settings import Endpoint
from tidelog.errors import ConfigError

USERS = {"alice": "secret", "bob,=": "other"}
HERE = (Endpoint("127.0.0.1", 0),)


def token(session: AuthSession, data: bytes) -> Any:
    return session.authenticate(request("SaslAuthenticate", 2, auth_bytes=data))


def begun(mechanism: str) -> AuthSession:
    session = Authenticator(USERS).session()
    answer = session.handshake(request("SaslHandshake", 1, mechanism=mechanism))
    assert (answer["error_code"], answer["mechanisms"]) == (0, list(MECHANISMS))
    return session


@pytest.mark.parametrize(
    ("data", "stage"),
    [
        (b"\0alice\0secret", Stage.KNOWN),
        (b"alice\0alice\0secret", Stage.KNOWN),
        (b"bob,=\0alice\0secret", Stage.REFUSED),
        (b"\0alice\0secrets", Stage.REFUSED),
        (b"\0nobody\0secret", Stage.REFUSED),
        (b"\0alice\0", Stage.REFUSED),
        (b"alice secret", Stage.REFUSED),
        (b"\0\xff\0secret", Stage.REFUSED),
        (b"", Stage.REFUSED),
    ],
)
def test_plain(data: bytes, stage: Stage) -> None:
    session = begun("PLAIN")
    assert token(session, data)["error_code"] == (0 if stage is Stage.KNOWN else 58)
    assert session.stage is stage
    assert session.user == ("alice" if stage is Stage.KNOWN else None)


def scram(session: AuthSession, name: str, user: str, password: str, **broken: Any) -> bytes:
    """A client's side of SCRAM; what the server says in the end, b"" where it refuses."""
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r=mine"
    first = token(session, f"n,,{bare}".encode())["auth_bytes"].decode()
    if not first:
        return b""
    fields = dict(part.split("=", 1) for part in first.split(","))
    assert fields["r"].startswith("mine")
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    without_proof = f"c={broken.get('binding', 'biws')},r={broken.get('nonce', fields['r'])}"
    signed = f"{bare},{first},{without_proof}".encode()
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), signed, name)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))[: broken.get("length")]
    final = f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    said: bytes = token(session, final)["auth_bytes"]
    if said:
        server_key = hmac.digest(salted, b"Server Key", name)
        assert said == b"v=" + base64.b64encode(hmac.digest(server_key, signed, name))
    return said


@pytest.mark.parametrize(("mechanism", "name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
def test_scram(mechanism: str, name: str) -> None:
    for user, password in USERS.items():
        session = begun(mechanism)
        assert scram(session, name, user, password)
        assert (session.stage, session.user) == (Stage.KNOWN, user)
    for user, password, broken in (
        ("alice", "wrong", {}),
        ("nobody", "secret", {}),
        ("alice", "secret", {"nonce": "mine"}),
        ("alice", "secret", {"binding": "eSws"}),
        ("alice", "secret", {"length": 10}),
    ):
        session = begun(mechanism)
        assert not scram(session, name, user, password, **broken)
        assert session.stage is Stage.REFUSED


@pytest.mark.parametrize("data", [b"", b"n,,", b"p=tls,,n=alice,r=x", b"n,,n=alice", b"\xff\xfe", b"n,,r=x"])
def test_scram_refuses_nonsense(data: bytes) -> None:
    session = begun("SCRAM-SHA-256")
    assert token(session, data)["error_code"] == 58
    assert session.stage is Stage.REFUSED


def test_the_order_of_steps() -> None:
    session = Authenticator(USERS, ["PLAIN"]).session()
    assert token(session, b"\0alice\0secret")["error_code"] == 34
    session = Authenticator(USERS, ["PLAIN"]).session()
    refused = session.handshake(request("SaslHandshake", 1, mechanism="SCRAM-SHA-256"))
    assert (refused["error_code"], refused["mechanisms"]) == (33, ["PLAIN"])
    with pytest.raises(ConfigError, match=r"sasl\.enabled\.mechanisms"):
        Authenticator(USERS, ["GSSAPI"])
    with pytest.raises(ConfigError, match="name=password"):
        parse_users({"alice": ""})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_come_in_with_a_password_only(tmp_path: Path, mechanism: str) -> None:
    with BrokerThread(BrokerOptions(roots=[str(tmp_path)], listen=HERE, users=USERS)) as broker:
        for password, comes_in in (("secret", True), ("wrong", False)):
            producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": mechanism,
                    "sasl.username": "alice",
                    "sasl.password": password,
                    "message.timeout.ms": 15000 if comes_in else 1000,
                }
            )
            failed: list[Any] = []
            producer.produce("t", b"v", on_delivery=lambda error, _, to=failed: error and to.append(error))
            producer.flush(PATIENCE_S)
            assert bool(failed) is not comes_in
        stranger = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 1000}
        )
        stranger.produce("t", b"v")
        stranger.flush(3)
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size < 80


def test_aiokafka_authenticates(tmp_path: Path) -> None:
    async def run(where: str) -> int:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=where,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="alice",
            sasl_plain_password="secret",
        )
        async with producer:
            return int((await producer.send_and_wait("t", b"v")).offset)

    with BrokerThread(BrokerOptions(roots=[str(tmp_path)], listen=HERE, users=USERS)) as broker:
        assert asyncio.run(asyncio.wait_for(run(broker.bootstrap_servers), PATIENCE_S)) == 0


def test_tls(tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    make_certificate(pem)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    options = BrokerOptions(roots=[str(tmp_path / "root")], listen=HERE, tls=tls, users=USERS)
    with BrokerThread(options) as broker:
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(pem),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
        producer = confluent_kafka.Producer(config)
        for n in range(200):
            producer.produce("t", bytes(10_000), key=b"%d" % n)
        assert producer.flush(PATIENCE_S) == 0
        consumer = confluent_kafka.Consumer(config | {"group.id": "g"})
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        seen = [consumer.poll(PATIENCE_S) for _ in range(200)]
        assert [one.key() for one in seen] == [b"%d" % n for n in range(200)]
        consumer.close()
