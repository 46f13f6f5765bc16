"""Certificates of a test, and clients that take any."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificate(folder: Path, name: str = "a", *, key_of: str = "") -> tuple[Path, Path]:
    """Files of a certificate for 127.0.0.1; `key_of` writes the key of another one beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    name_of_host = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(name_of_host, critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "tls.crt", folder / "tls.key"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    if not key_of:
        forms = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, *forms))
    return chain, secret


def trusting_anybody(most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = most
    return context
