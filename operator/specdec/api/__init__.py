"""The Kubernetes API: models of `SpecDecodeServer`, its conditions and reasons, and the CRD made of them."""
