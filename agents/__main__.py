"""`python -m agents ADDRESS`: start this host's agent on its Ray node.

A separate process, so that the controller's side need not import the agents'. Options come as one
JSON object on standard input; the answer is one JSON object on standard output.
"""

from __future__ import annotations

import json
import sys

import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from agents.actor import AgentActor, AgentOptions
from agents.host.facts import agent_id
from controller.contracts.errors import BenchfarmError
from controller.contracts.ray_names import NAMESPACE, agent_actor
from controller.platform.programs import away_from_current_folder


def main() -> int:
    """Start the agent actor pinned to this node, or find it; wait until it has registered."""
    options = AgentOptions(**json.load(sys.stdin))
    name = agent_id(options.machine)
    with away_from_current_folder():
        ray.init(
            address=sys.argv[1],
            _node_ip_address=sys.argv[1].rpartition(":")[0],
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="ERROR",
        )
    node_id = ray.get_runtime_context().get_node_id()
    actor = (
        ray.remote(AgentActor)
        .options(
            name=agent_actor(name, node_id),
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_concurrency=1000,
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        )
        .remote(options)
    )
    try:
        revoked = ray.get(actor.ready.remote())
    except RayTaskError as error:
        if not isinstance(error.cause, BenchfarmError):
            raise
        sys.stdout.write(json.dumps({"error": str(error.cause)}) + "\n")
        return 1
    sys.stdout.write(json.dumps({"agent_id": name, "revoked": revoked}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
