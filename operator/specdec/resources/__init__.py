"""What a server consists of in the cluster: launch plan, workload, services, policies. Pure."""
