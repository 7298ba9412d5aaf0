"""The version of benchfarm that is installed; agent and controller must agree on it."""

from importlib.metadata import version


def installed_version() -> str:
    """Return the version in the installed package's metadata."""
    return version("benchfarm")
