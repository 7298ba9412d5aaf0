"""The version of the installed benchfarm; agent and controller must have the same."""

from importlib.metadata import version


def installed_version() -> str:
    """Return the version in the installed package's metadata."""
    return version("benchfarm")
