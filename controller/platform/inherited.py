"""The environment variables that a farm's programs inherit from its caller; all others are dropped.

The caller of `benchfarm up` may have secrets in the environment, paths from which Python or the
loader would take code, and settings that change measurements: a run gets none of them. List
libraries in folders of their own in /etc/ld.so.conf.d: with LD_LIBRARY_PATH, a result would depend
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
        *("BENCHFARM_HOME", "BENCHFARM_FARM"),
        *("BENCHFARM_STACKS", "BENCHFARM_MODELS", "BENCHFARM_DATA"),
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
"""Further variables for pip and apt, with which an agent builds bundles for its phones."""
FETCHING_PREFIXES = ("PIP_",)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a run, or another program of a farm, inherits."""
    return _of(environ, KEPT, KEPT_PREFIXES)


def inherited_to_fetch(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a program inherits that fetches packages."""
    return _of(environ, KEPT | FETCHING, KEPT_PREFIXES + FETCHING_PREFIXES)


def _of(
    environ: Mapping[str, str], names: frozenset[str], prefixes: tuple[str, ...]
) -> dict[str, str]:
    return {k: v for k, v in environ.items() if k in names or k.startswith(prefixes)}
