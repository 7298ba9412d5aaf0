"""What a stranger gets from open ports: run on a host with addresses, HOST:PORT each, as arguments.

Prints, as JSON, each address with the requests that were served there. A token in PROBE_TOKEN is
shown with every request, to see that the requests are good ones.
"""

from __future__ import annotations

import http.client
import json
import os
import sys

import grpc  # type: ignore[import-untyped]

PATHS = (
    "/",
    "/metrics",
    "/api/version",
    "/api/jobs/",
    "/api/job_agent/jobs/",
    "/api/healthz",
    "/api/local_raylet_healthz",
    "/v1/prometheus/targets",
    "/v1/sweeps/x/events",
    "/logs",
    "/nodes?view=summary",
)
CALLS = (
    "/grpc.health.v1.Health/Check",
    "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "/ray.rpc.NodeInfoGcsService/GetClusterId",
    "/ray.rpc.NodeInfoGcsService/CheckAlive",
    "/ray.rpc.InternalKVGcsService/InternalKVKeys",
    "/ray.rpc.JobInfoGcsService/GetAllJobInfo",
    "/ray.rpc.ActorInfoGcsService/GetAllActorInfo",
    "/ray.rpc.NodeManagerService/GetSystemConfig",
    "/ray.rpc.NodeManagerService/GetNodeStats",
    "/ray.rpc.ObjectManagerService/FreeObjects",
    "/ray.rpc.CoreWorkerService/GetCoreWorkerStats",
    "/ray.rpc.RayletDriver/ClusterInfo",
    "/ray.rpc.RayletDriver/KvList",
    "/ray.rpc.LogService/ListLogs",
    "/ray.rpc.ReporterService/GetTraceback",
    "/ray.rpc.JobAgentService/InitJobEnv",
)
PATIENCE_S = 2.0


def served_over_http(address: str, headers: dict[str, str]) -> list[str]:
    served: list[str] = []
    for path in PATHS:
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers=headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return served  # it doesn't speak HTTP
        finally:
            connection.close()
        if status < http.client.BAD_REQUEST:
            served.append(path)
    return served


def served_over_grpc(address: str, headers: dict[str, str]) -> list[str]:
    served: list[str] = []
    metadata = [(key.lower(), value) for key, value in headers.items()]
    with grpc.insecure_channel(address) as channel:
        for call in CALLS:
            try:
                channel.unary_unary(call)(b"", timeout=PATIENCE_S, metadata=metadata)
                served.append(call)
            except grpc.RpcError as error:
                # What stumbles over the request itself has let the caller in.
                if error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT):
                    served.append(f"{call}: {error.code()} {error.details()}")
                if error.code() in (
                    grpc.StatusCode.UNAVAILABLE,
                    grpc.StatusCode.DEADLINE_EXCEEDED,
                ):
                    break  # it doesn't speak gRPC
    return served


def main() -> None:
    token = os.environ.get("PROBE_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    found = {a: served_over_http(a, headers) + served_over_grpc(a, headers) for a in sys.argv[1:]}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
