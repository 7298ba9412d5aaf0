"""What each command does, in a sentence that a list of 80 columns has room for.

A test holds this to what the modules define.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    places: dict[str, str] = field(default_factory=dict)
    """`module:function` of verbs that must not load what the group's others need."""


COMMANDS: Final[dict[str, Verb | Group]] = {
    "up": Verb("farm:up", "Start Ray, the controller and this host's agent."),
    "down": Verb("farm:down", "Stop this home's farm; unfinished runs stay queued."),
    "status": Verb("status:status", "Show whether the farm is up, and what is wrong."),
    "demo": Verb("demo:demo", "Run real sweeps on this host and two virtual phones."),
    "doctor": Verb("doctor:doctor", "Check this host, and say what to do."),
    "compare": Verb("compare:compare", "Compare two cells in alternating batches on one device."),
    "plan-training": Verb(
        "plan_training:plan_training", "Plan how long training to the quality target takes."
    ),
    "publish": Verb("publish:publish", "Write static pages of results that others can check."),
    "login": Verb("login:login", "Keep the address and token of a farm elsewhere."),
    "completion": Verb("completion:completion", "Print the completion script of a shell."),
    "agent": Group(
        "Manage the agents that measure on each host.",
        {
            "start": "Start this host's agent.",
            "list": "List all agents that ever registered.",
            "revoke": "Revoke an agent; its runs are queued again at once.",
            "admit": "Let a revoked agent register again.",
            "drain": "Give a host's devices no new runs; current ones finish.",
            "undrain": "Let a drained host take runs again.",
        },
    ),
    "device": Group(
        "Show devices, and manage who may use them.",
        {
            "list": "List all devices that ever registered, with their states.",
            "show": "Show a device's state, labels and facts.",
            "capabilities": "Show which tasks run on a device, and how.",
            "history": "Show a device's changes of state, with who and why.",
            "quarantine": "Take a device out of the fleet.",
            "release": "End a device's quarantine, maintenance and your bookings.",
            "bookings": "List the reservations and maintenance of all devices.",
            "probe": "Probe a quarantined device now.",
            "reserve": "Reserve a device for one user.",
            "maintain": "Reserve a device for maintenance; no run starts on it.",
            "label": "Set or remove a device's labels.",
            "rename": "Give a device a name, or take it away.",
            "forget": "Remove a device that is away; its results are kept.",
        },
        {"list": "device_list:list_devices"},
    ),
    "sweep": Group(
        "Check, submit and follow sweeps.",
        {
            "new": "Write a sweep file with comments, to be edited.",
            "validate": "Check a sweep file without a farm.",
            "submit": "Queue a sweep's runs on the farm.",
            "watch": "Follow a sweep to its end, then show its results.",
            "status": "Show all sweeps, or the results of one so far.",
            "cancel": "Cancel a sweep's queued runs and stop its current ones.",
            "resume": "Queue a sweep's failed and cancelled runs again.",
            "plan": "Show the devices and hours that a sweep would take.",
            "tag": "Add or remove a sweep's tags, or show them.",
            "note": "Add or remove a note on a sweep, or show its notes.",
        },
        {"tag": "sweep_annotations:tag", "note": "sweep_annotations:note"},
    ),
    "suite": Group(
        "Run MLPerf Mobile's suite by its rules (unverified).",
        {
            "list": "List versions of the suite with tasks and scenarios.",
            "run": "Run or continue a session of a version on one device.",
            "status": "List sessions, and how many rules each meets.",
            "show": "Show a session's results, and which rules it meets.",
        },
        {"run": "suite_run:run"},
    ),
    "workload": Group(
        "Show the workloads that a sweep may name.",
        {
            "list": "List all workloads and their scenarios.",
            "show": "Show a workload's stacks, scenarios, models and knobs.",
        },
    ),
    "scenario": Group(
        "Show the scenarios that a sweep may name.",
        {
            "list": "List all scenarios and the metric that ranks their results.",
            "show": "Show a scenario's metric, workloads and knobs.",
        },
    ),
    "results": Group(
        "Show, compare and export results.",
        {
            "report": "Write a sweep or a comparison as one HTML file.",
            "list": "List results, oldest first.",
            "show": "Show the results and failures of a run.",
            "explain": "Say why a run differs from earlier ones of its cell.",
            "replicate": "Measure a run's cell again, or audit its result.",
            "compare": "Compare two cells by their stored results.",
            "export": "Write results to a file, or as a submission's tree.",
            "import": "Import published results, to rank beside yours.",
            "verify": "Recompute a result from LoadGen's logs.",
            "artifacts": "List or fetch the files that a run left.",
        },
        {
            "list": "result_lists:list_results",
            "explain": "results_explain:explain_run",
            "replicate": "results_replicate:replicate",
            "export": "result_lists:export",
            "verify": "results_verify:verify",
            "artifacts": "results_artifacts:list_artifacts",
            "import": "results_import:import_results",
        },
    ),
    "phone": Group(
        "Connect, check and simulate Android phones.",
        {
            "list": "List the phones that this host's agent sees.",
            "connect": "Connect this host's agent to a phone over TCP.",
            "pair": "Pair with a phone for wireless debugging.",
            "disconnect": "Disconnect a phone that is connected over TCP.",
            "clean": "Remove what runs have put on a phone.",
            "doctor": "Show what would make a phone's runs fail, and remedies.",
            "restore": "Restore the settings that `phone doctor --set` changed.",
            "virtual": "Run a virtual phone until Ctrl-C.",
        },
    ),
    "prometheus": Group(
        "Configure a Prometheus of your own.",
        {"config": "Write prometheus.yml, recording rules and alerts."},
    ),
    "dashboards": Group(
        "Build, check and publish Grafana dashboards.",
        {
            "build": "Write dashboards and provisioning files.",
            "check": "Check that queries use only exported metrics and labels.",
            "push": "Push dashboards and alerts to a Grafana server.",
            "open": "Open the fleet overview in a browser.",
        },
    ),
    "bundle": Group(
        "Build the runtimes that are pushed to devices.",
        {"build": "Build a self-contained bundle, unless it exists."},
    ),
    "models": Group(
        "Manage models and data sets of mobile tasks.",
        {
            "list": "List models and data sets, and which are in the store.",
            "verify": "Check checksums and the signature of each model.",
            "add": "Add a model, data set, task or stack to the store.",
            "fetch": "Download the models, weights and data sets of workloads.",
            "prepare": "Add a published data set to all tasks that use it.",
        },
    ),
    "stacks": Group(
        "Show and install this host's software stacks.",
        {
            "list": "List all stacks and whether this host can run them.",
            "show": "Show a stack's packages, oneDNN and knobs.",
            "install": "Install a stack's own environment.",
        },
    ),
    "bench": Group(
        "Measure benchfarm's own overhead and accuracy.",
        {
            "harness": "Measure the overhead on a query of about 5 ms.",
            "compare": "Check how often intervals contain a known difference.",
            "api": "Measure how long a flood of requests delays others.",
        },
    ),
    "kernels": Group(
        "Check and benchmark the custom operators.",
        {
            "check": "Compare each operator's results with its reference.",
            "bench": "Time each operator against its baselines.",
            "sweep": "Print a sweep of all operators and variants as YAML.",
        },
    ),
    "profile": Group(
        "Show where the time of training steps goes.",
        {
            "import": "Import a oneDNN verbose log or a torch.profiler trace.",
            "show": "Show a profile's top ops, primitives and modules.",
            "diff": "Show what two profiles differ in, largest difference first.",
            "advise": "Advise what to change, most seconds saved first.",
            "budget": "Show what is between a step's time and the machine's peaks.",
            "topdown": "Show the top-down shares that perf or PerfSpect counted.",
            "run": "Time, profile and replay a training workload.",
            "export": "Export a profile for another program.",
            "report": "Write a profile as one HTML page.",
        },
        {
            "diff": "profile_diff:diff_",
            "advise": "profile_advise:advise_",
            "report": "profile_report:report_",
        },
    ),
    "machine": Group(
        "Measure this host's peak performance.",
        {"peaks": "Measure peak matrix products, copies and fused updates."},
    ),
    "token": Group(
        "Manage the tokens of users.",
        {
            "create": "Create a user's token and print it once.",
            "list": "List all tokens, without their secrets.",
            "revoke": "Revoke a user's token at once.",
        },
    ),
    "api": Group(
        "Serve results to the team over HTTP.",
        {"serve": "Serve results, sweeps and devices until Ctrl-C."},
    ),
    "store": Group(
        "Find damage in the store, and salvage the rest.",
        {
            "check": "Read the whole store and list what is damaged.",
            "salvage": "Copy everything undamaged into a new store.",
        },
    ),
}


def commands() -> dict[str, LazyCommand | LazyGroup]:
    """Return all commands and groups by their names."""
    return {name: _made(name, said) for name, said in COMMANDS.items()}


def _made(name: str, said: Verb | Group) -> LazyCommand | LazyGroup:
    if isinstance(said, Verb):
        return LazyCommand(name, said.summary, f"controller.cli.{said.place}")
    places = {verb: f"controller.cli.{said.places.get(verb, name)}" for verb in said.verbs}
    return lazy_group(name, said.summary, places, said.verbs)
