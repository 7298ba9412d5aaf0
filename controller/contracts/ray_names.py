"""The names by which controller and agents find each other in Ray."""

NAMESPACE = "benchfarm"
CONTROLLER = "controller"


def agent_actor(agent_id: str) -> str:
    """Return the actor name of a host's agent."""
    return f"agent:{agent_id}"
