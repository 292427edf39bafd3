"""Who a client is: SASL PLAIN and SCRAM (RFC 5802) against a list of users.

    SaslHandshake      the client names a mechanism; with version 0 its tokens follow as bare frames
    SaslAuthenticate   tokens to and fro until the client is known, or is not

    PLAIN              one token: authorization id, user, password, each after the other with a zero between
    SCRAM              client first  n,,n=<user>,r=<nonce>
                       server first  r=<nonce + ours>,s=<salt>,i=<iterations>
                       client final  c=biws,r=<both nonces>,p=<proof>
                       server final  v=<signature>   the server knows the password, too

Passwords are not kept for SCRAM, only what is derived from them. A user that is not known takes as many steps
as one that is. Before a client is known it may ask for ApiVersions and nothing else.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.broker.errors import Code
from tidelog.errors import ConfigError

__all__ = ["MECHANISMS", "AuthSession", "Authenticator", "Stage", "parse_users"]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS = 4096
_FAILED = "Authentication failed: invalid credentials"


class _RefusedTokenError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Credential:
    """What a server keeps of a password for SCRAM."""

    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, password: str, name: str) -> _Credential:
        salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, _ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", name)
        stored = hashlib.new(name, client_key).digest()
        return cls(salt, stored, hmac.digest(salted, b"Server Key", name))


def parse_users(properties: Mapping[str, str]) -> dict[str, str]:
    """Users and their passwords, as a properties file has them: `name=password`."""
    users = dict(properties)
    if not users or any(not name or not password for name, password in users.items()):
        raise ConfigError("a users file needs at least one line of the form name=password")
    return users


class Authenticator:
    """The users, and the mechanisms they may use."""

    def __init__(self, users: Mapping[str, str], mechanisms: Sequence[str] = MECHANISMS) -> None:
        unknown = [name for name in mechanisms if name not in MECHANISMS]
        if unknown or not mechanisms:
            raise ConfigError(f"sasl.enabled.mechanisms is some of {', '.join(MECHANISMS)}, not {unknown}")
        self.mechanisms = tuple(mechanisms)
        self._passwords = {name: password.encode() for name, password in users.items()}
        self._credentials = {
            (mechanism, name): _Credential.of(password, _HASHES[mechanism])
            for mechanism in mechanisms
            if mechanism in _HASHES
            for name, password in users.items()
        }
        self._nobody = {
            mechanism: _Credential.of(secrets.token_hex(), _HASHES[mechanism])
            for mechanism in mechanisms
            if mechanism in _HASHES
        }

    def session(self) -> AuthSession:
        """A new connection's."""
        return AuthSession(self)

    def knows(self, user: str, password: bytes) -> bool:
        """Whether a user has this password."""
        known = self._passwords.get(user)
        same = hmac.compare_digest(known if known is not None else secrets.token_bytes(16), password)
        return same and known is not None

    def credential(self, mechanism: str, user: str) -> tuple[_Credential, bool]:
        """What is kept of a user, or of nobody, and whether the user is known."""
        found = self._credentials.get((mechanism, user))
        return (self._nobody[mechanism], False) if found is None else (found, True)


class Stage(enum.Enum):
    """How far a client has come."""

    HANDSHAKE = "handshake"
    TOKENS = "tokens"
    KNOWN = "known"
    REFUSED = "refused"


class AuthSession:
    """How far one connection has come."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self.stage = Stage.HANDSHAKE
        self.is_bare = False
        """Whether tokens come without a request around them."""
        self.user: str | None = None
        self._mechanism = ""
        self._scram: _Scram | None = None

    def handshake(self, request: Any) -> Mapping[str, Any]:
        """Take a mechanism."""
        offered = list(self._authenticator.mechanisms)
        if self.stage is not Stage.HANDSHAKE:
            self.stage = Stage.REFUSED
            return {"error_code": Code.ILLEGAL_SASL_STATE, "mechanisms": offered}
        if request.mechanism not in offered:
            self.stage = Stage.REFUSED
            return {"error_code": Code.UNSUPPORTED_SASL_MECHANISM, "mechanisms": offered}
        self._mechanism = request.mechanism
        self.is_bare = request.__version__ == 0
        self.stage = Stage.TOKENS
        return {"error_code": Code.NONE, "mechanisms": offered}

    def authenticate(self, request: Any) -> Mapping[str, Any]:
        """Take a token in a request."""
        if self.stage is not Stage.TOKENS:
            self.stage = Stage.REFUSED
            return {
                "error_code": Code.ILLEGAL_SASL_STATE,
                "error_message": "SaslHandshake comes before SaslAuthenticate",
                "auth_bytes": b"",
            }
        try:
            answer = self.token(request.auth_bytes)
        except _RefusedTokenError as refused:
            return {
                "error_code": Code.SASL_AUTHENTICATION_FAILED,
                "error_message": str(refused),
                "auth_bytes": b"",
            }
        return {"error_code": Code.NONE, "error_message": None, "auth_bytes": answer}

    def bare(self, data: bytes) -> bytes | None:
        """Take a bare token; None where the client is refused."""
        try:
            return self.token(data)
        except _RefusedTokenError:
            return None

    def token(self, data: bytes) -> bytes:
        """The answer to a token; the stage says what has become of the client."""
        try:
            return self._plain(data) if self._mechanism == "PLAIN" else self._salted(data)
        except (LookupError, ValueError):
            self.stage = Stage.REFUSED
            raise _RefusedTokenError("Authentication failed: the token cannot be parsed") from None
        except _RefusedTokenError:
            self.stage = Stage.REFUSED
            raise

    def _plain(self, data: bytes) -> bytes:
        acts_as, user, password = data.split(b"\0")
        name = user.decode()
        if not self._authenticator.knows(name, password) or acts_as.decode() not in ("", name):
            raise _RefusedTokenError(_FAILED)
        self._let_in(name)
        return b""

    def _salted(self, data: bytes) -> bytes:
        if self._scram is None:
            self._scram = _Scram(self._authenticator, self._mechanism, data.decode())
            return self._scram.first.encode()
        answer = self._scram.final(data.decode())
        self._let_in(self._scram.user)
        return answer.encode()

    def _let_in(self, user: str) -> None:
        self.user = user
        self.stage = Stage.KNOWN


class _Scram:
    """One exchange."""

    def __init__(self, authenticator: Authenticator, mechanism: str, first: str) -> None:
        gs2, acts_as, bare = _split_first(first)
        fields = _fields(bare)
        self.user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        if acts_as not in ("", self.user):
            raise _RefusedTokenError(_FAILED)
        self._hash = _HASHES[mechanism]
        self._credential, self._is_known = authenticator.credential(mechanism, self.user)
        self._nonce = fields["r"] + secrets.token_urlsafe(18)
        self._gs2 = gs2
        salt = base64.b64encode(self._credential.salt).decode()
        self.first = f"r={self._nonce},s={salt},i={_ITERATIONS}"
        self._signed = f"{bare},{self.first}"

    def final(self, message: str) -> str:
        without_proof, _, proof_text = message.rpartition(",p=")
        fields = _fields(without_proof)
        bound = base64.b64decode(fields["c"], validate=True).decode()
        proof = base64.b64decode(proof_text, validate=True)
        signed = f"{self._signed},{without_proof}".encode()
        signature = hmac.digest(self._credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            raise _RefusedTokenError(_FAILED)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(
            hashlib.new(self._hash, client_key).digest(), self._credential.stored_key
        )
        if not (is_right and self._is_known and fields["r"] == self._nonce and bound == self._gs2):
            raise _RefusedTokenError(_FAILED)
        answer = hmac.digest(self._credential.server_key, signed, self._hash)
        return f"v={base64.b64encode(answer).decode()}"


def _split_first(message: str) -> tuple[str, str, str]:
    """The header of a client's first message, whom it wants to act as, and the rest."""
    binding, acts_as, bare = message.split(",", 2)
    if binding not in ("n", "y"):
        raise _RefusedTokenError("Authentication failed: channel binding is not supported")
    return f"{binding},{acts_as},", acts_as.removeprefix("a="), bare


def _fields(text: str) -> dict[str, str]:
    fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    if not fields.get("r"):
        raise ValueError("no nonce")
    return fields
