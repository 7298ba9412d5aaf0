"""The names by which controller and agents find each other in Ray."""

NAMESPACE = "benchfarm"
CONTROLLER = "controller"


def agent_actor(agent_id: str, node_id: str) -> str:
    """Return the actor name of a host's agent; the name includes the Ray node, with which the actor
    ends."""
    return f"agent:{agent_id}@{node_id}"
