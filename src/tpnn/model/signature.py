"""Signatures of model files by an Ed25519 key.

The checksum of a file, which depends on every byte of its content, is what is signed. Only who has
the private key can sign a file that was changed; everybody can verify it by the public key.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

SIGNED = "tpnn-model:"  # before the checksum, so that no signature of anything else is one


def signature(checksum: str, key: Any) -> str:
    """Sign the checksum of a file by a private key, or by the one in a PEM file."""
    signed: bytes = _key(key, "sign").sign(f"{SIGNED}{checksum}".encode())
    return signed.hex()


def check_signature(checksum: str, signed: str | None, key: Any) -> None:
    """Refuse a file that was not signed by the private key of a public one."""
    from cryptography.exceptions import InvalidSignature

    public = _key(key, "verify")
    if signed is None:
        raise ValueError(
            "verify: the file must be signed, and it has no signature. Ask who wrote it for one "
            "that was saved with sign=."
        )
    try:
        public.verify(bytes.fromhex(signed), f"{SIGNED}{checksum}".encode())
    except (InvalidSignature, ValueError) as error:
        raise ValueError(
            "verify: the file must be signed by the owner of this key, and its signature is "
            "another one. Do not trust the file, or verify it by the right key."
        ) from error


def _key(key: Any, argument: str) -> Any:
    """Private or public key of cryptography, read from a PEM file if it is a path."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ImportError(
            f"{argument}: signatures need the package cryptography, which is not installed. "
            'pip install "tpnn[sign]".'
        ) from error
    is_private = argument == "sign"
    kind = ed25519.Ed25519PrivateKey if is_private else ed25519.Ed25519PublicKey
    if isinstance(key, str | os.PathLike):
        data = Path(key).read_bytes()
        try:
            key = (
                serialization.load_pem_private_key(data, None)
                if is_private
                else serialization.load_pem_public_key(data)
            )
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{argument}: must be a PEM file with a key and no password, found "
                f"{os.fspath(key)!r} ({error}). Write one by openssl, for example."
            ) from error
    if not isinstance(key, kind):
        raise TypeError(
            f"{argument}: must be an {kind.__name__} of cryptography, or the path of its PEM file, "
            f"found {type(key).__name__}. Pass the {'private' if is_private else 'public'} key."
        )
    return key
