"""What the environment of a caller may hand down to what a farm starts: named here, else dropped.

Whoever calls `benchfarm up` may have secrets in the environment, paths that Python or the loader
would take code from, and settings that change what is measured: a run gets none of them. Libraries
in folders of their own belong into /etc/ld.so.conf.d: with LD_LIBRARY_PATH, a result would depend
on the shell that its farm was started from.
"""

from __future__ import annotations

from collections.abc import Mapping

KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_CACHE_HOME"),
        *("LANG", "LANGUAGE", "TZ"),
        *("CC", "CXX"),  # the compilers of stacks that compile
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("BENCHFARM_HOME", "BENCHFARM_STACKS", "BENCHFARM_MODELS", "BENCHFARM_FARM"),
        "BENCHFARM_TEST_CLOCK_AHEAD_S",
    }
)
KEPT_PREFIXES = ("LC_",)
FETCHING = frozenset(
    {
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "APT_CONFIG"),
        *("BENCHFARM_TORCH_INDEX", "BENCHFARM_TORCH_WHEELS"),
        *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
    }
)
"""What pip and apt go by besides: an agent builds the bundles of its phones."""
FETCHING_PREFIXES = ("PIP_",)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a run, or another program that a farm starts, may know of its caller."""
    return _of(environ, KEPT, KEPT_PREFIXES)


def inherited_to_fetch(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a program that fetches packages may know besides."""
    return _of(environ, KEPT | FETCHING, KEPT_PREFIXES + FETCHING_PREFIXES)


def _of(
    environ: Mapping[str, str], names: frozenset[str], prefixes: tuple[str, ...]
) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k in names or k.startswith(prefixes)}
