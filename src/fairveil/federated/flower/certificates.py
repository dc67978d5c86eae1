"""Certificates: the SuperLink's own, on loopback, and a set to try a federation out; node keys; what a party checks."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairveil.errors import InputError, PrivacyError, SpecError
from fairveil.federated.signing import primitives, write_private

DAYS = 365
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "server.pem", "server.key"
PUBLIC_KEY, TIMESTAMP, SIGNATURE = b"flwr-public-key", b"flwr-timestamp", b"flwr-signature"
"""Headers in which a SuperNode says who it is: its key, its time, and the one signed by the other."""
CLOCKS_APART = 3900.0
"""Seconds by which a party's clock may differ from the coordinator's: an hour, and what Flower allows."""


def make_certificates(folder: Path, host: str, *, days: float = DAYS) -> None:
    """An authority and a certificate for one host, signed by it; its key is thrown away. To try things out."""
    primitives()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def name(words: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, words)])

    def built(subject: str, key: Any, extensions: list[tuple[x509.ExtensionType, bool]]) -> Any:
        start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
        builder = x509.CertificateBuilder(name("fairveil"), name(subject), key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(end)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(authority, hashes.SHA256())

    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    top = built("fairveil", authority, [(x509.BasicConstraints(True, 0), True), (identifier, False), (usage, True)])
    names = x509.SubjectAlternativeName([_general_name(x509, host)])
    server = built(host[:60], key, [(names, False), (x509.BasicConstraints(False, None), True), (issuer, False)])
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(folder / KEY, secret)
    (folder / CERTIFICATE).write_bytes(server.public_bytes(pem))
    (folder / AUTHORITY).write_bytes(top.public_bytes(pem))


def _general_name(x509: Any, host: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_node_key(file: Path) -> None:
    """A new private key of a node, as Flower reads it."""
    primitives()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    style = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    write_private(file, ec.generate_private_key(ec.SECP384R1()).private_bytes(*style))


def node_public(file: Path) -> str:
    """The public part of a node's key, as it stands in a plan."""
    primitives()
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_ssh_private_key(file.read_bytes(), None)
    except (OSError, ValueError):
        raise InputError(
            "there is no node key in this file", path=str(file), fix="make one: fairveil federate keys DIR"
        ) from None
    style = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return key.public_key().public_bytes(*style).decode()


class NodeKeys:
    """The node keys of a plan: whether a request comes from one of them, told by its headers alone.

    A header can be shown again for as long as clocks may differ by whoever has read it, which is the coordinator: it
    opens the door to Flower, and counts for nothing among parties, whose statements are signed by other keys.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        primitives()
        from cryptography.hazmat.primitives import serialization

        self._known: dict[bytes, Any] = {}
        for place, text in enumerate(keys):
            try:
                key = serialization.load_ssh_public_key(text.encode())
                pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            except ValueError:
                raise SpecError(
                    "this is no node key", path=f"party.{place}.node_key", fix="fairveil federate keys DIR prints one"
                ) from None
            self._known[base64.b64encode(pem)] = key

    def sent(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether the sender of these headers holds one of the keys, and its clock is near enough."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        key = self._known.get(headers.get(PUBLIC_KEY, b""))
        try:
            signed = datetime.datetime.fromisoformat(headers[TIMESTAMP].decode("ascii"))
            apart = (datetime.datetime.now(datetime.UTC) - signed).total_seconds()
            signature = base64.b64decode(headers[SIGNATURE], validate=True)
            if key is None or abs(apart) > CLOCKS_APART:
                return False
            key.verify(signature, headers[TIMESTAMP], ec.ECDSA(hashes.SHA256()))
        except (KeyError, ValueError, TypeError, InvalidSignature):
            return False
        return True


def check_server(host: str, port: int, authority: Path, *, named: bool = True) -> bool:
    """Whether the server is up and shows a certificate that the authority signed, for its name; refuses another one.

    ``named`` False: an address to listen on need not be the name by which parties know the server.
    """
    try:
        context = ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError):
        raise InputError("there is no certificate in this file", path=str(authority), fix="name a PEM file") from None
    context.check_hostname = named
    try:
        with (
            socket.create_connection((host, port), timeout=30) as line,
            context.wrap_socket(line, server_hostname=host),
        ):
            return True
    except ssl.SSLCertVerificationError as problem:
        raise PrivacyError(
            "the coordinator's certificate is not to be trusted", path="server", given=problem.verify_message,
            fix="ask the coordinator for its authority (--ca) and the host name of its certificate",
        ) from None  # fmt: skip
    except OSError:
        return False
