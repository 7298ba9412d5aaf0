"""A package index whose address may hold a user's name and password.

As a program, it asks the index in BENCHFARM_TORCH_INDEX for torch; exit status 0 if it answers.
`deploy/setup.sh` runs it so before any package is installed: it imports the standard library only.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import urllib.request
from http.client import HTTPException
from urllib.parse import unquote, urlsplit, urlunsplit

INDEX_VARIABLE = "BENCHFARM_TORCH_INDEX"
INDEX_ANSWERS_S = 5.0
_CREDENTIALS = re.compile(r"(?<=//)[^/\s]*@")


def without_credentials(text: str) -> str:
    """Return a text in which `****` replaces the names and passwords of addresses."""
    return _CREDENTIALS.sub("****@", text)


def answers(index: str, timeout_s: float = INDEX_ANSWERS_S) -> bool:
    """Return whether an index lists torch, asked with the name and password of its address."""
    try:
        with urllib.request.urlopen(_request(f"{index.rstrip('/')}/torch/"), timeout=timeout_s):
            return True
    except (OSError, ValueError, HTTPException):
        return False


def _request(url: str) -> urllib.request.Request:
    """Return a request with Basic authentication (RFC 7617); raises ValueError for no address."""
    parts = urlsplit(url)
    credentials, _, place = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=place)))
    if credentials:
        name, _, password = credentials.partition(":")
        pair = f"{unquote(name)}:{unquote(password)}".encode()
        said = f"Basic {base64.b64encode(pair).decode()}"
        request.add_unredirected_header("Authorization", said)  # not where it redirects to
    return request


if __name__ == "__main__":
    sys.exit(not answers(os.environ[INDEX_VARIABLE]))
