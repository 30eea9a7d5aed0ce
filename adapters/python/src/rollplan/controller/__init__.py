"""A Deployment controller that carries out the plans of the service: docs/adapters.md."""

from importlib.util import find_spec

for _name in ("kubernetes", "prometheus_client"):
    if find_spec(_name) is None:
        raise ImportError(f"the controller needs the package {_name}: pip install 'rollplan[controller]'")
