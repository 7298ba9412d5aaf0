"""The names by which controller and agents find each other in Ray."""

NAMESPACE = "benchfarm"
CONTROLLER = "controller"


def agent_actor(agent_id: str, node_id: str) -> str:
    """Return the actor name of a host's agent; it belongs to a Ray node, and ends with it."""
    return f"agent:{agent_id}@{node_id}"
