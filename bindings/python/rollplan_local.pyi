"""The planner in this process. Use it by rollplan.Planner.local()."""

class Cancellation:
    """Ends a call from another thread."""

    def __init__(self) -> None: ...
    def cancel(self) -> None:
        """Ends the call. Its answer is then an error."""

def call(
    method: str, request: bytes, timeout_seconds: float, cancellation: Cancellation
) -> tuple[int, bytes]:
    """Answers an encoded request. Returns a code of gRPC, and the response, or the google.rpc.Status."""
