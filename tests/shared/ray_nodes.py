"""Holds a Ray cluster of two nodes on the loopback interface until its standard input ends; says where it is."""

import json
import sys

from ray._private.node import Node
from ray.cluster_utils import Cluster


def processes(node: Node) -> list[int]:
    """Ids of the processes of a node."""
    return [one.process.pid for some in node.all_processes.values() for one in some]


def main() -> None:
    """Start the cluster, say its address and processes in a line of JSON, and stop it in the end."""
    options = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    second = cluster.add_node(**options)
    told = {"address": cluster.address, "head": processes(cluster.head_node), "second": processes(second)}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
