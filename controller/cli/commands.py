"""What each command does, in a sentence that a list of 80 columns has room for.

A test holds this to what the modules define.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.cli.lazy import LazyCommand, LazyGroup, lazy_group


@dataclass(frozen=True, slots=True)
class Verb:
    """A command without a group. place: `module:function` of controller.cli."""

    place: str
    summary: str


@dataclass(frozen=True, slots=True)
class Group:
    """A noun, and what its verbs do; its module of controller.cli has its name."""

    summary: str
    verbs: dict[str, str]


COMMANDS: Final[dict[str, Verb | Group]] = {
    "up": Verb("farm:up", "Start Ray, the controller and this host's agent."),
    "down": Verb("farm:down", "End this home's farm; its open runs stay queued."),
    "demo": Verb("demo:demo", "Run real sweeps on this host and two virtual phones."),
    "doctor": Verb("doctor:doctor", "Check this host, and say what to do."),
    "compare": Verb("compare:compare", "Compare two cells in turns on one device."),
    "agent": Group(
        "The process on each host that measures.",
        {
            "start": "Start this host's agent.",
            "list": "List all agents that ever registered.",
            "revoke": "Refuse an agent; its runs go elsewhere at once.",
            "admit": "Let a revoked agent in again.",
        },
    ),
    "device": Group(
        "What can be measured on.",
        {
            "list": "List all devices and what they do now.",
            "show": "Show all that is known of a device.",
            "capabilities": "Show which tasks run on a device, and how.",
            "history": "Show what became of a device, by whom and why.",
            "quarantine": "Take a device out of the fleet.",
            "release": "Let a device out of quarantine; end its bookings.",
            "probe": "Probe a device that failures put in quarantine.",
            "reserve": "Keep a device for one user for a while.",
            "maintain": "Keep a device from everyone for a while.",
            "label": "Label a device for selectors to match.",
        },
    ),
    "sweep": Group(
        "Sweeps: many cells, submitted as one.",
        {
            "validate": "Check a sweep file without a farm.",
            "submit": "Queue a sweep's runs on the farm.",
            "watch": "Follow a sweep to its end, then show its results.",
            "status": "Show all sweeps, or one with its results so far.",
            "cancel": "Cancel a sweep; stop what it runs.",
            "resume": "Queue a sweep's failed and cancelled runs again.",
            "plan": "Show which devices a sweep would take, and how long.",
        },
    ),
    "results": Group(
        "What was measured.",
        {
            "report": "Write a report as one HTML file.",
            "list": "List results and failures, oldest first.",
            "show": "Show the results and failures of a run.",
            "compare": "Compare two cells by what is stored.",
            "export": "Write results to a file.",
        },
    ),
    "phone": Group(
        "Android phones, real and virtual.",
        {
            "list": "List the phones that this host's agent sees.",
            "connect": "Connect to a phone over TCP.",
            "pair": "Pair with a phone for wireless debugging.",
            "disconnect": "Let go of a phone over TCP, and forget it.",
            "clean": "Remove what runs have put on a phone.",
            "doctor": "Say what would fail a phone's runs, and the remedy.",
            "restore": "Put back the settings that doctor has changed.",
            "virtual": "Be a virtual phone until Ctrl-C.",
        },
    ),
    "prometheus": Group(
        "Metrics for a Prometheus of your own.",
        {"config": "Write prometheus.yml, recording rules and alerts."},
    ),
    "dashboards": Group(
        "Grafana dashboards of the fleet.",
        {
            "build": "Write dashboards and provisioning files.",
            "check": "Check that every query names what is exported.",
            "push": "Bring the dashboards and alerts to a Grafana server.",
            "open": "Open the fleet's overview in a browser.",
        },
    ),
    "bundle": Group(
        "Runtimes that are pushed to devices.",
        {"build": "Build a self-contained bundle, or find it."},
    ),
    "models": Group(
        "Models and data sets of mobile tasks.",
        {
            "list": "List what tasks are made of, and what is here.",
            "verify": "Check checksums and the signature of each model.",
            "add": "Take a model, data set, task or stack into the store.",
        },
    ),
    "stacks": Group(
        "Software stacks of this host.",
        {
            "list": "List all stacks and whether this host can run them.",
            "show": "Show a stack's packages, oneDNN and knobs.",
            "install": "Install what a stack has of its own.",
        },
    ),
    "bench": Group(
        "What benchfarm itself costs, and how far to trust it.",
        {
            "harness": "Measure the overhead on a query of about 5 ms.",
            "compare": "Test intervals on differences that are known.",
            "api": "Measure how long a flood of requests delays others.",
        },
    ),
    "kernels": Group(
        "Our operators: right, and how fast.",
        {
            "check": "Compare each operator with its reference.",
            "bench": "Time each operator in turns with its baselines.",
            "sweep": "Print a sweep of all operators and variants.",
        },
    ),
    "profile": Group(
        "Where the time of training steps goes.",
        {
            "import": "Read a oneDNN verbose log or a torch.profiler trace.",
            "show": "Show the top ops, primitives and modules.",
            "run": "Time, profile and replay a workload.",
            "export": "Write a profile for another program.",
            "report": "Write a profile as one HTML page.",
        },
    ),
    "machine": Group(
        "What this host can do at best.",
        {"peaks": "Measure matrix products by data type, and copying."},
    ),
    "token": Group(
        "Tokens of those who submit sweeps.",
        {
            "create": "Make a user's token and print it, this once.",
            "list": "List all tokens, without what opens anything.",
            "revoke": "End a user's token at once.",
        },
    ),
    "store": Group(
        "The store: find damage, save what is whole.",
        {
            "check": "Read all that is stored and name what is damaged.",
            "salvage": "Copy all that is sound into a new store.",
        },
    ),
}


def commands() -> dict[str, LazyCommand | LazyGroup]:
    """Return all commands and groups by their names."""
    return {name: _made(name, said) for name, said in COMMANDS.items()}


def _made(name: str, said: Verb | Group) -> LazyCommand | LazyGroup:
    if isinstance(said, Verb):
        return LazyCommand(name, said.summary, f"controller.cli.{said.place}")
    return lazy_group(name, said.summary, f"controller.cli.{name}", said.verbs)
