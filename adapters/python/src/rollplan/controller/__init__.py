"""A Deployment controller that carries out the plans of the service: docs/adapters.md."""
