"""For programs that ask a service of Stagewise: `Federation` is a policy like any other."""

from stagewise.client.federation import Federation
from stagewise.client.http import ServiceError

__all__ = ["Federation", "ServiceError"]
