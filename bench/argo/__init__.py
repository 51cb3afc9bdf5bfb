"""Argo Rollouts and Prometheus beside our operator, on the same cluster with the same engines."""
